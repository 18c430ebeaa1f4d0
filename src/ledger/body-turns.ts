/**
 * A share of each turn of the event loop for work on large texts: whatever is sent, other clients' requests are answered
 * in between. Work beyond the share waits for later turns, one piece of each client after the other.
 */

/** Bounds the time that pieces of work take in one turn: the share, and what its last piece takes beyond it. */
export class BodyTurns {
  readonly #mostMs: number;
  readonly #now: () => number;
  #spentMs = 0;
  #isTurnBegun = false;
  /** By client, in the order of their next piece. As many as requests and answers in flight. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** `now`: monotonic, in milliseconds. */
  constructor(mostMs: number, now: () => number = () => performance.now()) {
    this.#mostMs = mostMs;
    this.#now = now;
  }

  /** Runs `work`, at once while the turn has time left and no one waits. Throws or rejects as `work` does. */
  run<T>(client: string, work: () => T): T | Promise<T> {
    if (this.#waiting.size === 0 && this.#spentMs < this.#mostMs) return this.#measure(work);
    return new Promise((resolve, reject) => {
      const pieces = this.#waiting.get(client) ?? [];
      this.#waiting.set(client, pieces);
      pieces.push(() => {
        try {
          resolve(this.#measure(work));
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  #measure<T>(work: () => T): T {
    this.#beginTurn();
    const startedMs = this.#now();
    try {
      return work();
    } finally {
      this.#spentMs += this.#now() - startedMs;
    }
  }

  #beginTurn(): void {
    if (this.#isTurnBegun) return;
    this.#isTurnBegun = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#isTurnBegun = false;
    this.#spentMs = 0;
    while (this.#spentMs < this.#mostMs) {
      const [first] = this.#waiting;
      if (first === undefined) return;
      const [client, pieces] = first;
      const piece = pieces.shift();
      this.#waiting.delete(client);
      if (pieces.length > 0) this.#waiting.set(client, pieces);
      piece?.();
    }
  }
}

/** The share of the process for bodies of requests and answers: a millisecond, which is less than a turn under load. */
export const bodyTurns = new BodyTurns(1);
