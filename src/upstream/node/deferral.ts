/**
 * Deferral of a node that limits or sheds requests: the others are asked first for a moment.
 *
 * A 429 concerns all requests of this gateway, since nodes and their balancers count by address. A client can cause one
 * only by traffic that makes the node refuse every client; so the node is deferred at once, without a comparison with
 * other nodes. The harm is bounded: pauses are short, and a deferred node is asked when no better one is left.
 */

const firstPauseMs = 100;
/** A node that answers between its refusals limits a rate: a longer pause would leave its capacity unused. */
const longestBetweenAnswersMs = 1_000;
/** Equals the longest pause of an ejected node. A wrong `Retry-After` of an hour costs no more than that. */
const longestPauseMs = 30_000;
/** After this time without a refusal the pauses begin with the shortest again. */
const forgivenAfterMs = 10_000;

/** After a pause one request tries the node for this long, while all others still go elsewhere. */
const longestTrialMs = 1_000;

/** The deferral of one node. All times in ms of one clock. */
export class Deferral {
  #untilMs = -Infinity;
  /** When the trial was sent; `undefined`: none was, or it was answered. */
  #trialAtMs: number | undefined;
  /** No request that was sent after the last pause has been answered. */
  #isUntried = false;
  #pauseMs = 0;
  #refusedAtMs = -Infinity;
  /** The end of the longest wait that the node asked for. */
  #retryAtMs = -Infinity;
  #hasAnswered = false;

  /** Whether the node is deferred now. */
  isOn(nowMs: number): boolean {
    return nowMs < this.#untilMs || (this.#trialAtMs !== undefined && nowMs < this.#trialAtMs + longestTrialMs);
  }

  /** Records a request to the node. The first one after a pause is its trial. */
  asked(nowMs: number): void {
    if (this.#isUntried && !this.isOn(nowMs)) this.#trialAtMs = nowMs;
  }

  /** Whether the next pause begins with the shortest again. */
  isForgiven(nowMs: number): boolean {
    return nowMs - this.#refusedAtMs > forgivenAfterMs + this.#pauseMs;
  }

  /** Records the answer to a request that was sent at `sentAtMs`. */
  answered(sentAtMs: number): void {
    this.#hasAnswered = true;
    if (sentAtMs >= this.#untilMs) {
      this.#isUntried = false;
      this.#trialAtMs = undefined;
    } else if (sentAtMs >= this.#refusedAtMs) {
      // An answer during the pause: the node limits a rate, so the pause shortens to that of such nodes.
      this.#pauseMs = Math.min(this.#pauseMs, longestBetweenAnswersMs);
      this.#untilMs = Math.min(this.#untilMs, Math.max(this.#retryAtMs, this.#refusedAtMs + this.#pauseMs));
    }
  }

  /**
   * Records the refusal of a request that was sent at `sentAtMs`. `retryAfterMs`: the wait that the node asked for.
   * Returns the pause that begins, in ms; `undefined` during a pause.
   */
  refused(sentAtMs: number, retryAfterMs: number | undefined, nowMs: number): number | undefined {
    const isForgiven = this.isForgiven(nowMs);
    this.#refusedAtMs = nowMs;
    // Requests of one moment are refused together: only one sent after the last pause is news.
    const isNews = sentAtMs >= this.#untilMs;
    if (isNews) {
      const longestMs = this.#hasAnswered ? longestBetweenAnswersMs : longestPauseMs;
      this.#pauseMs = isForgiven ? firstPauseMs : Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestMs);
      this.#hasAnswered = false;
    }
    this.#isUntried = true;
    this.#trialAtMs = undefined;
    const waitMs = Math.min(retryAfterMs ?? 0, longestPauseMs);
    const pauseMs = Math.max(this.#pauseMs, waitMs);
    this.#retryAtMs = Math.max(this.#retryAtMs, nowMs + waitMs);
    this.#untilMs = Math.max(this.#untilMs, nowMs + pauseMs);
    return isNews ? pauseMs : undefined;
  }
}
