/**
 * Ejection of a node for one class of reads, because it serves them worse than the others: a circuit breaker.
 *
 * A failure alone proves nothing: clients can choose requests that take any node too long, or make any node fail. It
 * counts when another node answered the very same read. So a 404 or 410, an error of every node and a read that no node
 * completes never count, and when all nodes fail alike none is ejected.
 *
 * An ejected node is asked only when no better one is left. After a pause it gets a copy of a read that another node has
 * answered, so that no client waits for the trial; pauses grow while trials fail.
 */

/**
 * A failure that may be the node's own. `timeout`: no answer in time. `error`: no usable answer, or one that contradicts
 * its own ledger headers. `outpaced`: a hedge answered first. `refused`: its configuration forbids the read.
 */
export type FailureSign = 'timeout' | 'error' | 'outpaced' | 'refused';
/** Why a node is ejected: signs in a row, or too large a share of errors. */
export type EjectionReason = FailureSign | 'error share';

/** Signs in a row, no read of the class answered in between, that eject a node. */
const enough: Readonly<Record<FailureSign, number>> = { timeout: 2, error: 5, outpaced: 5, refused: 5 };
/** Errors eject a node when they reach this count and this share of its recent answers, twice that of the others. */
const errorsCounted = 10;
const errorShare = 0.1;
const timesOthers = 2;
/** An answer counts until the end of the span after its own. */
const spanMs = 5_000;
const firstPauseMs = 1_000;
/** The pause between trials grows up to this. */
export const longestPauseMs = 30_000;
/** After this time without an ejection the pauses begin with the shortest again. */
const forgivenAfterMs = 60_000;
/** Trials in a row that end an ejection for a share of errors; a single one proves little. */
const trialsForErrors = 3;

/** The ejection of one node for one class. All times in ms of one clock. */
export class Ejection {
  readonly #inARow = new Map<FailureSign, number>();
  #answeredAtMs = -Infinity;
  #unansweredAtMs = -Infinity;
  #recent = { answered: 0, failed: 0 };
  #older = { answered: 0, failed: 0 };
  #beganAtMs = -Infinity;
  #reason: EjectionReason | undefined;
  #pauseMs = 0;
  #changedAtMs = -Infinity;
  #trialAtMs = Infinity;
  #trialsLeft = 0;
  /** The node's last failure before the ejection, in words of a closed set: `status 500`, `connection cut`. */
  symptom: string | undefined;

  get isOut(): boolean {
    return this.#reason !== undefined;
  }

  get reason(): EjectionReason | undefined {
    return this.#reason;
  }

  /** Whether the node is ejected for errors or refusals in a row: it answers no read of the class. */
  get isTotal(): boolean {
    return this.#reason === 'error' || this.#reason === 'refused';
  }

  /** Failed share of the node's recent reads; 0 for too few reads. */
  errorShare(nowMs: number): number {
    this.#turn(nowMs);
    const failed = this.#recent.failed + this.#older.failed;
    const all = failed + this.#recent.answered + this.#older.answered;
    return all < errorsCounted ? 0 : failed / all;
  }

  /** Whether the node has answered a read of the class in the last `ms`, and none since then was left unanswered. */
  hasAnsweredWithin(ms: number, nowMs: number): boolean {
    return nowMs - this.#answeredAtMs <= ms && this.#answeredAtMs >= this.#unansweredAtMs;
  }

  /** Records a read without a usable answer, whether or not another node answers it. */
  unanswered(nowMs: number): void {
    this.#unansweredAtMs = nowMs;
  }

  /** Records an answered read of the class. Returns whether that ends the ejection. */
  answered(nowMs: number): boolean {
    this.#turn(nowMs);
    this.#answeredAtMs = nowMs;
    this.#recent.answered += 1;
    this.#inARow.clear();
    // The first answer proves that the node no longer hangs; trials decide about occasional errors.
    if (this.#reason === undefined || this.#reason === 'error share') return false;
    this.#return(nowMs);
    return true;
  }

  /**
   * Records a read, sent to this node at `sentAtMs`, that another node answered. `othersShare`: the largest `errorShare`
   * of the other nodes. Returns the pause that begins, in ms; `undefined`: none does.
   */
  failed(sign: FailureSign, sentAtMs: number, nowMs: number, othersShare = 0): number | undefined {
    this.#turn(nowMs);
    if (sign === 'error') this.#recent.failed += 1;
    if (this.isOut) return undefined;
    // Reads of one moment fail together: one sent before the ejection ended proves nothing new.
    if (sentAtMs < this.#changedAtMs) return undefined;
    const isInARow = sign === 'error' || sentAtMs > this.#answeredAtMs;
    const inARow = (this.#inARow.get(sign) ?? 0) + Number(isInARow);
    this.#inARow.set(sign, inARow);
    if (isInARow && inARow >= enough[sign]) return this.#eject(sign, nowMs);
    const share = this.errorShare(nowMs);
    const failures = this.#recent.failed + this.#older.failed;
    const isWorse = failures >= errorsCounted && share >= errorShare && share >= timesOthers * othersShare;
    return sign === 'error' && isWorse ? this.#eject('error share', nowMs) : undefined;
  }

  /** Begins a trial when one is due; the next is due after `boundMs` and the pause. */
  beginTrial(nowMs: number, boundMs: number): boolean {
    if (!this.isOut || nowMs < this.#trialAtMs) return false;
    this.#trialAtMs = nowMs + boundMs + this.#pauseMs;
    return true;
  }

  /** Records a trial. Returns whether the ejection is over, or the pause that begins, in ms. */
  endTrial(isAnswered: boolean, nowMs: number): boolean | number {
    if (!this.isOut) return true;
    if (!isAnswered) return this.#pause(nowMs);
    this.#trialsLeft -= 1;
    this.#trialAtMs = nowMs;
    if (this.#trialsLeft > 0) return false;
    this.#return(nowMs);
    return true;
  }

  #eject(reason: EjectionReason, nowMs: number): number {
    if (nowMs - this.#changedAtMs > forgivenAfterMs) this.#pauseMs = 0;
    this.#reason = reason;
    return this.#pause(nowMs);
  }

  #pause(nowMs: number): number {
    this.#pauseMs = Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestPauseMs);
    this.#changedAtMs = nowMs;
    this.#trialAtMs = nowMs + this.#pauseMs;
    this.#trialsLeft = this.#reason === 'error share' ? trialsForErrors : 1;
    return this.#pauseMs;
  }

  #return(nowMs: number): void {
    this.#reason = undefined;
    this.#changedAtMs = nowMs;
    this.#inARow.clear();
    this.#recent = { answered: 0, failed: 0 };
    this.#older = { answered: 0, failed: 0 };
  }

  #turn(nowMs: number): void {
    const sinceMs = nowMs - this.#beganAtMs;
    if (sinceMs < spanMs) return;
    this.#older = sinceMs >= 2 * spanMs ? { answered: 0, failed: 0 } : this.#recent;
    this.#recent = { answered: 0, failed: 0 };
    this.#beganAtMs = nowMs;
  }
}
