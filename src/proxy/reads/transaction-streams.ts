/** Streams of transactions: each is a cursor into the ledger, and gets frames from the tail or from page reads. */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { Filter, StreamClient } from './push-types.ts';
import type { Caller, ReadResult } from './read.ts';
import type { Freshness } from './freshness.ts';
import type { Pulse } from './pulse.ts';
import type { Reader } from './reader.ts';
import type { Follower } from './follower.ts';
import type { Tail } from './tail.ts';

/** The streams of transactions of one process. */
export class TransactionStreams {
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_reader: Reader, _freshness: Freshness, _tail: Tail, _follower: Follower, _pulse: Pulse) {}

  /** Open streams. */
  get size(): number {
    return 0;
  }

  /** The page at `cursor`, which decides the answer's status; `undefined`: the tail has it, or the ledger is behind. */
  firstPage(_cursor: LedgerVersion, _caller: Caller): Promise<ReadResult | undefined> {
    return Promise.resolve(undefined);
  }

  /** Begins at `cursor`. The client's sink is open. */
  open(_client: StreamClient, _cursor: LedgerVersion, _filter: Filter | undefined): void {}
}
