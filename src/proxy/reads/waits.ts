/** Callers that wait for a transaction's commit, answered when the tail has it. */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { Follower } from './follower.ts';
import type { Caller, Read, ReadResult } from './read.ts';
import type { Reader } from './reader.ts';
import type { Tail } from './tail.ts';

/** The waits of one process, by hash. */
export class Waits {
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_reader: Reader, _tail: Tail, _follower: Follower) {}

  /** Answers at the commit, or as a node's long poll does; `undefined`: a node is to be asked. */
  join(_read: Read, _caller: Caller): Promise<ReadResult> | undefined {
    return undefined;
  }

  /** The known answer to `by_hash` of a pending transaction, of a ledger that has reached `min`. */
  pendingOf(_read: Read, _min: LedgerVersion | undefined): ReadResult | undefined {
    return undefined;
  }
}
