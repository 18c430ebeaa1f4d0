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
import { Circuit } from '../../ledger/index.ts';

const firstPauseMs = 100;
/** A node that answers between its refusals limits a rate: a longer pause would leave its capacity unused. */
const longestBetweenAnswersMs = 1_000;
/** Equals the longest pause of an ejected node. */
const longestPauseMs = 30_000;
/** A longer `Retry-After` of a node counts as this. */
const longestHoldMs = 3_600_000;
/** Trials of a held node, with gaps from the beginning of one to that of the next. */
const trials = { firstMs: 1_000, longestMs: longestPauseMs, calmMs: 0 };
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
  /** Open since the node named a wait, and held until its end. */
  #hold = new Circuit(trials);
  /** When the node last named a wait. */
  #heldAtMs = -Infinity;
  /** When the trial of the held node was sent that has no outcome yet. */
  #heldTrialAtMs = Infinity;
  #isTrialInFlight = false;

  isOn(nowMs: number): boolean {
    return nowMs < this.#endMs || (this.#trialAtMs !== undefined && nowMs < this.#trialAtMs + longestTrialMs);
  }

  /** Ms until the end of the wait that the node named; 0: the node is not held. */
  heldForMs(nowMs: number): number {
    return Math.max(0, this.#hold.heldUntilMs - nowMs);
  }

  /** Whether a request that no other node can answer may go to the node now. */
  mayTry(nowMs: number): boolean {
    return this.heldForMs(nowMs) === 0 || (!this.#isTrialInFlight && this.#hold.state(nowMs) === 'half open');
  }

  /** Records that a request is about to go to the node. Returns whether `endTrial` must follow. */
  beginTrial(nowMs: number): boolean {
    if (this.heldForMs(nowMs) === 0) return false;
    this.#hold.beginTrial(nowMs, 0);
    this.#heldTrialAtMs = nowMs;
    this.#isTrialInFlight = true;
    return true;
  }

  endTrial(): void {
    this.#isTrialInFlight = false;
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
    this.#endHeldTrial(sentAtMs, true);
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
      this.#holdFor(sentAtMs, Math.min(retryAfterMs, isOfNode ? longestHoldMs : longestPauseMs), nowMs);
    }
    this.#endHeldTrial(sentAtMs, false);
    return isNews ? this.#endMs - nowMs : undefined;
  }

  get #endMs(): number {
    return Math.max(this.#untilMs, this.#hold.heldUntilMs);
  }

  #holdFor(sentAtMs: number, waitMs: number, nowMs: number): void {
    if (this.heldForMs(nowMs) === 0) {
      this.#hold = new Circuit(trials);
      this.#hold.fail('Retry-After', nowMs, nowMs);
      this.#heldTrialAtMs = Infinity;
    }
    // Among refusals of one moment the longest wait counts; a later refusal replaces it.
    const endMs = nowMs + waitMs;
    this.#hold.heldUntilMs = sentAtMs > this.#heldAtMs ? endMs : Math.max(this.#hold.heldUntilMs, endMs);
    this.#heldAtMs = nowMs;
  }

  /** Records the outcome of a request, when it is that of the trial. Gaps count from the beginning of a trial. */
  #endHeldTrial(sentAtMs: number, isAnswered: boolean): void {
    if (sentAtMs < this.#heldTrialAtMs) return;
    this.#hold.endTrial(isAnswered, this.#heldTrialAtMs);
    this.#heldTrialAtMs = Infinity;
  }
}
