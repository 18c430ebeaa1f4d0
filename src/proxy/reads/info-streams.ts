/** Streams of the ledger info: an event whenever the shared state moves. */
import type { Freshness } from './freshness.ts';
import type { Pulse } from './pulse.ts';
import type { StreamClient } from './push-types.ts';

/** The streams of the ledger info of one process. */
export class InfoStreams {
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_freshness: Freshness, _pulse: Pulse) {}

  /** Begins with the state of now. The client's sink is open. */
  open(_client: StreamClient): void {}
}
