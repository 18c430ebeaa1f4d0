/** The newest transactions of the ledger: pages that the follower read, as the answers and frames that they contain. */
import type { Cache } from '../../cache/index.ts';
import type { LedgerVersion } from '../../ledger/index.ts';
import type { Fleet, NodeAnswer } from '../../upstream/index.ts';
import type { AnswerFacts } from './policy.ts';
import type { Filter, Page, TransactionFacts } from './push-types.ts';
import type { Read } from './read.ts';

/** A part that reads the tail as it grows. */
export interface TailListener {
  onPage(page: Page): void;
  /** Transactions from `version` on are of another history. */
  onRollback(version: LedgerVersion): void;
  onDistrusted(): void;
}

/** A transaction's bytes as the facts of a node's answer. */
export interface FoundTransaction extends AnswerFacts {
  /** Name of the page's node. */
  readonly upstream: string;
  readonly ownHeaders: string | undefined;
  readonly version: LedgerVersion;
}

/** Frames for `EventSink.send`. */
export interface Frames {
  readonly frames: Buffer;
  /** May be 0: the filter let nothing pass. */
  readonly events: number;
}

/** The ring of pages of one process. */
export class Tail {
  readonly listeners = new Set<TailListener>();

  /** `maxBytes`: of all pages. */
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_fleet: Fleet, _tiers: Pick<Cache['tiers'], 'purges'>, _maxBytes: () => number) {}

  /** The version after the newest; `undefined`: it has none. */
  get next(): LedgerVersion | undefined {
    return undefined;
  }

  /** A page came within 2 s, no history is being compared, and no page is distrusted. */
  get isCurrent(): boolean {
    return false;
  }

  /** Finds since the last call: the need of recent transactions. */
  takeFinds(): number {
    return 0;
  }

  /** Ignores what it has; a page that does not join begins anew. */
  take(_page: Page): void {}

  /** Drops all pages; the next one begins at `next`. */
  restart(_next: LedgerVersion): void {}

  /** Drops transactions from `version` on. */
  rollBack(_version: LedgerVersion): void {}

  /** Finds nothing from now on: a page differed from its node's own answer. */
  distrust(): void {}

  hashOf(_version: LedgerVersion): string | undefined {
    return undefined;
  }

  /** The answer to `by_version` or `by_hash` in JSON, ahead of the policy, which `Reader` applies. */
  find(_read: Read): FoundTransaction | undefined {
    return undefined;
  }

  /** Frames of [from, upTo); `undefined`: `from` is not held. */
  frames(_from: LedgerVersion, _upTo: LedgerVersion, _filter?: Filter): Frames | undefined {
    return undefined;
  }
}

/** The page in a node's answer; `undefined`: its items are not the transactions from `first` on. */
export function cutPage(
  _answer: NodeAnswer,
  _first: LedgerVersion,
  _ownHeaders: string | undefined,
): Promise<Page | undefined> {
  return Promise.resolve(undefined);
}

/** The frame of one transaction. */
export function transactionFrame(version: LedgerVersion, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`id: ${version}\nevent: transaction\ndata: `), bytes, Buffer.from('\n\n')]);
}

/** The facts of a transaction's bytes. */
export function factsOf(_bytes: Buffer): TransactionFacts {
  return { sender: undefined, function: undefined, events: [] };
}
