/**
 * The circuits of a node: other nodes are asked first, or alone, while one is open. All times in ms of one clock. A
 * failure alone proves nothing: clients can choose requests that take any node too long, or make any node fail. It
 * counts towards an `Ejection` when another node answered the very same read. So an error of every node never counts,
 * and when all nodes fail alike none is ejected. After a pause the node gets a copy of a read that another one has
 * answered: no client waits for the trial. A 429 concerns all requests of this gateway, since nodes and their balancers
 * count by address, and a client can cause one only by traffic that makes the node refuse every client. So it opens a
 * `Deferral` at once. The harm is bounded: pauses are short, and a deferred node is asked when no better one is left.
 * One that names a wait (`Retry-After`) is held until its end; when no other node can answer, single trials reach it.
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
const ejected = {
  opensAfter: { timeout: 2, error: 5, outpaced: 5, refused: 5 },
  // A single answer proves little about occasional errors.
  closesAfter: { 'error share': 3 },
  firstMs: 1_000,
  longestMs: longestPauseMs,
  calmMs: 60_000,
};
/** A node that answers between its refusals limits a rate: a longer pause would leave its capacity unused. */
const deferred = { firstMs: 100, longestMs: longestPauseMs, longestBetweenMs: 1_000, calmMs: 10_000 };
/** Errors eject a node when they reach this count and this share of its recent answers, twice that of the others. */
const errorsCounted = 10;
const errorShare = 0.1;
const timesOthers = 2;
/** An answer counts until the end of the span after its own. */
const spanMs = 5_000;
const [answers, errors] = [0, 1];

/** The ejection of one node for one class of reads. */
export class Ejection {
  readonly #circuit = new Circuit<EjectionReason>(ejected);
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

  /** It is ejected for errors or refusals in a row: it answers no read of the class. */
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
   * Records a read that another node answered. `othersShare`: the largest `errorShare` of the other nodes. Returns the
   * pause that begins, in ms.
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

  /** Returns the ms until the next trial; `undefined`: the ejection is over. */
  endTrial(isAnswered: boolean, nowMs: number): number | undefined {
    if (!this.isOut) return undefined;
    const pauseMs = this.#circuit.endTrial(isAnswered, nowMs);
    if (pauseMs === undefined) this.#recent.clear();
    return pauseMs;
  }
}

/** A longer `Retry-After` of a node counts as this. */
const longestHoldMs = 3_600_000;
/** The first trial of a held node is due after this time. */
const heldGapMs = 1_000;
/** After a pause one request tries the node for this long, while all others still go elsewhere. */
const longestTrialMs = 1_000;

/** A refusal of one request too many, without work on it: it defers the node. */
export interface Shedding {
  readonly retryAfterMs: number | undefined;
  /** The node itself answered; a proxy in front of it may have given the other answers. */
  readonly isOfNode: boolean;
}

/** The deferral of one node. The first request after a pause is its trial. */
export class Deferral {
  readonly #circuit = new Circuit(deferred);
  /** When the node last named a wait. */
  #namedAtMs = -Infinity;
  #isTrialInFlight = false;

  isOn(nowMs: number): boolean {
    return this.heldForMs(nowMs) > 0 || this.#circuit.state(nowMs) === 'open';
  }

  /** Ms until the end of the wait that the node named; 0: the node is not held. */
  heldForMs(nowMs: number): number {
    return Math.max(0, this.#circuit.heldUntilMs - nowMs);
  }

  /** Whether a request that no other node can answer may go to the node now: to a held one, as its only trial. */
  mayTry(nowMs: number): boolean {
    return this.heldForMs(nowMs) === 0 || (!this.#isTrialInFlight && this.#circuit.state(nowMs) === 'half open');
  }

  /** A request is about to go to the node. Returns whether `endTrial` must follow. */
  beginTrial(nowMs: number): boolean {
    const isHeld = this.heldForMs(nowMs) > 0;
    this.#circuit.beginTrial(nowMs, isHeld ? 0 : longestTrialMs);
    this.#isTrialInFlight ||= isHeld;
    return isHeld;
  }

  endTrial(): void {
    this.#isTrialInFlight = false;
  }

  /** Whether the next refusal begins with the shortest pause again. */
  isForgiven(nowMs: number): boolean {
    return this.#circuit.isCalm(nowMs);
  }

  answered(sentAtMs: number, nowMs: number): void {
    this.#circuit.succeed(sentAtMs, nowMs);
  }

  /** Returns the pause that begins, in ms; `undefined` during a pause. */
  refused(sentAtMs: number, { retryAfterMs, isOfNode }: Shedding, nowMs: number): number | undefined {
    const wasHeld = sentAtMs < this.#circuit.heldUntilMs;
    const pauseMs = this.#circuit.fail('refused', sentAtMs, nowMs);
    // The bound of a proxy is lower: maintenance may end early, and a client may provoke a proxy's refusal.
    if (retryAfterMs !== undefined) {
      this.#hold(sentAtMs, nowMs + Math.min(retryAfterMs, isOfNode ? longestHoldMs : longestPauseMs), nowMs);
    }
    if (wasHeld || pauseMs === undefined) return undefined;
    // Its own word counts, however often it has refused.
    return this.heldForMs(nowMs) || pauseMs;
  }

  /** Among refusals of one moment the longest wait counts; a later refusal replaces it. */
  #hold(sentAtMs: number, untilMs: number, nowMs: number): void {
    const longestMs = sentAtMs > this.#namedAtMs ? untilMs : Math.max(this.#circuit.heldUntilMs, untilMs);
    this.#circuit.hold('refused', longestMs, heldGapMs, nowMs);
    this.#namedAtMs = nowMs;
  }
}

/** Nodes answer looks within milliseconds: one that leaves a look unanswered for longer, in ms, hangs or is overloaded. */
export const silentMs = 500;
/** Checks of the prober at which a node is silent, one after the other, after which it is down. */
const silentChecksUntilDown = 3;

/** It answers nothing, whatever it is asked: looks go on, without pauses, and any answer ends it. */
export class Silence {
  /** When the first look was sent since the node's last answer; `Infinity`: none was. */
  #lookedAtMs = Infinity;
  /** When the first request of a client was sent since its last answer; as above. */
  #askedAtMs = Infinity;
  #checks = 0;

  /** Whether it has answered nothing since a look was sent to it, for so long that others are asked first. */
  isOn(nowMs: number): boolean {
    return nowMs - this.#lookedAtMs >= silentMs;
  }

  /** Whether it has stayed silent: the node hangs. */
  get isTotal(): boolean {
    return this.#checks >= silentChecksUntilDown;
  }

  /** Ms since a request of a client was sent that nothing has been answered after; `-Infinity`: there is none. */
  quietForMs(nowMs: number): number {
    return nowMs - this.#askedAtMs;
  }

  asked(nowMs: number): void {
    if (this.#askedAtMs === Infinity) this.#askedAtMs = nowMs;
  }

  looked(nowMs: number): void {
    if (this.#lookedAtMs === Infinity) this.#lookedAtMs = nowMs;
  }

  /** A check finds it silent, with a look in flight. */
  found(): void {
    this.#checks += 1;
  }

  /** It has answered, be it by an error. */
  end(): void {
    this.#askedAtMs = Infinity;
    this.#lookedAtMs = Infinity;
    this.#checks = 0;
  }
}
