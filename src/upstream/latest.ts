/**
 * The version that reads of "latest" are pinned to. One look at the freshest node (`GET {url}`) gives a coherent
 * snapshot of the ledger; while it is younger than the caller's bound, every read of "latest" is a read at its
 * version, so that clients share upstream reads and see one state. The version never goes backward within a generation
 * of the fleet.
 */
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../ledger/errors.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { StopSignal } from '../ledger/stop.ts';
import type { Fleet } from './fleet.ts';
import type { Floor } from './floor.ts';
import type { Sender } from './sender.ts';
import type { ShownAlone, Snapshot } from './shown.ts';

export interface LatestParts {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly floor: Floor;
  readonly shown: ShownAlone;
}

export interface LatestOptions {
  /** How old a state may be by default, in milliseconds. */
  readonly maxStalenessMs: number;
  /** How long a version that a client has seen already is waited for. */
  readonly waitForVersionMs: number;
}

/** What a caller accepts: a state at most so old when it asks, and at or past the last version it saw. */
export interface Demand {
  /** 0: the state at the moment of asking, from a node. */
  readonly maxStalenessMs: number;
  readonly min: LedgerVersion | undefined;
}

/**
 * Share of the bound after which the next look is taken while reads of "latest" come: late, for every look costs a node
 * a request, but before the bound, so that the look is under way when a read would have to ask for it.
 */
export const renewAt = 0.98;
/** The cheapest question there is: a node that takes longer must not hold up every read of "latest". */
const lookTimeoutMs = 500;
/** Without reads of "latest" for this many bounds, nobody is asked any more. */
export const idleBounds = 5;

export class Latest {
  readonly #fleet: Fleet;
  readonly #sender: Sender;
  readonly #options: LatestOptions;
  readonly #floor: Floor;
  readonly #closing = new AbortController();
  readonly #shown: ShownAlone;
  #look: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #askedAtMs = -Infinity;

  constructor({ fleet, sender, floor, shown }: LatestParts, options: LatestOptions) {
    this.#fleet = fleet;
    this.#sender = sender;
    this.#floor = floor;
    this.#shown = shown;
    this.#options = options;
  }

  /** The shared snapshot, when it satisfies the demand now. Costs no look and no promise. */
  find({ maxStalenessMs, min }: Demand): Snapshot | undefined {
    const nowMs = performance.now();
    this.#askedAtMs = nowMs;
    const { snapshot } = this.#shown;
    if (snapshot === undefined || nowMs - snapshot.asOfMs > maxStalenessMs) return undefined;
    return isAtLeast(snapshot, this.#floor.above(min)) ? snapshot : undefined;
  }

  /** When a snapshot was last asked for; `performance.now()`. */
  get askedAtMs(): number {
    return this.#askedAtMs;
  }

  /**
   * The snapshot that reads share, without asking for it: nothing changes. `isUsable`: a read that came now would be
   * pinned to it; else a node is asked for its ledger first.
   */
  peek(): { readonly version: LedgerVersion; readonly ageMs: number; readonly isUsable: boolean } | undefined {
    const { snapshot } = this.#shown;
    if (snapshot === undefined) return undefined;
    const ageMs = performance.now() - snapshot.asOfMs;
    const isUsable = ageMs <= this.#options.maxStalenessMs && isAtLeast(snapshot, this.#floor.above(undefined));
    return { version: snapshot.info.version, ageMs, isUsable };
  }

  /**
   * A snapshot that satisfies the demand as of this call: found, or looked for together with everyone who waits.
   * Throws `GatewayError` 503 when the fleet does not get to `min` within `waitForVersion`, or no node answers.
   */
  async reach(demand: Demand, signal: StopSignal): Promise<Snapshot> {
    const found = this.find(demand);
    return found ?? this.#floor.keep(demand.min, signal, (min) => this.#lookFor(demand.maxStalenessMs, min, signal));
  }

  /**
   * Shares a snapshot that another worker published. That worker renews it; this one does so only where a read finds it
   * too old, so that one look serves all workers.
   */
  adopt(snapshot: Snapshot): void {
    const { info, asOfMs } = snapshot;
    const known = this.#shown.snapshot;
    const isOld = isNewer(known, info) || (known?.info.version === info.version && known.asOfMs >= asOfMs);
    // Above the head here, the fleet does not believe it.
    if (isOld || info.version > (this.#fleet.head?.version ?? -1n)) return;
    clearTimeout(this.#timer);
    this.#shown.raise({ snapshot });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closing.abort(new Error('closing'));
  }

  async #lookFor(maxStalenessMs: number, min: LedgerVersion | undefined, signal: StopSignal): Promise<Snapshot> {
    const askedMs = performance.now();
    // A look that was under way may be of a moment before the bound; one taken after it never is.
    for (let looks = 0; looks < maxLooks && !signal.aborted; looks += 1) {
      await this.#renew(min);
      const { snapshot } = this.#shown;
      const isFresh = snapshot !== undefined && snapshot.asOfMs >= askedMs - maxStalenessMs;
      if (isFresh && isAtLeast(snapshot, min)) return snapshot;
      if (this.#isAboveHead(min)) await this.#awaitVersion(min, signal);
    }
    throw this.#behind(min);
  }

  /** Whether no believed node has told of the version yet. */
  #isAboveHead(version: LedgerVersion | undefined): version is LedgerVersion {
    const head = this.#fleet.head?.version;
    return version !== undefined && head !== undefined && version > head;
  }

  async #awaitVersion(min: LedgerVersion, signal: StopSignal): Promise<void> {
    const isReached = await this.#fleet.waitForVersion(min, this.#options.waitForVersionMs, signal);
    if (!isReached) throw this.#behind(min);
  }

  #behind(min: LedgerVersion | undefined): GatewayError {
    const head = this.#fleet.head?.version;
    if (head === undefined || min === undefined || head >= min) {
      return new GatewayError('unavailable', 'no node tells the latest ledger version now; try again');
    }
    return new GatewayError(
      'unavailable',
      `the ledger is at version ${head} here, and version ${min} was asked for; try again`,
    );
  }

  /** One look at a time, shared by all who wait; never rejects for want of a better snapshot. */
  #renew(min: LedgerVersion | undefined): Promise<void> {
    this.#look ??= this.#lookNow(min).finally(() => {
      this.#look = undefined;
    });
    return this.#look;
  }

  async #lookNow(min: LedgerVersion | undefined): Promise<void> {
    const asOfMs = performance.now();
    const known = this.#shown.snapshot?.info.version;
    // A look for what no node has told yet would find every node behind: it asks the freshest how far it is.
    const wanted = this.#isAboveHead(min) ? undefined : min;
    const floor = known !== undefined && (wanted === undefined || known > wanted) ? known : wanted;
    const wire = { method: 'GET', path: '', headers: { accept: 'application/json' } } as const;
    const need = { kind: 'head', min: floor } as const;
    const request = {
      wire,
      need,
      promised: 'json',
      isIdempotent: true,
      timeoutMs: lookTimeoutMs,
      isLook: true,
    } as const;
    const { status, info, body, upstream } = await this.#sender.whole(request, this.#closing.signal);
    this.#schedule();
    if (status !== 200 || info === undefined || upstream.isSuspect) return;
    if (info.version > (this.#fleet.head?.version ?? 0n) || isNewer(this.#shown.snapshot, info)) return;
    this.#floor.recordSnapshot({ info, body, asOfMs, upstream: upstream.name });
  }

  /** While reads of "latest" come, the next look is taken before the bound is reached, so that none waits for it. */
  #schedule(): void {
    clearTimeout(this.#timer);
    const bound = this.#options.maxStalenessMs;
    if (bound === 0 || performance.now() - this.#askedAtMs > bound * idleBounds) return;
    this.#timer = setTimeout(() => {
      // Who reads next asks again and hears of the failure itself.
      this.#renew(undefined).catch(() => undefined);
    }, bound * renewAt);
    this.#timer.unref();
  }
}

function isNewer(snapshot: Snapshot | undefined, info: LedgerInfo): boolean {
  return snapshot !== undefined && snapshot.info.version > info.version;
}

function isAtLeast(snapshot: Snapshot | undefined, min: LedgerVersion | undefined): boolean {
  return snapshot !== undefined && (min === undefined || snapshot.info.version >= min);
}

/** A look that misses (a node that is behind, a look begun too early) is repeated so often. */
const maxLooks = 3;
