/** Requests for event streams: each kind of read has a stream of its own, or none. */
import type { Exchange } from '../http/index.ts';
import type { Reads } from '../reads/index.ts';
import type { Match } from './router.ts';

/** Opens the event streams of one process. */
export class Push {
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_reads: Reads) {}

  /** Resolves at the head: the stream outlives it. `undefined`: the route has no streams, and answers as ever. */
  serve(_exchange: Exchange, _match: Match, _body: Buffer | undefined): Promise<void> | undefined {
    return undefined;
  }
}
