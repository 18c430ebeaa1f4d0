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

export class Breaker {
  readonly #options: BreakerOptions;
  #reason: string | undefined;
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
    this.#reason = reason;
    this.#options.onChange(true, reason);
    this.#tryAfter(firstPauseMs);
  }

  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
  }

  #tryAfter(pauseMs: number): void {
    this.#timer = setTimeout(() => void this.#try(pauseMs), pauseMs);
    this.#timer.unref();
  }

  async #try(pauseMs: number): Promise<void> {
    const isWell = await this.#options.trial();
    if (this.#isEnded) return;
    if (!isWell) {
      this.#tryAfter(Math.min(pauseMs * 2, longestPauseMs));
      return;
    }
    const reason = this.#reason ?? '';
    this.#reason = undefined;
    this.#options.onChange(false, reason);
  }
}
