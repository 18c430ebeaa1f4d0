/** Streams of transactions: each is a cursor into the ledger, and gets frames from the tail or from page reads. */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { Filter, StreamClient } from './push-types.ts';
import type { DemandingCaller, ReadResult } from './read.ts';
import type { Freshness } from './freshness.ts';
import type { Pulse } from './pulse.ts';
import type { Reader } from './reader.ts';
import type { Follower } from './follower.ts';
import type { Tail } from './tail.ts';

/** The start of a stream. */
export interface StreamStart {
  readonly cursor: LedgerVersion;
  /** The client has transactions ahead of this version at most: a rollback does not lead further back. */
  readonly origin: LedgerVersion;
}

/** The streams of transactions of one process. */
export class TransactionStreams {
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_reader: Reader, _freshness: Freshness, _tail: Tail, _follower: Follower, _pulse: Pulse) {}

  /** Open streams. */
  get size(): number {
    return 0;
  }

  /** The start of a stream, or the answer to a read of its first page where that is no success. Rejects with `GatewayError`. */
  prepare(
    { cursor }: { readonly cursor: LedgerVersion | undefined; readonly isResumed: boolean },
    _client: DemandingCaller,
  ): Promise<StreamStart | { readonly refused: ReadResult }> {
    const at = cursor ?? (0n as LedgerVersion);
    return Promise.resolve({ cursor: at, origin: at });
  }

  /** Begins at `start`. The client's sink is open. */
  open(_client: StreamClient, _start: StreamStart, _filter: Filter | undefined): void {}
}
