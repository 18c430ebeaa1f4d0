/** Events of a fleet that nobody listens to. */
import type { FleetEvents } from '../../src/upstream/fleet.ts';

export const quietEvents: FleetEvents = {
  onChange: () => undefined,
  onDoubt: () => undefined,
  onGeneration: () => undefined,
  onRefused: () => undefined,
  onAwaited: () => undefined,
};
