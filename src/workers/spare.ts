/**
 * One process more than serve: it has loaded everything and waits, so that the place of a lost worker is taken at once.
 * It holds no cache, asks no node and listens to nothing, so no connection is handed to it.
 */
import { BackOff } from './back-off.ts';
import { idle, type Forked, type Role } from './forked.ts';

/** Loading takes a processor for the better part of a second: who has just come to serve goes first. */
const calmMs = 500;

export interface SpareEvents {
  /** Throws where no process can be had. */
  fork(role: Role): Forked;
  /** It is gone without having been taken; `againMs`: when another one is started. */
  onLost(how: string, againMs: number): void;
}

export class Spare {
  readonly #events: SpareEvents;
  readonly #backOff = new BackOff();
  #forked: Forked | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(events: SpareEvents) {
    this.#events = events;
  }

  get forked(): Forked | undefined {
    return this.#forked;
  }

  /** Starts one, unless there is one or will be. To be called when all workers serve. */
  provide(): void {
    if (this.#forked === undefined) this.#startAfter(calmMs);
  }

  /** It is the caller's from now on, who gives it its role. It may still be loading. */
  take(): Forked | undefined {
    const taken = this.#forked;
    this.#forked = undefined;
    return taken;
  }

  /** No other is started; what there is, is the caller's to end. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #startAfter(ms: number): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#start();
    }, ms);
    this.#timer.unref();
  }

  #start(): void {
    const startedAtMs = performance.now();
    const onGone = (how: string): void => {
      this.#forked = undefined;
      if (this.#isClosed) return;
      const againMs = this.#backOff.next(performance.now() - startedAtMs);
      this.#events.onLost(how, againMs);
      this.#startAfter(againMs);
    };
    try {
      this.#forked = this.#events.fork({ ...idle, onGone });
    } catch (error) {
      onGone(String(error));
    }
  }
}
