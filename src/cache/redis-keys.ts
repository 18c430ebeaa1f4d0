/**
 * Names in Redis, made to be read by an operator:
 * `lg:1:1a2b3c4d:4|resource|0x1/0x1::coin::CoinInfo<…>|json|24414` is a page of references (a hash, field = slot),
 * `lg:1:1a2b3c4d:=DIGEST` an answer, `lg:1:1a2b3c4d:!PAGE@SLOT` the lease of a read that is under way.
 * The parts before the last are the prefix of the config, the format, and the genesis of the ledger: a test network
 * that is created anew keeps its chain id, but not its first transaction (protocol 1.2).
 */
import { hash } from 'node:crypto';
import { recordFormat } from './record.ts';
import { digestMark, keyText, type CacheKey } from './key.ts';

export class RedisKeys {
  readonly #start: string;

  /** `ledger`: what tells this ledger from others of the same chain id. */
  constructor(prefix: string, ledger: string) {
    this.#start = `${prefix}:${recordFormat}:${ledger}:`;
  }

  /** Everything of this ledger, as a pattern of SCAN. */
  get all(): string {
    return `${globText(this.#start)}*`;
  }

  /** Names below which the pages of one read are, and of nothing else but, of a view, the function's other pages. */
  pagesOfRead(read: string): string {
    if (!isView(read)) return `${globText(this.#start + read)}*`;
    return `${globText(`${this.#start}${viewName(read)}|`)}*`;
  }

  /** Pages that may depend on an account's state, as patterns of SCAN. `chainId` is the key's first part. */
  pagesOfAccount(chainId: number, address: string): readonly string[] {
    const own = ['resource', 'module'].flatMap((operation) => [
      `${chainId}|${operation}|${address}/`,
      // Whose these are is not to be told any more.
      `${chainId}|${operation}|${digestMark}`,
    ]);
    return [...own, `${chainId}|view|`].map((start) => `${globText(this.#start + start)}*`);
  }

  page({ page }: CacheKey): string {
    return this.#start + plainPage(page);
  }

  answer(digest: string): string {
    return `${this.#start}=${digest}`;
  }

  lease(key: CacheKey): string {
    return `${this.#start}!${plainPage(keyText(key))}`;
  }
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
