/**
 * Names in Redis, made to be read by an operator:
 * `lg:1:1a2b3c4d:0k3v9aq2:4|resource|0x1/0x1::coin::CoinInfo<…>|json|24414` is a page of references (a hash, field =
 * slot), `lg:1:1a2b3c4d:=DIGEST` an answer, `lg:1:1a2b3c4d:0k3v9aq2:!PAGE@SLOT` the lease of a read that is under way.
 * The parts before the last are the prefix of the config, the format, the genesis of the ledger (a test network that is
 * created anew keeps its chain id, but not its first transaction; protocol 1.2), and the term of its history. An answer
 * has none: its name is a digest of its content, and only a reference says what it is the answer to.
 */
import { hash } from 'node:crypto';
import { segmentAt, type Term } from './history-terms.ts';
import { recordFormat } from '../answer-record.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import { accountStarts } from '../purge/purge-scope.ts';

/** What of a term its names depend on. */
export type NamedTerm = Pick<Term, 'id' | 'before' | 'checkpoint'>;

/** Names for a process that is on the history of `term`. */
export class AnswerNames {
  readonly #start: string;
  readonly #term: NamedTerm;

  /** `ledger`: what tells this ledger from others of the same chain id. */
  constructor(prefix: string, ledger: string, term: NamedTerm) {
    this.#start = startOf(prefix, ledger);
    this.#term = term;
  }

  /** The name of the page, below the term that the key's version belongs to. */
  page(key: CacheKey): string {
    return pageIn(this.#start, segmentAt(this.#term, versionOf(key)), key);
  }

  /**
   * Whether an answer may be kept under these names, of a node whose own ledger was at `head`. A node that is below the
   * checkpoint may have gone back, and may be on another history by now.
   */
  admits(head: bigint | undefined): boolean {
    return head !== undefined && head >= this.#term.checkpoint.version;
  }

  answer(digest: string): string {
    return `${this.#start}=${digest}`;
  }

  lease(key: CacheKey): string {
    return `${this.#start}${this.#term.id}:!${plainPage(keyText(key))}`;
  }
}

/** Names of one ledger whatever its history: what a purge deletes. */
export class LedgerNames {
  readonly #start: string;

  constructor(prefix: string, ledger: string) {
    this.#start = startOf(prefix, ledger);
  }

  /** Everything of this ledger, as a pattern of SCAN. */
  get all(): string {
    return `${globText(this.#start)}*`;
  }

  /** The names of the key's page in these terms. */
  pagesOf(key: CacheKey, terms: readonly string[]): readonly string[] {
    return terms.map((id) => pageIn(this.#start, id, key));
  }

  /** Names below which the pages of one read are, and of nothing else but, of a view, the function's other pages. */
  pagesOfRead(read: string): string {
    return this.#inEveryTerm(isView(read) ? `${viewName(read)}|` : read);
  }

  /** Pages that may depend on an account's state, as patterns of SCAN. */
  pagesOfAccount(chainId: number, address: string): readonly string[] {
    return accountStarts(chainId, address).map((start) => this.#inEveryTerm(start));
  }

  #inEveryTerm(start: string): string {
    return `${globText(this.#start)}????????:${globText(start)}*`;
  }
}

function startOf(prefix: string, ledger: string): string {
  return `${prefix}:${recordFormat}:${ledger}:`;
}

function pageIn(start: string, term: string, { page }: CacheKey): string {
  return `${start}${term}:${plainPage(page)}`;
}

/**
 * Views hold JSON: their text becomes a digest behind the function's name, because it may be long, holds spaces, and
 * braces decide a key's slot in a cluster.
 */
function plainPage(page: string): string {
  return isView(page) ? `${viewName(page)}|${hash('sha256', page, 'base64url')}` : page;
}

function isView(page: string): boolean {
  return page.includes('|view|');
}

function viewName(page: string): string {
  const name = /"function":"([\w:]{1,200})"/.exec(page)?.[1] ?? '';
  const [chainId = ''] = page.split('|', 1);
  return `${chainId}|view|${name}`;
}

/** SCAN reads `*?[]\` as patterns. */
function globText(text: string): string {
  return text.replace(/[*?[\]\\^]/g, '\\$&');
}
