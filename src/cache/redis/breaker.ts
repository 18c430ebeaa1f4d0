/**
 * Keeps a server that fails from costing anything more than once: the first failure closes the way to it, and only its
 * own answer to a trial opens the way again.
 */

export interface BreakerOptions {
  /** Asks the server something cheap; resolves to whether it answered well and in time. */
  readonly trial: () => Promise<boolean>;
  /** Called once per change. `reason` is why it opened. */
  onChange(isOpen: boolean, reason: string): void;
}

const firstPauseMs = 100;
const longestPauseMs = 2_000;
/** Who fails again sooner than this was not well: the pauses go on growing, so that nothing flaps at every trial. */
const calmMs = 10_000;

export class Breaker {
  readonly #options: BreakerOptions;
  #reason: string | undefined;
  #pauseMs = firstPauseMs;
  #closedAtMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /** Why nothing may be sent now, or `undefined` when it may. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get isOpen(): boolean {
    return this.#reason !== undefined;
  }

  /** Takes a failure: from now on nothing is sent until a trial succeeds. */
  open(reason: string): void {
    if (this.isOpen || this.#isEnded) return;
    if (performance.now() - this.#closedAtMs > calmMs) this.#pauseMs = firstPauseMs;
    this.#reason = reason;
    this.#options.onChange(true, reason);
    this.#tryLater();
  }

  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
  }

  #tryLater(): void {
    this.#timer = setTimeout(() => void this.#try(), this.#pauseMs);
    this.#timer.unref();
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
  }

  async #try(): Promise<void> {
    const isWell = await this.#options.trial();
    if (this.#isEnded) return;
    if (!isWell) {
      this.#tryLater();
      return;
    }
    const reason = this.#reason ?? '';
    this.#reason = undefined;
    this.#closedAtMs = performance.now();
    this.#options.onChange(false, reason);
  }
}
