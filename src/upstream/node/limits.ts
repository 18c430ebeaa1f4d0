/** Bounds on requests in flight: a semaphore, and the adaptive concurrency limit of a node. */
import type { CancelSignal } from '../../ledger/index.ts';
import { waitWithin } from '../deadline.ts';
import type { ReadClass } from '../select/ranking.ts';

/**
 * Kinds of requests, by the resources of a node that they hold. `read`: a place. `stream`: a place, and a connection until
 * the body ends. `poll`: an idle connection. `look`: nothing, since looks have connections of their own.
 */
export type PlaceKind = 'read' | 'stream' | 'poll' | 'look';

/** Counts holders of a limited resource. */
export class Semaphore {
  readonly #limit: number;
  readonly #waiting = new Set<() => void>();
  #taken = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get taken(): number {
    return this.#taken;
  }

  get isFull(): boolean {
    return this.#taken >= this.#limit;
  }

  /** Returns whether a unit was free; then `release` must follow. */
  tryAcquire(): boolean {
    if (this.isFull) return false;
    this.#taken += 1;
    return true;
  }

  acquireUnbounded(): void {
    this.#taken += 1;
  }

  release(): void {
    this.#taken -= 1;
    const [first] = this.#waiting;
    first?.();
  }

  /** Resolves at the next release that no earlier caller waits for, after `ms`, or when `signal` aborts. */
  released(ms: number, signal: CancelSignal): Promise<void> {
    return waitWithin<void>({ ms, signal, late: undefined }, (end) => {
      this.#waiting.add(end);
      return () => this.#waiting.delete(end);
    });
  }
}

/** Time a read may take beyond twice its usual: short waits do no harm, and pauses of this process look like them. */
const slackMs = 50;
const timesUsual = 2;
/** Decisions are made at most this often, on at least so many answers. */
const windowMs = 100;
const fewestAnswers = 10;
const decrease = 0.9;
/** Decrease after the node itself refused a request as one too many. */
const pushbackDecrease = 0.7;
const increaseShare = 0.05;
/** Part of the bound that must be in use for it to grow. */
const inUse = 0.8;
/** The bound never falls below this part of the configured one: a wrong guess must not stop the work. */
const leastShare = 1 / 8;
const leastPlaces = 4;
/** While this process runs later than this, answers seem slower than they are: no limit falls for it. */
const ownLagMs = 20;
/** The usual time follows a slower node by this part of the difference, unless the gateway's own load slows it. */
const adaptation = 0.1;

type PlainRead = Exclude<ReadClass, 'view'>;

/**
 * Bounds the requests in flight at a node: as many as it answers without a queue.
 *
 * Additive increase, multiplicative decrease. Plain reads are the measure: they cost about the same, so when most of them
 * take much longer than usual, they queue at the node. Views do not count, because clients choose their cost. The limit
 * never exceeds the configured one.
 */
export class ConcurrencyLimit {
  readonly #most: number;
  readonly #least: number;
  #limit: number;
  #inFlight = 0;
  #peak = 0;
  #beganAtMs = -Infinity;
  #slow = 0;
  #isOwnDoing = false;
  readonly #times: Readonly<Record<PlainRead, number[]>> = { head: [], archive: [] };
  readonly #usualMs: Partial<Record<PlainRead, number>> = {};
  readonly #ownLag: () => number;

  /** `most`: the configured limit. `ownLag`: how late this process runs, in ms. */
  constructor(most: number, ownLag: () => number = () => 0) {
    this.#most = most;
    this.#ownLag = ownLag;
    this.#least = Math.min(most, Math.max(leastPlaces, Math.floor(most * leastShare)));
    this.#limit = most;
  }

  get limit(): number {
    return Math.floor(this.#limit);
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get isFull(): boolean {
    return this.#inFlight >= this.limit;
  }

  get isHalfFree(): boolean {
    return this.#inFlight < this.limit / 2;
  }

  enter(): void {
    this.#inFlight += 1;
    this.#peak = Math.max(this.#peak, this.#inFlight);
  }

  leave(): void {
    this.#inFlight -= 1;
  }

  observe(readClass: ReadClass, elapsedMs: number, nowMs: number): void {
    if (readClass === 'view') return;
    const usualMs = this.#usualMs[readClass];
    this.#isOwnDoing ||= this.#ownLag() > ownLagMs;
    if (usualMs !== undefined && elapsedMs > usualMs * timesUsual + slackMs) this.#slow += 1;
    this.#times[readClass].push(elapsedMs);
    if (nowMs - this.#beganAtMs >= windowMs && this.#answers >= fewestAnswers) this.#decide(nowMs);
  }

  /** Records a request that the node shed, or did not answer in time. */
  pushBack(nowMs: number): void {
    if (nowMs - this.#beganAtMs < windowMs) return;
    this.#shrink(pushbackDecrease);
    this.#begin(nowMs);
  }

  get #answers(): number {
    return this.#times.head.length + this.#times.archive.length;
  }

  #decide(nowMs: number): void {
    const isUnloaded = !this.#isOwnDoing && (this.#peak < this.limit / 2 || this.limit <= this.#least);
    this.#learn('head', isUnloaded);
    this.#learn('archive', isUnloaded);
    const isSlow = this.#slow > this.#answers / 2;
    if (isSlow && !this.#isOwnDoing) this.#shrink(decrease);
    else if (!isSlow && this.#peak >= this.limit * inUse) {
      this.#limit = Math.min(this.#most, this.#limit + 1 + this.#limit * increaseShare);
    }
    this.#begin(nowMs);
  }

  /** Shrinks from the places in use: a limit far above them would take long to take effect. */
  #shrink(factor: number): void {
    this.#limit = Math.max(this.#least, Math.min(this.#limit, Math.max(this.#peak, 1)) * factor);
  }

  #learn(readClass: PlainRead, isUnloaded: boolean): void {
    const times = this.#times[readClass].sort((a, b) => a - b);
    const median = times[Math.floor(times.length / 2)];
    if (median === undefined) return;
    const usual = this.#usualMs[readClass];
    if (usual === undefined || median < usual) this.#usualMs[readClass] = median;
    else if (isUnloaded) this.#usualMs[readClass] = usual + (median - usual) * adaptation;
  }

  #begin(nowMs: number): void {
    this.#beganAtMs = nowMs;
    this.#slow = 0;
    this.#isOwnDoing = false;
    this.#peak = this.#inFlight;
    this.#times.head.length = 0;
    this.#times.archive.length = 0;
  }
}
