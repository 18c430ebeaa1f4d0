/**
 * The settled chain id of each node, and the identity of the fleet's ledger by the hash of its first transaction: test
 * networks are created anew under the same chain id, and then every version has other contents, so keys of stored data
 * contain that hash as well (protocol 1.2).
 */
import { type CancelSignal, JsonBody } from '../../ledger/index.ts';

/**
 * The chain id of one node. An answer alone does not change it: one address may lead to nodes of two networks, and one
 * misrouted answer would turn the whole ledger over. Another chain id raises a doubt. A look at the ledger info that was
 * sent after it, with no report of the old chain in between, settles the doubt.
 */
export class NodeChain {
  /** The settled chain id; `undefined` until the node has reported the fleet's chain, or a look has settled another. */
  id: number | undefined;
  /** The other chain id, and since when every report has been of it. */
  #doubt: { readonly chainId: number; sinceMs: number } | undefined;

  /** The reported chain id that is not settled yet; `undefined` without a doubt. */
  get doubted(): number | undefined {
    return this.#doubt?.chainId;
  }

  /**
   * Records the chain id of an answer; `lookSentAtMs`: of the look that it is to. Returns whether the answer is of the
   * node's settled chain, by default the fleet's.
   */
  observe(chainId: number, fleetChainId: number | undefined, nowMs: number, lookSentAtMs?: number): boolean {
    const doubt = this.#doubt;
    const expected = this.id ?? fleetChainId;
    if (expected === undefined) return this.settle(chainId);
    if (chainId === expected) {
      if (doubt === undefined || lookSentAtMs !== undefined) return this.settle(chainId);
      // Both chains answer: a look in flight proves nothing any more.
      doubt.sinceMs = nowMs;
      return this.id !== undefined;
    }
    if (doubt?.chainId !== chainId) this.#doubt = { chainId, sinceMs: nowMs };
    else if (lookSentAtMs !== undefined && lookSentAtMs >= doubt.sinceMs) return this.settle(chainId);
    return false;
  }

  settle(chainId: number): true {
    this.id = chainId;
    this.#doubt = undefined;
    return true;
  }
}

/** The ledger's name when no node reports the first transaction. */
const unnamed = 'nogenesis';
const retryMs = 2_000;
/** A node that holds version 0 may come back or be added to the fleet. */
const recheckMs = 60_000;
const firstTransaction = {
  wire: { method: 'GET', path: '/transactions/by_version/0', headers: { accept: 'application/json' } },
  need: { kind: 'version', version: 0n as never },
  promised: 'either',
  isIdempotent: true,
} as const;

interface WholeReads {
  whole(
    request: typeof firstTransaction,
    signal: CancelSignal,
  ): Promise<{ readonly status: number; readonly body: Buffer }>;
}

type LedgerOfFleet = { readonly chainId: number | undefined; readonly generation: number };

/** The name of the ledger after its first transaction, read from the fleet once per generation. */
export class LedgerIdentity {
  readonly #fleet: LedgerOfFleet;
  readonly #sender: WholeReads;
  readonly #stop = new AbortController();
  #name: string | undefined;
  /** The fleet's generation that the name is of. */
  #generation = 0;
  /** Time of the next read, on the clock of `performance.now()`. */
  #dueAtMs = Infinity;

  constructor(fleet: LedgerOfFleet, sender: WholeReads) {
    this.#fleet = fleet;
    this.#sender = sender;
  }

  /**
   * The first eight digits of the first transaction's hash; `nogenesis` when no node reports it, `undefined` while no node
   * answers. Nodes prune that transaction, but keep versions for longer than a cache keeps answers of an earlier network.
   */
  get name(): string | undefined {
    const isAnother = this.#generation !== this.#fleet.generation;
    // The ledger of a new generation may be another one: it has no name until the fleet has answered.
    if (isAnother) this.#name = undefined;
    if (isAnother || performance.now() >= this.#dueAtMs) void this.look();
    return this.#name;
  }

  /** Reads the name from the fleet. Resolves after the first attempt; readers of `name` cause the next ones. */
  async look(): Promise<void> {
    const { generation } = this.#fleet;
    this.#generation = generation;
    this.#dueAtMs = Infinity;
    const name = await this.#ask().catch(() => undefined);
    if (generation !== this.#generation) return;
    this.#name = name ?? this.#name;
    const againMs = name === undefined ? retryMs : name === unnamed ? recheckMs : Infinity;
    this.#dueAtMs = performance.now() + againMs;
  }

  close(): void {
    this.#stop.abort(new Error('closing'));
  }

  async #ask(): Promise<string | undefined> {
    if (this.#fleet.chainId === undefined) return undefined;
    const { status, body } = await this.#sender.whole(firstTransaction, this.#stop.signal);
    // Any other refusal means that the node does not hold its first transaction.
    if (status !== 200) return status < 500 ? unnamed : undefined;
    // Whole: the first transaction of a ledger has megabytes, more than `JsonBody` reads.
    const hash = (await JsonBody.skim(body, ''))?.members['hash'];
    const digits = typeof hash === 'string' ? /^0x([0-9a-f]{8})[0-9a-f]{56}$/.exec(hash)?.[1] : undefined;
    return digits ?? unnamed;
  }
}
