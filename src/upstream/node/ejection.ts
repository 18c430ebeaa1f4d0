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
import { Circuit, Spans } from '../../ledger/index.ts';

/**
 * A failure that may be the node's own. `timeout`: no answer in time. `error`: no usable answer, or one that contradicts
 * its own ledger headers. `outpaced`: a hedge answered first. `refused`: its configuration forbids the read.
 */
export type FailureSign = 'timeout' | 'error' | 'outpaced' | 'refused';
/** Why a node is ejected: signs in a row, or too large a share of errors. */
export type EjectionReason = FailureSign | 'error share';

/** The pause between trials grows up to this. */
export const longestPauseMs = 30_000;
/** Signs in a row, no read of the class answered in between, eject a node; one answer returns it. */
const policy = {
  opensAfter: { timeout: 2, error: 5, outpaced: 5, refused: 5 },
  // A single answer proves little about occasional errors.
  closesAfter: { 'error share': 3 },
  firstMs: 1_000,
  longestMs: longestPauseMs,
  calmMs: 60_000,
};
/** Errors eject a node when they reach this count and this share of its recent answers, twice that of the others. */
const errorsCounted = 10;
const errorShare = 0.1;
const timesOthers = 2;
/** An answer counts until the end of the span after its own. */
const spanMs = 5_000;
/** The counters of recent reads. */
const [answers, errors] = [0, 1];

/** The ejection of one node for one class. All times in ms of one clock. */
export class Ejection {
  readonly #circuit = new Circuit<EjectionReason>(policy);
  readonly #recent = new Spans(spanMs, 2);
  #answeredAtMs = -Infinity;
  #unansweredAtMs = -Infinity;
  /** The node's last failure before the ejection, in words of a closed set: `status 500`, `connection cut`. */
  symptom: string | undefined;

  get isOut(): boolean {
    return this.#circuit.isOpen;
  }

  get reason(): EjectionReason | undefined {
    return this.#circuit.cause;
  }

  /** Whether the node is ejected for errors or refusals in a row: it answers no read of the class. */
  get isTotal(): boolean {
    return this.reason === 'error' || this.reason === 'refused';
  }

  /** Failed share of the node's recent reads; 0 for too few reads. */
  errorShare(nowMs: number): number {
    const recent = this.#recent.at(nowMs);
    const all = recent.sum(errors) + recent.sum(answers);
    return all < errorsCounted ? 0 : recent.sum(errors) / all;
  }

  /** Whether the node has answered a read of the class in the last `ms`, and none since then was left unanswered. */
  hasAnsweredWithin(ms: number, nowMs: number): boolean {
    return nowMs - this.#answeredAtMs <= ms && this.#answeredAtMs >= this.#unansweredAtMs;
  }

  /** Records a read without a usable answer, whether or not another node answers it. */
  unanswered(nowMs: number): void {
    this.#unansweredAtMs = nowMs;
  }

  /** Records an answered read of the class. Returns whether that ends the ejection: the node no longer hangs. */
  answered(nowMs: number): boolean {
    this.#recent.at(nowMs).add(answers);
    this.#answeredAtMs = nowMs;
    const isBack = this.#circuit.succeed(nowMs, nowMs);
    if (isBack) this.#recent.clear();
    return isBack;
  }

  /**
   * Records a read, sent to this node at `sentAtMs`, that another node answered. `othersShare`: the largest `errorShare`
   * of the other nodes. Returns the pause that begins, in ms; `undefined`: none does.
   */
  failed(sign: FailureSign, sentAtMs: number, nowMs: number, othersShare = 0): number | undefined {
    const recent = this.#recent.at(nowMs);
    if (sign === 'error') recent.add(errors);
    // Its trials are copies, with outcomes of their own.
    if (this.isOut) return undefined;
    const isInARow = sign === 'error' || sentAtMs > this.#answeredAtMs;
    const pauseMs = isInARow ? this.#circuit.fail(sign, sentAtMs, nowMs) : undefined;
    if (pauseMs !== undefined || sign !== 'error') return pauseMs;
    const share = this.errorShare(nowMs);
    const isWorse = recent.sum(errors) >= errorsCounted && share >= errorShare && share >= timesOthers * othersShare;
    return isWorse ? this.#circuit.fail('error share', sentAtMs, nowMs) : undefined;
  }

  /** Begins a trial when one is due; the next is due after `boundMs` and the pause. */
  beginTrial(nowMs: number, boundMs: number): boolean {
    return this.#circuit.beginTrial(nowMs, boundMs);
  }

  /** Records a trial. Returns the ms until the next one; `undefined`: the ejection is over. */
  endTrial(isAnswered: boolean, nowMs: number): number | undefined {
    if (!this.isOut) return undefined;
    const pauseMs = this.#circuit.endTrial(isAnswered, nowMs);
    if (pauseMs === undefined) this.#recent.clear();
    return pauseMs;
  }
}
