/** A fixed number of places, given out in the order they were asked for. */
import type { StopSignal } from '../ledger/stop.ts';

/** Who comes when so many wait already is refused: nothing queues without bound. */
const mostWaiting = 1_000;

/** All places were taken for as long as the caller would wait, or too many wait already. */
export class NoPlaceError extends Error {
  override readonly name = 'NoPlaceError';
}

export class Slots {
  readonly #count: number;
  /** In order of arrival; each takes over the place it is called with. */
  readonly #waiting = new Set<() => void>();
  #taken = 0;
  #kept = 0;

  constructor(count: number) {
    this.#count = count;
  }

  get taken(): number {
    return this.#taken;
  }

  get isFull(): boolean {
    return this.#taken >= this.#count;
  }

  /**
   * Resolves with a place: the function that gives it back, which may be called more than once. Rejects with
   * `NoPlaceError` when `signal` aborts first, and at once when too many wait.
   */
  async take(signal: StopSignal): Promise<() => void> {
    const free = this.takeFree();
    if (free !== undefined) return free;
    await this.#turn(signal);
    return this.#held();
  }

  /** Keeps a place for who takes one next. Returns whether one was free. */
  keepFree(): boolean {
    if (this.isFull) return false;
    this.#taken += 1;
    this.#kept += 1;
    return true;
  }

  /** A place where one is free now, or was kept. */
  takeFree(): (() => void) | undefined {
    if (this.#kept > 0) {
      this.#kept -= 1;
      return this.#held();
    }
    if (this.isFull) return undefined;
    this.#taken += 1;
    return this.#held();
  }

  #held(): () => void {
    let isHeld = true;
    return () => {
      if (isHeld) this.#giveBack();
      isHeld = false;
    };
  }

  #giveBack(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#taken -= 1;
    else next();
  }

  #turn(signal: StopSignal): Promise<void> {
    const waiting = this.#waiting;
    return new Promise((resolve, reject) => {
      if (signal.aborted || waiting.size >= mostWaiting) {
        reject(new NoPlaceError('no place is free', { cause: signal.reason }));
        return;
      }
      function leave(): void {
        waiting.delete(go);
        signal.removeEventListener('abort', quit);
      }
      function go(): void {
        leave();
        resolve();
      }
      function quit(): void {
        leave();
        reject(new NoPlaceError('no place became free in time', { cause: signal.reason }));
      }
      signal.addEventListener('abort', quit);
      waiting.add(go);
    });
  }
}
