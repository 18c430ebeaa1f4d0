/**
 * Which node took which transaction: only its mempool surely knows a transaction that was just submitted. Processes
 * that serve together tell each other, before the client is answered who may ask any of them next.
 */
import { LRUCache } from 'lru-cache';
import type { TransactionHash } from '../../ledger/transaction-hash.ts';

/** Longer than a transaction lives in a mempool before it is committed or expires. */
const rememberMs = 10 * 60_000;
const maxRemembered = 100_000;

export class Submissions {
  readonly #onAccepted: (hash: string, upstream: string) => Promise<void> | void;
  readonly #nodes = new LRUCache<string, string>({
    // By size, which is their number: `max` would make room for all of them at the start, for 20 ms.
    maxSize: maxRemembered,
    sizeCalculation: () => 1,
    ttl: rememberMs,
    ttlResolution: 1000,
  });

  /** `onAccepted` tells others; what it returns is waited for. */
  constructor(onAccepted: (hash: string, upstream: string) => Promise<void> | void = () => undefined) {
    this.#onAccepted = onAccepted;
  }

  /**
   * Learns from a node's answer to a submission; other answers teach nothing. A promise: others are being told, and the
   * client has to wait for it.
   */
  recordAnswer(upstream: string, answer: { readonly status: number; readonly body: Buffer }): Promise<void> | void {
    if (answer.status !== 202) return undefined;
    const hash = hashOf(answer.body);
    if (hash === undefined) return undefined;
    this.record(hash, upstream);
    return this.#onAccepted(hash, upstream);
  }

  /** Another process saw this node take the transaction. */
  record(hash: string, upstream: string): void {
    this.#nodes.set(hash, upstream);
  }

  submittedTo(hash: TransactionHash): string | undefined {
    return this.#nodes.get(hash);
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
