/** Events of a fleet that nobody listens to. */
import type { FleetEvents } from '../../src/upstream/fleet.ts';

export const quietEvents: FleetEvents = {
  onForeign: () => undefined,
  onDoubt: () => undefined,
  onSuspect: () => undefined,
  onGeneration: () => undefined,
  onRollback: () => undefined,
  onReplaced: () => undefined,
  onRefused: () => undefined,
  onAwaited: () => undefined,
  onOutage: () => undefined,
};
