/** Which node took which transaction: only its mempool surely knows a transaction that was just submitted. */
import { LRUCache } from 'lru-cache';
import type { TransactionHash } from '../ledger/transaction-hash.ts';

/** Longer than a transaction lives in a mempool before it is committed or expires. */
const rememberMs = 10 * 60_000;
const maxRemembered = 100_000;

export class Submissions {
  readonly #takers = new LRUCache<string, string>({ max: maxRemembered, ttl: rememberMs, ttlResolution: 1000 });

  /** Learns from a node's answer to a submission; other answers teach nothing. */
  learn(upstream: string, answer: { readonly status: number; readonly body: Buffer }): void {
    if (answer.status !== 202) return;
    const hash = hashOf(answer.body);
    if (hash !== undefined) this.#takers.set(hash, upstream);
  }

  takerOf(hash: TransactionHash): string | undefined {
    return this.#takers.get(hash);
  }
}

/** The `hash` member of a pending transaction's JSON; a BCS answer does not tell it. */
function hashOf(body: Buffer): string | undefined {
  try {
    const { hash } = JSON.parse(body.toString()) as { hash?: unknown };
    return typeof hash === 'string' && /^0x[0-9a-f]{64}$/.test(hash) ? hash : undefined;
  } catch {
    return undefined;
  }
}
