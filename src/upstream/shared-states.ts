/**
 * The states that reads of "latest" share: one for each bound on their age that the config names, renewed once a bound
 * while it is asked for, and the newest state that a look has found, for the demands that no shared one satisfies.
 * Clients with equal bounds see one state, whatever others demand. Pure: the times come from the caller.
 */
import type { LedgerInfo, LedgerVersion } from '../ledger/index.ts';

/** A state that a node has reported; it was current at `asOfMs` or later, on the clock of `performance.now()`. */
export interface ReportedState {
  readonly info: LedgerInfo;
  readonly asOfMs: number;
}

/** The ledger info of a node, from one answer, that reads of "latest" share. */
export interface PublishedState extends ReportedState {
  /** The node's answer to the look, undecoded JSON. */
  readonly body: Buffer;
  readonly upstream: string;
}

/** The state that a caller demands. */
export interface Demand {
  /** 0: the state at the moment of the call, from a node. */
  readonly maxStalenessMs: number;
  /** The floor of the connection or the client's token: nothing older is an answer. */
  readonly min: LedgerVersion | undefined;
  /** The floor of the client's other connections: nothing older is an answer while a node with it can be reached. */
  readonly floor?: LedgerVersion | undefined;
}

interface Lane {
  readonly boundMs: number;
  state: PublishedState | undefined;
  /** The newer state that clients of another replica share; no read of this bound is below it. */
  offered: LedgerInfo | undefined;
  askedAtMs: number;
  /** This process found the state, and renews it. */
  isOwn: boolean;
}

/** Share of the bound after which the next look begins: late, as it costs a request, but before a read waits for it. */
const renewAt = 0.98;
/** A look this share of the bound after the last one renews the state as well. */
const dueAt = 0.9;
/** Without reads for this many bounds, the looks end. */
const idleBounds = 5;

/** Holds the shared states of one ledger. */
export class SharedStates {
  readonly #onShared: (state: PublishedState, bounds: readonly number[]) => void;
  readonly #isReached: (version: LedgerVersion) => boolean;
  /** By bound, the loosest first. */
  #lanes: readonly Lane[] = [];
  #bounds: readonly number[] = [];
  #newest: PublishedState | undefined;

  /** `onShared`: called before reads with one of `bounds` share a state that this process has found. */
  constructor(
    onShared: (state: PublishedState, bounds: readonly number[]) => void,
    isReached: (version: LedgerVersion) => boolean,
  ) {
    this.#onShared = onShared;
    this.#isReached = isReached;
  }

  get newest(): PublishedState | undefined {
    return this.#newest;
  }

  /** Follows the config: states of bounds that stay are kept. `bounds`: in ms, ascending, each above 0. */
  follow(bounds: readonly number[]): void {
    if (bounds === this.#bounds) return;
    this.#bounds = bounds;
    const before = new Map(this.#lanes.map((lane) => [lane.boundMs, lane]));
    this.#lanes = bounds.toReversed().map((boundMs) => {
      const lane = { boundMs, state: undefined, offered: undefined, askedAtMs: -Infinity, isOwn: false };
      return before.get(boundMs) ?? lane;
    });
  }

  /**
   * The state of the loosest bound within `maxStalenessMs` that is young enough and at or past `min`, else the newest.
   * `isRead`: not for a report, which shares no state and causes no look.
   */
  find(
    maxStalenessMs: number,
    min: LedgerVersion | undefined,
    nowMs: number,
    isRead = true,
  ): PublishedState | undefined {
    let isFirst = true;
    let least = min;
    for (const lane of this.#lanes) {
      if (lane.boundMs > maxStalenessMs) continue;
      if (isFirst && isRead) lane.askedAtMs = nowMs;
      isFirst = false;
      if (lane.offered !== undefined) {
        this.#accept(lane);
        least = newer(least, lane.offered?.version);
      }
      const state = this.#dueState(lane, nowMs);
      if (state !== undefined && state !== lane.state && isRead) {
        fill(lane, state);
        this.#onShared(state, [lane.boundMs]);
      }
      // Beyond the lane's bound only the newest is young enough: a client's past may be above the lane (see `passedBy`).
      if (satisfies(state, lane.boundMs, least, nowMs)) return state;
    }
    return satisfies(this.#newest, maxStalenessMs, least, nowMs) ? this.#newest : undefined;
  }

  sharedWithin(boundMs: number): PublishedState | undefined {
    return this.#lanes.find((lane) => lane.boundMs <= boundMs)?.state;
  }

  /** The newest version that reads of any bound share, here or at another replica. */
  get newestShared(): LedgerVersion | undefined {
    let newest: LedgerVersion | undefined;
    for (const { state, offered } of this.#lanes) newest = newer(newer(newest, state?.info.version), offered?.version);
    return newest;
  }

  /** Whether reads share a state here or at a peer: one that was not renewed for long is of a bound that is not used. */
  isInUse(nowMs: number): boolean {
    return this.#lanes.some(
      ({ state, offered, boundMs }) =>
        offered !== undefined || (state !== undefined && nowMs - state.asOfMs <= boundMs * idleBounds),
    );
  }

  /** A version that no read is below from now on; `undefined`: unknown. */
  passedBy(nowMs: number): LedgerVersion | undefined {
    let least: LedgerVersion | undefined;
    for (const { state, boundMs } of this.#lanes) {
      // One that is absent or beyond its bound is replaced by the newest at its next read.
      if (state === undefined || nowMs - state.asOfMs > boundMs) continue;
      if (least === undefined || state.info.version < least) least = state.info.version;
    }
    return least ?? this.#newest?.info.version;
  }

  /** Takes the result of a look. `forAll`: reads of every bound share it from now on. False: it is older than the newest. */
  take(state: PublishedState, forAll: boolean): boolean {
    if (!isNewer(state, this.#newest)) return false;
    this.#newest = state;
    const due = this.#lanes.filter((lane) => forAll || isDue(lane, state.asOfMs));
    for (const lane of due) fill(lane, state);
    for (const lane of this.#lanes) if (lane.offered !== undefined) this.#accept(lane);
    if (due.length > 0)
      this.#onShared(
        state,
        due.map(({ boundMs }) => boundMs),
      );
    return true;
  }

  /** Takes over the state that reads with one of `bounds` share in another process, which renews it. */
  adopt(state: PublishedState, bounds: readonly number[]): void {
    if (isNewer(state, this.#newest)) this.#newest = state;
    for (const lane of this.#lanes) {
      if (!bounds.includes(lane.boundMs) || !isNewer(state, lane.state)) continue;
      lane.state = state;
      lane.isOwn = false;
    }
  }

  /**
   * Reads with one of `bounds` share this state at another replica. It becomes the shared state here once a node here
   * holds it, so that replicas do not renew it in turn; until then it is a floor.
   */
  offer(info: LedgerInfo, bounds: readonly number[]): void {
    for (const lane of this.#lanes) {
      const known = newer(lane.state?.info.version, lane.offered?.version);
      if (bounds.includes(lane.boundMs) && (known === undefined || info.version > known)) lane.offered = info;
    }
  }

  /** Forgets the states of other replicas: no node here reaches one. */
  refuseOffers(): void {
    for (const lane of this.#lanes) lane.offered = undefined;
  }

  /**
   * Ms until the next look has to begin for a state that reads come for. `lookedAtMs`: begin of the last look: one that
   * was due and renewed nothing is not repeated at once, as its node refused it, or is behind.
   */
  renewalInMs(nowMs: number, lookedAtMs: number): number | undefined {
    let next: number | undefined;
    for (const lane of this.#lanes) {
      const { boundMs, state, askedAtMs, isOwn } = lane;
      if (state === undefined || !isOwn || nowMs - askedAtMs > boundMs * idleBounds) continue;
      const fromMs = isDue(lane, lookedAtMs) ? lookedAtMs : state.asOfMs;
      const inMs = Math.max(0, fromMs + boundMs * renewAt - nowMs);
      if (next === undefined || inMs < next) next = inMs;
    }
    return next;
  }

  drop(isLost: (version: LedgerVersion) => boolean): void {
    const isLostState = (state: PublishedState | undefined): boolean =>
      state !== undefined && isLost(state.info.version);
    if (isLostState(this.#newest)) this.#newest = undefined;
    for (const lane of this.#lanes) {
      if (isLostState(lane.state)) lane.state = undefined;
      if (lane.offered !== undefined && isLost(lane.offered.version)) lane.offered = undefined;
    }
  }

  clear(): void {
    this.drop(() => true);
  }

  /**
   * Takes the offered state over where a node holds it. No clock is shared with the other replica: it was current when
   * the older state of this process was, or later.
   */
  #accept(lane: Lane): void {
    const { offered, state } = lane;
    if (offered === undefined) return;
    if (state !== undefined && offered.version <= state.info.version) lane.offered = undefined;
    else if (state !== undefined && this.#isReached(offered.version)) {
      lane.offered = undefined;
      lane.state = { ...state, info: offered };
      if (isNewer(lane.state, this.#newest)) this.#newest = lane.state;
    }
  }

  /** The lane's state, or beyond its bound the newest, which saves a look. */
  #dueState({ state, boundMs }: Lane, nowMs: number): PublishedState | undefined {
    const newest = this.#newest;
    if (newest === undefined || (state !== undefined && nowMs - state.asOfMs <= boundMs)) return state;
    return isNewer(newest, state) ? newest : state;
  }
}

function fill(lane: Lane, state: PublishedState): void {
  lane.state = state;
  lane.isOwn = true;
}

function isDue({ state, boundMs }: Lane, asOfMs: number): boolean {
  return state === undefined || asOfMs - state.asOfMs >= boundMs * dueAt;
}

/** The newer of two versions. */
export function newer(one: LedgerVersion | undefined, other: LedgerVersion | undefined): LedgerVersion | undefined {
  return one === undefined || (other !== undefined && other > one) ? other : one;
}

/** Whether the state has a higher version, or the same at a later time: a quiet ledger keeps its version. */
function isNewer(state: PublishedState, than: PublishedState | undefined): boolean {
  if (than === undefined) return true;
  if (state.info.version !== than.info.version) return state.info.version > than.info.version;
  return state.asOfMs > than.asOfMs;
}

function satisfies(
  state: PublishedState | undefined,
  maxStalenessMs: number,
  min: LedgerVersion | undefined,
  nowMs: number,
): boolean {
  if (state === undefined || nowMs - state.asOfMs > maxStalenessMs) return false;
  return min === undefined || state.info.version >= min;
}
