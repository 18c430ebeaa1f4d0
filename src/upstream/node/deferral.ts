/**
 * Deferral of a node that limits or sheds requests: the others are asked first for a moment.
 *
 * A 429 concerns all requests of this gateway, since nodes and their balancers count by address. A client can cause one
 * only by traffic that makes the node refuse every client; so the node is deferred at once, without a comparison with
 * other nodes. The harm is bounded: pauses are short, and a deferred node is asked when no better one is left.
 *
 * A node that names a wait (`Retry-After`) is held until its end. When no other node can answer, single trials reach it:
 * an answer halves the gap between them, so a wait that is longer than the node needs is no outage.
 */

const firstPauseMs = 100;
/** A node that answers between its refusals limits a rate: a longer pause would leave its capacity unused. */
const longestBetweenAnswersMs = 1_000;
/** Equals the longest pause of an ejected node. */
const longestPauseMs = 30_000;
/** A longer `Retry-After` of a node counts as this. */
const longestHoldMs = 3_600_000;
/** Time from the beginning of a hold to its first trial: the first gap. */
const firstGapMs = 1_000;
/** After this time without a refusal the pauses begin with the shortest again. */
const forgivenAfterMs = 10_000;

/** After a pause one request tries the node for this long, while all others still go elsewhere. */
const longestTrialMs = 1_000;

/** A refusal of one request too many, without work on it: it defers the node. */
export interface Shedding {
  /** The wait that the answer names, in ms; `undefined`: it has no readable one. */
  readonly retryAfterMs: number | undefined;
  /** The node itself answered; a proxy in front of it may have given the other answers. */
  readonly isOfNode: boolean;
}

/** The deferral of one node. All times in ms of one clock. */
export class Deferral {
  /** End of the pause. */
  #untilMs = -Infinity;
  /** When the trial was sent; `undefined`: none was, or it was answered. */
  #trialAtMs: number | undefined;
  /** No request that was sent after the last pause has been answered. */
  #isUntried = false;
  #pauseMs = 0;
  #refusedAtMs = -Infinity;
  #hasAnswered = false;
  /** End of the wait that the node named. */
  #heldUntilMs = -Infinity;
  /** When the node last named a wait. */
  #heldAtMs = -Infinity;
  readonly #trials = new SpacedTrials();

  isOn(nowMs: number): boolean {
    return nowMs < this.#endMs || (this.#trialAtMs !== undefined && nowMs < this.#trialAtMs + longestTrialMs);
  }

  /** Ms until the end of the wait that the node named; 0: the node is not held. */
  heldForMs(nowMs: number): number {
    return Math.max(0, this.#heldUntilMs - nowMs);
  }

  /** Whether a request that no other node can answer may go to the node now. */
  mayTry(nowMs: number): boolean {
    return nowMs >= this.#heldUntilMs || this.#trials.mayBegin(nowMs);
  }

  /** Records that a request is about to go to the node. Returns whether `endTrial` must follow. */
  beginTrial(nowMs: number): boolean {
    if (nowMs >= this.#heldUntilMs) return false;
    this.#trials.begin(nowMs);
    return true;
  }

  endTrial(): void {
    this.#trials.end();
  }

  /** Records a request to the node. The first one after a pause is its trial. */
  asked(nowMs: number): void {
    if (this.#isUntried && !this.isOn(nowMs)) this.#trialAtMs = nowMs;
  }

  /** Whether the next pause begins with the shortest again. */
  isForgiven(nowMs: number): boolean {
    return nowMs - this.#refusedAtMs > forgivenAfterMs + this.#pauseMs;
  }

  answered(sentAtMs: number): void {
    this.#hasAnswered = true;
    this.#trials.judge(sentAtMs, 1 / 2);
    if (sentAtMs >= this.#endMs) {
      this.#isUntried = false;
      this.#trialAtMs = undefined;
    } else if (sentAtMs >= this.#refusedAtMs) {
      // An answer during the pause: the node limits a rate, so the pause shortens to that of such nodes.
      this.#pauseMs = Math.min(this.#pauseMs, longestBetweenAnswersMs);
      this.#untilMs = Math.min(this.#untilMs, this.#refusedAtMs + this.#pauseMs);
    }
  }

  /**
   * Records the refusal of a request that was sent at `sentAtMs`. Returns the pause that begins, in ms; `undefined`
   * during a pause.
   */
  refused(sentAtMs: number, { retryAfterMs, isOfNode }: Shedding, nowMs: number): number | undefined {
    const isForgiven = this.isForgiven(nowMs);
    this.#refusedAtMs = nowMs;
    // Requests of one moment are refused together: only one sent after the last pause is news.
    const isNews = sentAtMs >= this.#endMs;
    if (isNews) {
      const longestMs = this.#hasAnswered ? longestBetweenAnswersMs : longestPauseMs;
      this.#pauseMs = isForgiven ? firstPauseMs : Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestMs);
      this.#hasAnswered = false;
    }
    this.#isUntried = true;
    this.#trialAtMs = undefined;
    this.#untilMs = Math.max(this.#untilMs, nowMs + this.#pauseMs);
    // The bound of a proxy is lower: maintenance may end early, and a client may provoke a proxy's refusal.
    if (retryAfterMs !== undefined) {
      this.#hold(sentAtMs, Math.min(retryAfterMs, isOfNode ? longestHoldMs : longestPauseMs), nowMs);
    }
    this.#trials.judge(sentAtMs, 2);
    return isNews ? this.#endMs - nowMs : undefined;
  }

  get #endMs(): number {
    return Math.max(this.#untilMs, this.#heldUntilMs);
  }

  #hold(sentAtMs: number, waitMs: number, nowMs: number): void {
    if (nowMs >= this.#heldUntilMs) this.#trials.restart(nowMs);
    // Among refusals of one moment the longest wait counts; a later refusal replaces it.
    const endMs = nowMs + waitMs;
    this.#heldUntilMs = sentAtMs > this.#heldAtMs ? endMs : Math.max(this.#heldUntilMs, endMs);
    this.#heldAtMs = nowMs;
  }
}

/** Trials of a held node: one in flight, and a gap between two that grows with refusals and shrinks with answers. */
class SpacedTrials {
  #gapMs = firstGapMs;
  #beganAtMs = -Infinity;
  #isInFlight = false;
  /** The last trial has no outcome yet. */
  #isOpen = false;

  restart(nowMs: number): void {
    this.#gapMs = firstGapMs;
    this.#beganAtMs = nowMs;
    this.#isOpen = false;
  }

  mayBegin(nowMs: number): boolean {
    return !this.#isInFlight && nowMs >= this.#beganAtMs + this.#gapMs;
  }

  begin(nowMs: number): void {
    this.#beganAtMs = nowMs;
    this.#isInFlight = true;
    this.#isOpen = true;
  }

  end(): void {
    this.#isInFlight = false;
  }

  /** Records the outcome of a request sent at `sentAtMs`, when it is that of the trial: `factor` changes the gap. */
  judge(sentAtMs: number, factor: number): void {
    if (!this.#isOpen || sentAtMs < this.#beganAtMs) return;
    this.#isOpen = false;
    this.#gapMs = Math.min(this.#gapMs * factor, longestPauseMs);
  }
}
