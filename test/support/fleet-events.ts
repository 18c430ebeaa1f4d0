/** Events of a fleet without listeners. */
import type { FleetEvents } from '../../src/upstream/fleet-state.ts';

export const quietEvents: FleetEvents = {
  onChange: () => undefined,
  onUnconfirmed: () => undefined,
  onGeneration: () => undefined,
  onRefused: () => undefined,
  onConfirmed: () => undefined,
  onHead: () => undefined,
  onAwaited: () => undefined,
};
