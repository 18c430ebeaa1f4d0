/** An account of a counter. */
interface Account {
  /** Last use that the order of eviction knows; a time of the caller's clock. */
  usedAtMs: number;
}

/** An account used within this time keeps its place in the order of eviction. */
const recentMs = 1_000;

/** Accounts by name, bounded in number: the least recently used one is dropped for a new one. */
export class Accounts<T extends Account> {
  readonly #most: number;
  readonly #byName = new Map<string, T>();

  constructor(most: number) {
    this.#most = most;
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
    known.usedAtMs = nowMs;
    this.#byName.delete(name);
    this.#byName.set(name, known);
    return known;
  }

  /** Adds an account, or replaces it; returns the one that is dropped for want of room. */
  add(name: string, account: T, nowMs: number): T | undefined {
    account.usedAtMs = nowMs;
    this.#byName.delete(name);
    this.#byName.set(name, account);
    if (this.#byName.size <= this.#most) return undefined;
    const [oldest] = this.#byName;
    if (oldest === undefined) return undefined;
    this.#byName.delete(oldest[0]);
    return oldest[1];
  }

  clear(): void {
    this.#byName.clear();
  }
}
