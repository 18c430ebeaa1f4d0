interface BreakerOptions {
  /** Sends a cheap command; resolves to whether the server answered well and in time. */
  readonly trial: () => Promise<boolean>;
  /** Called once per change. `reason`: the failure that opened the circuit. */
  onChange(isOpen: boolean, reason: string): void;
}

const firstPauseMs = 100;
const longestPauseMs = 2_000;
/** After a failure within this time the pauses go on growing, so that the circuit does not flap. */
const calmMs = 10_000;

/** A circuit breaker: the first failure opens the circuit, and only a successful trial closes it again. */
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

  /** The failure that opened the circuit; `undefined`: it is closed. */
  get reason(): string | undefined {
    return this.#reason;
  }

  get isOpen(): boolean {
    return this.#reason !== undefined;
  }

  /** Opens the circuit until a trial succeeds. */
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
    this.#timer = setTimeout(() => void this.#try(), this.#pauseMs).unref();
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
