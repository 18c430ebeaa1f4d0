import { Circuit } from '../../ledger/index.ts';

interface BreakerOptions {
  /** Sends a cheap command; resolves to whether the server answered well and in time. */
  readonly trial: () => Promise<boolean>;
  /** Called once per change. `reason`: the failure that opened the circuit. */
  onChange(isOpen: boolean, reason: string): void;
}

const policy = { firstMs: 100, longestMs: 2_000, calmMs: 10_000 };

/** The circuit of a server: the first failure opens it, and trials on a timer close it again. */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #circuit = new Circuit(policy);
  #timer: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /** The failure that opened the circuit; `undefined`: it is closed. */
  get reason(): string | undefined {
    return this.#circuit.cause;
  }

  get isOpen(): boolean {
    return this.#circuit.isOpen;
  }

  /** Opens the circuit until a trial succeeds. */
  open(reason: string): void {
    if (this.isOpen || this.#isEnded) return;
    const nowMs = performance.now();
    const pauseMs = this.#circuit.fail(reason, nowMs, nowMs);
    this.#options.onChange(true, reason);
    this.#tryIn(pauseMs);
  }

  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
  }

  #tryIn(pauseMs: number | undefined): void {
    this.#timer = setTimeout(() => void this.#try(), pauseMs).unref();
  }

  async #try(): Promise<void> {
    const isWell = await this.#options.trial();
    if (this.#isEnded) return;
    const { reason = '' } = this;
    const pauseMs = this.#circuit.endTrial(isWell, performance.now());
    if (pauseMs === undefined) this.#options.onChange(false, reason);
    else this.#tryIn(pauseMs);
  }
}
