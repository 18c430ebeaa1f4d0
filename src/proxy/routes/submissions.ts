/**
 * The node that accepted each transaction: only its mempool surely holds a new one. Processes that share a port publish
 * the node to each other before the client is answered, because its next request may reach any of them.
 */
import { LRUCache } from 'lru-cache';
import { JsonBody, TransactionHash } from '../../ledger/index.ts';
import type { NodeAnswer } from '../../upstream/index.ts';

/** Longer than a transaction stays in a mempool. */
const rememberMs = 10 * 60_000;
const maxRemembered = 100_000;

/** Nodes by the hash of the transaction that they accepted, for 10 minutes. */
export class Submissions {
  readonly #onAccepted: (hash: string, upstream: string) => Promise<void> | void;
  readonly #nodes = new LRUCache<string, string>({
    // By size, which is their number: `max` would allocate room for all of them at the start, for 20 ms.
    maxSize: maxRemembered,
    sizeCalculation: () => 1,
    ttl: rememberMs,
    ttlResolution: 1000,
  });

  /** `onAccepted` publishes an accepted transaction; the client's answer waits for its promise. */
  constructor(onAccepted: (hash: string, upstream: string) => Promise<void> | void = () => undefined) {
    this.#onAccepted = onAccepted;
  }

  /** Records and publishes a transaction that the node accepted with 202. Resolves once it is published. */
  recordAnswer(
    upstream: string,
    { status, body, json }: Pick<NodeAnswer, 'status' | 'body' | 'json'>,
  ): Promise<void> | void {
    if (status !== 202) return undefined;
    if (!json.isOpaque) return this.#publish(json.members['hash'], upstream);
    return JsonBody.skim(body, '').then((facts) => this.#publish(facts?.members['hash'], upstream));
  }

  #publish(hash: unknown, upstream: string): Promise<void> | void {
    // BCS answers have none.
    if (!TransactionHash.isWritten(hash)) return undefined;
    this.record(hash, upstream);
    return this.#onAccepted(hash, upstream);
  }

  /** Records a transaction that the node accepted, here or through another process. */
  record(hash: string, upstream: string): void {
    this.#nodes.set(hash, upstream);
  }

  /** Name of the node that accepted the transaction, if it is recorded. */
  submittedTo(hash: string): string | undefined {
    return this.#nodes.get(hash);
  }
}
