/** An account used within this time keeps its place in the order of eviction. */
const recentMs = 1_000;

/** Accounts by name, bounded in number: the least recently used one is dropped for a new one. */
export class Accounts<T extends { /** Last use that the order of eviction knows. */ usedAtMs: number }> {
  readonly #most: number;
  readonly #onDropped: (dropped: T) => void;
  readonly #byName = new Map<string, T>();

  constructor(most: number, onDropped: (dropped: T) => void = () => undefined) {
    this.#most = most;
    this.#onDropped = onDropped;
  }

  get size(): number {
    return this.#byName.size;
  }

  values(): Iterable<T> {
    return this.#byName.values();
  }

  /** The account, now the last one to be dropped. `nowMs`: never goes back. */
  use(name: string, nowMs: number): T | undefined {
    const known = this.#byName.get(name);
    if (known === undefined || nowMs - known.usedAtMs < recentMs) return known;
    this.#byName.delete(name);
    return this.#put(name, known, nowMs);
  }

  /** Adds an account, or replaces it; returns it. */
  add(name: string, account: T, nowMs: number): T {
    this.#byName.delete(name);
    this.#put(name, account, nowMs);
    if (this.#byName.size <= this.#most) return account;
    const [oldest] = this.#byName;
    if (oldest === undefined) return account;
    this.#byName.delete(oldest[0]);
    this.#onDropped(oldest[1]);
    return account;
  }

  clear(): void {
    this.#byName.clear();
  }

  #put(name: string, account: T, nowMs: number): T {
    account.usedAtMs = nowMs;
    this.#byName.set(name, account);
    return account;
  }
}
