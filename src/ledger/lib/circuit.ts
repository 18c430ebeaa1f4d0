/**
 * A circuit breaker: closed; open for a pause; half open, when one trial shows whether it closes. Pauses double with each
 * failed trial. It sends nothing and has no timer: the owner says when requests were sent and how they ended, decides what
 * open means (last choice, or never), and who tries (a copy, a client's request, a timer). All times in ms of one monotonic
 * clock.
 */

/** The causes that open a circuit, and for how long. */
export interface CircuitPolicy<Cause extends string> {
  /** Failures of the cause in a row that open it. Default 1. */
  readonly opensAfter?: Readonly<Partial<Record<Cause, number>>>;
  /** Answered trials in a row that close it after the cause. Default 1. */
  readonly closesAfter?: Readonly<Partial<Record<Cause, number>>>;
  /** The first pause before a trial, in ms. */
  readonly firstMs: number;
  readonly longestMs: number;
  /**
   * The longest pause, in ms, of a resource that answers between its failures, as one that limits a rate does: answers to
   * requests that were sent in a pause shorten it to this, and close nothing. Default: such an answer closes it.
   */
  readonly longestBetweenMs?: number;
  /** Closed for so long, in ms, it begins with the first pause again: a circuit that flaps is tried less often. */
  readonly calmMs: number;
}

/** The circuit of one resource. */
export class Circuit<Cause extends string = string> {
  readonly #policy: CircuitPolicy<Cause>;
  readonly #inARow = new Map<Cause, number>();
  #cause: Cause | undefined;
  #pauseMs = 0;
  /** The bound of the next pause. */
  #longestMs: number;
  /** When it closed, or the last pause began. */
  #changedAtMs = -Infinity;
  /** When it closed, or the end of the last pause: requests that were sent before it show nothing of the time after it. */
  #pausedUntilMs = -Infinity;
  /** When a trial may begin. */
  #dueAtMs = Infinity;
  #heldUntilMs = -Infinity;
  #trialsLeft = 0;

  constructor(policy: CircuitPolicy<Cause>) {
    this.#policy = policy;
    this.#longestMs = policy.longestMs;
  }

  /** The cause that opened it; `undefined`: it is closed. */
  get cause(): Cause | undefined {
    return this.#cause;
  }

  get isOpen(): boolean {
    return this.#cause !== undefined;
  }

  /** See `hold`. */
  get heldUntilMs(): number {
    return this.#heldUntilMs;
  }

  /** Whether it has been without a pause for so long that the next one is the first again. */
  isCalm(nowMs: number): boolean {
    return nowMs - this.#pausedUntilMs >= this.#policy.calmMs;
  }

  /** `half open`: a trial may begin; while it is in flight, the circuit is open for all others. */
  state(nowMs: number): 'closed' | 'open' | 'half open' {
    if (!this.isOpen) return 'closed';
    return nowMs < this.#dueAtMs ? 'open' : 'half open';
  }

  /**
   * Records the failure of a request that was sent at `sentAtMs`. Returns the pause that begins, in ms; `undefined`: none
   * does. Requests of one moment fail together: only one sent since the last change, or after the pause, is news.
   */
  fail(cause: Cause, sentAtMs: number, nowMs: number): number | undefined {
    if (sentAtMs < (this.isOpen ? this.#pausedUntilMs : this.#changedAtMs)) return undefined;
    if (this.isOpen) return this.#pause(nowMs);
    const inARow = (this.#inARow.get(cause) ?? 0) + 1;
    this.#inARow.set(cause, inARow);
    if (inARow < (this.#policy.opensAfter?.[cause] ?? 1)) return undefined;
    return this.#open(cause, nowMs);
  }

  /**
   * Records that the resource itself asks to be left alone until `untilMs`. Before that, answered trials bring the next
   * ones nearer and close nothing. The first one is due after `gapMs` at least.
   */
  hold(cause: Cause, untilMs: number, gapMs: number, nowMs: number): void {
    const isHeld = nowMs < this.#heldUntilMs;
    this.#heldUntilMs = untilMs;
    if (isHeld || untilMs <= nowMs) {
      this.#pausedUntilMs = this.#within(this.#pausedUntilMs, nowMs);
      this.#dueAtMs = this.#within(this.#dueAtMs, nowMs);
      return;
    }
    if (!this.isOpen) this.#open(cause, nowMs);
    this.#pauseMs = Math.max(this.#pauseMs, gapMs);
    this.#wait(nowMs);
  }

  /**
   * Records an answer to a request that was no trial. Returns whether it closes the circuit: not where one answer proves
   * too little (`closesAfter`), nor one to a request that was sent before the last change.
   */
  succeed(sentAtMs: number, nowMs: number): boolean {
    if (sentAtMs < this.#changedAtMs) return false;
    // Most answers follow an answer, and clearing an empty map costs as much as a full one.
    if (this.#inARow.size > 0) this.#inARow.clear();
    const { longestBetweenMs } = this.#policy;
    if (longestBetweenMs !== undefined) {
      this.#longestMs = longestBetweenMs;
      if (sentAtMs < this.#pausedUntilMs) {
        this.#shorten(longestBetweenMs, nowMs);
        return false;
      }
    }
    return this.isOpen && this.#trialsToClose === 1 && this.endTrial(true, nowMs) === undefined;
  }

  /** Begins a trial when one is due. The next one is due after its end, or without one after `boundMs` and the pause. */
  beginTrial(nowMs: number, boundMs: number): boolean {
    if (this.state(nowMs) !== 'half open') return false;
    this.#dueAtMs = this.#within(nowMs + boundMs + this.#pauseMs, nowMs);
    return true;
  }

  /** Records the outcome of a trial. Returns the ms until the next one; `undefined`: the circuit is closed. */
  endTrial(isAnswered: boolean, nowMs: number): number | undefined {
    if (!this.isOpen) return undefined;
    if (!isAnswered) return this.#pause(nowMs);
    if (nowMs < this.#heldUntilMs) {
      this.#pauseMs /= 2;
      return this.#wait(nowMs);
    }
    this.#trialsLeft -= 1;
    this.#dueAtMs = nowMs;
    if (this.#trialsLeft > 0) return 0;
    this.#cause = undefined;
    this.#changedAtMs = nowMs;
    this.#pausedUntilMs = nowMs;
    this.#inARow.clear();
    return undefined;
  }

  get #trialsToClose(): number {
    return (this.#cause === undefined ? undefined : this.#policy.closesAfter?.[this.#cause]) ?? 1;
  }

  #open(cause: Cause, nowMs: number): number {
    if (this.isCalm(nowMs)) this.#pauseMs = 0;
    this.#cause = cause;
    return this.#pause(nowMs);
  }

  #pause(nowMs: number): number {
    this.#pauseMs = Math.min(Math.max(this.#policy.firstMs, this.#pauseMs * 2), this.#longestMs);
    this.#longestMs = this.#policy.longestMs;
    this.#changedAtMs = nowMs;
    this.#trialsLeft = this.#trialsToClose;
    return this.#wait(nowMs);
  }

  #wait(nowMs: number): number {
    this.#pausedUntilMs = this.#within(nowMs + this.#pauseMs, nowMs);
    this.#dueAtMs = this.#pausedUntilMs;
    // The sum is rounded: its difference to now is not the pause.
    return this.#pausedUntilMs < nowMs + this.#pauseMs ? this.#pausedUntilMs - nowMs : this.#pauseMs;
  }

  #shorten(longestMs: number, nowMs: number): void {
    this.#pauseMs = Math.min(this.#pauseMs, longestMs);
    // After the pause a trial may be in flight.
    if (nowMs >= this.#pausedUntilMs) return;
    this.#pausedUntilMs = Math.min(this.#pausedUntilMs, this.#changedAtMs + this.#pauseMs);
    this.#dueAtMs = this.#pausedUntilMs;
  }

  /** At the end of the time that it is held for a trial is due, whatever the pause. */
  #within(dueAtMs: number, nowMs: number): number {
    return nowMs < this.#heldUntilMs ? Math.min(dueAtMs, this.#heldUntilMs) : dueAtMs;
  }
}
