/**
 * Names in Redis, readable for an operator: `lg:1:1a2b3c4d:0k3v9aq2:4|resource|0x1/0x1::coin::CoinInfo<…>|json|24414`
 * is a page of references (a hash, field = slot), `lg:1:1a2b3c4d:=DIGEST` an answer,
 * `lg:1:1a2b3c4d:0k3v9aq2:!PAGE@SLOT` the lease of a read in flight. The parts before the last are the config's prefix,
 * the format, the ledger's first transaction (a recreated test network keeps its chain id, but not that; protocol 1.2),
 * and the term of its history. An answer has no term: its name is a digest of its content, and only references connect
 * it to reads.
 */
import { hash } from 'node:crypto';
import { segmentAt, type Term } from '../history/terms.ts';
import { recordFormat } from '../record.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import { accountStarts } from '../purge/purge-scope.ts';

/** The parts of a term that decide names. */
export type NamedTerm = Pick<Term, 'id' | 'before' | 'checkpoint'>;

/** Names in Redis on the history of `term`. */
export class AnswerNames {
  readonly #start: string;
  readonly #term: NamedTerm;

  /** `ledger`: distinguishes ledgers of one chain id. */
  constructor(prefix: string, ledger: string, term: NamedTerm) {
    this.#start = startOf(prefix, ledger);
    this.#term = term;
  }

  /** The name of the page, in the term of the key's version. */
  page(key: CacheKey): string {
    return pageIn(this.#start, segmentAt(this.#term, versionOf(key)), key);
  }

  /** Whether an answer of a node at `head` may be stored: below the checkpoint the node may be on another history. */
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

/** Names of one ledger in all terms, for a purge. */
export class LedgerNames {
  readonly #start: string;

  constructor(prefix: string, ledger: string) {
    this.#start = startOf(prefix, ledger);
  }

  /** The SCAN pattern of all names. */
  get all(): string {
    return `${globText(this.#start)}*`;
  }

  /** The names of the key's page in these terms. */
  pagesOf(key: CacheKey, terms: readonly string[]): readonly string[] {
    return terms.map((id) => pageIn(this.#start, id, key));
  }

  /** The SCAN pattern of one read's pages; for a view, of all pages of its function. */
  pagesOfRead(read: string): string {
    return this.#inEveryTerm(isView(read) ? `${viewName(read)}|` : read);
  }

  /** SCAN patterns of the pages that may depend on an account's state. */
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

/** A view's JSON becomes a digest: it may be long, and its braces would decide the key's slot in a cluster. */
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

/** Escapes the special characters of a SCAN pattern. */
function globText(text: string): string {
  return text.replace(/[*?[\]\\^]/g, '\\$&');
}
