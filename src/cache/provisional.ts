import type { CacheKey } from './key.ts';
import type { Awaited } from './tiers.ts';

/** `final`: a second head has passed the answer in time. `unproven`: none has. `dropped`: memory no longer has it. */
type ProvisionalEnd = 'final' | 'unproven' | 'dropped';

interface ProvisionalRead {
  readonly key: CacheKey;
  readonly awaited: Awaited;
  /** In ms of `performance.now()`. */
  readonly untilMs: number;
  readonly onEnd: (end: ProvisionalEnd) => void;
}

/** Some seconds of misses at the head. Beyond it, the oldest end unproven. */
const mostReads = 10_000;
/** Reads that end at once, and the pause in ms after them: store and Redis take so many writes, and drop what exceeds them. */
const readsAtOnce = 256;
const pauseMs = 5;

/** Reads in memory whose version only one node has reached. Each ends once; heads move far more rarely than reads come. */
export class ProvisionalReads {
  readonly #reads = new Map<string, ProvisionalRead>();
  /** No read awaits an earlier version. */
  #lowest: bigint | undefined;
  /** The second newest head. */
  #head = -1n;
  #isSettling = false;
  #isTimed = false;

  has(key: CacheKey): boolean {
    return this.#reads.size > 0 && this.#reads.has(nameOf(key));
  }

  /** `onEnd` is called once, when the read ends. */
  add(key: CacheKey, awaited: Awaited, onEnd: ProvisionalRead['onEnd']): void {
    this.drop(key);
    const [oldest] = this.#reads.size < mostReads ? [] : this.#reads.values();
    if (oldest !== undefined) this.#end(oldest, 'unproven');
    this.#reads.set(nameOf(key), { key, awaited, untilMs: performance.now() + awaited.withinMs, onEnd });
    if (this.#lowest === undefined || awaited.version < this.#lowest) this.#lowest = awaited.version;
    if (!this.#isTimed) this.#expireIn(awaited.withinMs);
  }

  /** Ends the read, if it is provisional, because another answer or none takes its place. */
  drop(key: CacheKey): void {
    const read = this.#reads.size === 0 ? undefined : this.#reads.get(nameOf(key));
    if (read !== undefined) this.#end(read, 'dropped');
  }

  /** Ends the reads of these keys as `drop` does. */
  dropAll(covers: (key: CacheKey) => boolean): void {
    // The ledger may have gone back: the next head counts.
    this.#head = -1n;
    for (const read of this.#reads.values()) if (covers(read.key)) this.#end(read, 'dropped');
  }

  /** Ends the reads that the second newest head has passed. One that was far above it proves no more than a late claim. */
  settle(head: bigint): void {
    this.#head = head;
    if (!this.#isSettling) this.#settleSome();
  }

  #settleSome(): void {
    if (this.#lowest === undefined || this.#head < this.#lowest) return;
    let lowest: bigint | undefined;
    let ended = 0;
    for (const read of this.#reads.values()) {
      const { version, isNear } = read.awaited;
      if (version > this.#head) {
        if (lowest === undefined || version < lowest) lowest = version;
      } else if (ended === readsAtOnce) return this.#settleMore();
      else {
        ended += 1;
        this.#end(read, isNear ? 'final' : 'unproven');
      }
    }
    this.#lowest = lowest;
  }

  #settleMore(): void {
    this.#isSettling = true;
    const goOn = (): void => {
      this.#isSettling = false;
      this.#settleSome();
    };
    setTimeout(goOn, pauseMs).unref();
  }

  /** Ends the reads whose time is over: they are in the order of their ends. */
  #expire(): void {
    this.#isTimed = false;
    const nowMs = performance.now();
    for (const read of this.#reads.values()) {
      if (read.untilMs > nowMs) return this.#expireIn(read.untilMs - nowMs);
      this.#end(read, 'unproven');
    }
  }

  #expireIn(ms: number): void {
    this.#isTimed = true;
    setTimeout(() => this.#expire(), ms).unref();
  }

  #end(read: ProvisionalRead, end: ProvisionalEnd): void {
    this.#reads.delete(nameOf(read.key));
    read.onEnd(end);
  }
}

function nameOf({ id, slot }: CacheKey): string {
  return `${id}${slot}`;
}
