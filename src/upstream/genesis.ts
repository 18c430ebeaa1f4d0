/**
 * Which ledger this is. Test networks are created anew under the same chain id, and then every version has other
 * contents: what outlives this process is kept under the ledger's first transaction as well (protocol 1.2).
 */
import type { Fleet } from './fleet.ts';
import type { Sender } from './sender.ts';

/** The ledger's name where no node tells its first transaction's hash. */
const unnamed = 'nogenesis';
const retryMs = 2_000;
/** A node that holds version 0 may come back or be added to the fleet. */
const recheckMs = 60_000;
const request = {
  wire: { method: 'GET', path: '/transactions/by_version/0', headers: { accept: 'application/json' } },
  need: { kind: 'version', version: 0n as never },
  promised: 'either',
  isIdempotent: true,
} as const;

export class Genesis {
  readonly #fleet: Fleet;
  readonly #sender: Sender;
  readonly #stop = new AbortController();
  #name: string | undefined;
  /** The fleet's generation that the name is of. */
  #generation = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(fleet: Fleet, sender: Sender) {
    this.#fleet = fleet;
    this.#sender = sender;
  }

  /**
   * The first eight digits of the first transaction's hash; `nogenesis` where no node tells it. Nodes prune it, but not
   * before answers of an earlier network have left a cache that keeps them for a shorter time than nodes keep versions.
   * `undefined` while nobody could be asked.
   */
  get name(): string | undefined {
    if (this.#generation === this.#fleet.generation) return this.#name;
    // The ledger went back: it may be another one, and until that is known it has no name.
    this.#generation = this.#fleet.generation;
    this.#name = undefined;
    clearTimeout(this.#timer);
    void this.#look();
    return undefined;
  }

  /** Asks until it is known, and goes on by itself where no node tells it. Resolves after the first attempt. */
  start(): Promise<void> {
    this.#generation = this.#fleet.generation;
    return this.#look();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#stop.abort(new Error('closing'));
  }

  async #look(): Promise<void> {
    const generation = this.#generation;
    const found = await this.#ask().catch(() => undefined);
    if (this.#stop.signal.aborted || generation !== this.#generation) return;
    this.#name = found ?? this.#name;
    if (found !== undefined && found !== unnamed) return;
    this.#timer = setTimeout(() => void this.#look(), found === undefined ? retryMs : recheckMs);
    this.#timer.unref();
  }

  async #ask(): Promise<string | undefined> {
    if (this.#fleet.chainId === undefined) return undefined;
    const { status, body } = await this.#sender.whole(request, this.#stop.signal);
    if (status === 200) return hashOf(body.toString()) ?? unnamed;
    // Whatever else a node says of its first transaction: it cannot tell.
    return status < 500 ? unnamed : undefined;
  }
}

function hashOf(body: string): string | undefined {
  const { hash } = JSON.parse(body) as { readonly hash?: unknown };
  return typeof hash === 'string' ? /^0x([0-9a-f]{8})[0-9a-f]{56}$/.exec(hash)?.[1] : undefined;
}
