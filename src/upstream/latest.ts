/**
 * The version of reads of "latest". One look at the freshest node (`GET {url}`) gives a coherent state of the ledger.
 * While it is younger than the caller's bound, every read of "latest" is a read at its version, so that clients share
 * reads of nodes and see one state (`SharedStates`). A client that has got a newer one reads no older one (`Floors`);
 * with `latest.floor: gateway`, no client does. Within a generation the version goes backward only when every node that
 * has reached it fails or is gone, and then only for connections that have not seen it.
 */
import {
  type AnswerContent,
  type CancelSignal,
  GatewayError,
  type LedgerInfo,
  type LedgerVersion,
} from '../ledger/index.ts';
import { type Span, within } from '../metrics/index.ts';
import { type AnswerOfError, errorCodeOf } from './dispatch/classify.ts';
import { UnreachedError } from './dispatch/fleet-request.ts';
import type { NodeAnswer } from './dispatch/exchange.ts';
import type { Sender } from './dispatch/sender.ts';
import type { FleetState } from './fleet-state.ts';
import { Floors } from './floors.ts';
import { silentMs } from './node/circuits.ts';
import type { Upstream } from './node/upstream.ts';
import { type Demand, newer, type PublishedState, type ReportedState, SharedStates } from './shared-states.ts';

/** Floors and shared states that the other processes get to know, each before a client gets its version. */
export type LatestNews =
  /** A read without a version is answered with this version, a floor for every client. */
  | { readonly kind: 'served'; readonly version: LedgerVersion }
  /** This client gets this version, a floor for itself. */
  | { readonly kind: 'floor'; readonly client: string; readonly version: LedgerVersion }
  /** Reads whose bound on its age is one of `bounds`, in ms, share this state. `floor`: whom its version binds. */
  | {
      readonly kind: 'snapshot';
      readonly snapshot: PublishedState;
      readonly bounds: readonly number[];
      readonly floor: LatestOptions['floor'];
    };

interface LatestEvents {
  publish(news: LatestNews): void;
  /** No node here reached the version that a client of a peer has got: clients here get an older one. */
  onUnreached(version: LedgerVersion): void;
  /** See `Prober.compareAnew`. Default: never. */
  readonly compareHeads?: () => Promise<void>;
}

/** Bounds of reads of "latest", read at each use, so they may change. */
export interface LatestOptions {
  /** Largest age of a state by default. */
  readonly maxStalenessMs: number;
  /** All bounds above 0 ms that the config names, ascending. */
  readonly bounds: readonly number[];
  /** The reads that a version binds which a client has got. */
  readonly floor: 'client' | 'gateway';
  readonly waitForVersionMs: number;
}

/** Most looks of one caller: a look misses at a node that is behind, or when it began too early. */
const maxLooks = 3;
/** Most states that one caller reads at, each after the nodes that hold the one before have failed. */
const mostStates = 3;
const none = -1n as LedgerVersion;

/** Finds, renews and shares the state of reads of "latest". */
export class Latest {
  readonly #fleet: FleetState;
  readonly #sender: Pick<Sender, 'whole'>;
  readonly #events: LatestEvents;
  readonly #options: LatestOptions;
  readonly #closing = new AbortController();
  /** The fleet's generation that the next two are of. */
  #generation = 0;
  readonly #keptStates: SharedStates;
  readonly #keptFloors: Floors;
  #look: Promise<void> | undefined;
  #lookedAtMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  /** Time of the last call of `find`, on the clock of `performance.now()`. */
  askedAtMs = -Infinity;

  constructor(fleet: FleetState, sender: Pick<Sender, 'whole'>, options: LatestOptions, events: LatestEvents) {
    this.#fleet = fleet;
    this.#sender = sender;
    this.#options = options;
    this.#events = events;
    this.#keptFloors = new Floors(
      () => this.#head,
      (version) => events.publish({ kind: 'served', version }),
    );
    this.#keptStates = new SharedStates(
      (state, bounds) => {
        this.#onShared(state.info.version);
        events.publish({ kind: 'snapshot', snapshot: state, bounds, floor: options.floor });
        this.#schedule();
      },
      (version) => this.#isReached(version),
    );
  }

  /** The state that satisfies the demand now, without a look or a promise. */
  find({ maxStalenessMs, min, floor }: Demand): PublishedState | undefined {
    const nowMs = performance.now();
    this.askedAtMs = nowMs;
    return this.#shared.find(maxStalenessMs, newer(this.#floors.above(min), floor), nowMs);
  }

  /** The state that reads with this bound share, for a report. `isUsable`: a read now would need no look first. */
  peek(
    boundMs = this.#options.maxStalenessMs,
  ): { readonly version: LedgerVersion; readonly ageMs: number; readonly isUsable: boolean } | undefined {
    const nowMs = performance.now();
    const usable = this.#shared.find(boundMs, this.#floors.above(undefined), nowMs, false);
    const state = usable ?? this.#shared.sharedWithin(boundMs);
    if (state === undefined) return undefined;
    return { version: state.info.version, ageMs: nowMs - state.asOfMs, isUsable: usable !== undefined };
  }

  isShared(state: ReportedState): boolean {
    return this.#shared.sharedWithin(this.#options.maxStalenessMs) === state;
  }

  get clientsAhead(): number {
    return this.#keptFloors.clients;
  }

  /** The floor of a client that is ahead of the shared states. */
  floorOf(client: string): LedgerVersion | undefined {
    return this.#floors.of(client);
  }

  /**
   * A state that satisfies the demand as of this call: the shared one, or that of a look, which callers share too.
   * Throws `GatewayError` 503 when the fleet does not reach `min` in time, or no node answers.
   */
  async reach(demand: Demand, signal: CancelSignal): Promise<PublishedState> {
    const { maxStalenessMs, min } = demand;
    return (
      this.find(demand) ??
      this.aboveFloor(demand, signal, (floor) => this.#lookFor({ maxStalenessMs, min: floor }, min, signal))
    );
  }

  /**
   * Runs `ask` at a state that satisfies the demand. When the nodes that hold it fail, runs it again at the newest
   * state of the others; a client that has seen newer ones waits until another node has reached them.
   */
  async at<T>(
    demand: Demand,
    { signal, span }: { readonly signal: CancelSignal; readonly span?: Span | undefined },
    ask: (state: ReportedState) => Promise<T>,
  ): Promise<T> {
    let state: ReportedState = await within(span, 'snapshot', () => this.reach(demand, signal));
    const failed = new Set<Upstream>();
    for (let states = 1; ; states += 1) {
      try {
        return await ask(state);
      } catch (error) {
        if (!(error instanceof UnreachedError) || states === mostStates || signal.aborted) throw error;
        for (const upstream of this.#lostBy(error, state)) failed.add(upstream);
        state = await this.#instead(error, failed, demand, signal);
      }
    }
  }

  /**
   * Runs `ask` with the lowest version for the demand: any client may have got the shared state, and this one's floor.
   * When no node here reaches it, runs `ask` with the newest version that one has, for a client that has got a newer
   * one, else with `min` alone (`isChosen` is false).
   */
  async aboveFloor<T>(
    { min, floor: own }: Pick<Demand, 'min' | 'floor'>,
    signal: CancelSignal,
    ask: (floor: LedgerVersion | undefined, isChosen: boolean) => Promise<T>,
  ): Promise<T> {
    const floorOfAll = (): LedgerVersion | undefined => newer(this.#floors.above(min), this.#shared.newestShared);
    const floor = newer(floorOfAll(), own);
    if (floor === undefined || floor === min) return ask(floor, false);
    // A node here is about to reach a version that a peer has got from another, or from this one.
    if (this.#isAboveHead(floor)) await this.#comesTo(floor, signal);
    try {
      return await ask(floor, true);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.fault !== 'unavailable') throw error;
      const failed = error instanceof UnreachedError ? error.failed : undefined;
      // Another reason: the client left, or a node has reached the version, and is overloaded.
      if (signal.aborted || (failed === undefined && this.#isProvided(floor))) throw error;
      if (floor > (this.#head ?? -1n)) {
        this.#floors.ignorePeers();
        this.#shared.refuseOffers();
        this.#events.onUnreached(floor);
      } else {
        await this.#events.compareHeads?.();
        this.#giveUpLost();
      }
      // The client gets what it has got before, or the newest that is left.
      const wanted = newer(floorOfAll(), own);
      const newest = this.#newestProvided((upstream) => failed?.includes(upstream) !== true);
      const left = wanted !== undefined && wanted < newest ? wanted : newest;
      if (wanted === undefined || left <= (min ?? -1n)) return ask(min, false);
      return ask(left, true).catch((again: unknown) => {
        if (again instanceof UnreachedError && !signal.aborted) return ask(min, false);
        throw again;
      });
    }
  }

  /**
   * Throws 503 for a node's error about `version`, or about its head: it is no answer to a client that named no
   * version, and clients take a 410 for final.
   */
  requireVersion(answer: AnswerOfError, version: LedgerVersion | undefined = this.#head): void {
    const { status } = answer;
    if (status === 410 || (status === 404 && errorCodeOf(answer) === 'version_not_found'))
      throw new UnreachedError(version);
  }

  /** A client is about to get this version of a node's head: a floor for every client, where no state is shared. */
  recordServed(version: LedgerVersion): void {
    if (this.#options.floor === 'client' && this.#shared.isInUse(performance.now())) return;
    // A version above the head comes from before a rollback, or from a node that is not believed.
    if (this.#head !== undefined && version > this.#head) return;
    if (this.#floors.raise(version)) this.#events.publish({ kind: 'served', version });
  }

  /**
   * A client is about to get this version: where reads share an older state, its other connections get none below it.
   * The other processes are to know where it is ahead of the state that reads with bound `boundMs` share (absent: with
   * any). Returns whether it binds this client alone; else every read has passed it.
   */
  recordGiven(client: string, version: LedgerVersion, boundMs: number | undefined): boolean {
    const [states, floors] = [this.#shared, this.#floors];
    const passed = newer(states.passedBy(performance.now()), floors.served);
    if (passed !== undefined && version <= passed) return false;
    if (this.#options.floor === 'client' && (this.#head === undefined || version <= this.#head)) {
      const shared = boundMs === undefined ? undefined : states.sharedWithin(boundMs)?.info.version;
      const isAhead = shared === undefined || version > shared;
      const isNews = floors.raiseOf(client, version, isAhead) && isAhead;
      if (isNews) this.#events.publish({ kind: 'floor', client, version });
    }
    return true;
  }

  /** A client of another worker or replica has got this version, a floor for every client. */
  onPeerVersion(version: LedgerVersion): void {
    if (this.#floors.isNewsOfPeer(version)) this.#floors.raiseByPeer(version);
  }

  onPeerFloor(client: string, version: LedgerVersion): void {
    if (!this.#floors.isNewsOfPeer(version)) return;
    const passed = this.#shared.passedBy(performance.now());
    if (passed === undefined || version > passed) this.#floors.raiseOf(client, version, true);
  }

  /**
   * Takes over the state that another worker shares and renews; this process renews it only when a read finds it too
   * old, so that one look serves all workers.
   */
  onPeerState(state: PublishedState, bounds: readonly number[]): void {
    const { version } = state.info;
    if (!this.#isReached(version)) return;
    this.#shared.adopt(state, bounds);
    this.#onShared(version);
    this.#schedule();
  }

  /**
   * Reads with one of `bounds` share this state at another replica. Under other bounds of the config its clients may
   * read with any bound here: it is a floor for every client, as by a replica that knows no states.
   */
  onReplicaState(info: LedgerInfo, bounds: readonly number[]): void {
    const { floor, bounds: ours } = this.#options;
    if (floor === 'gateway' || bounds.some((boundMs) => !ours.includes(boundMs))) this.onPeerVersion(info.version);
    if (this.#floors.isNewsOfPeer(info.version)) this.#shared.offer(info, bounds);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#closing.abort(new Error('closing'));
  }

  get #head(): LedgerVersion | undefined {
    return this.#fleet.head?.version;
  }

  get #shared(): SharedStates {
    this.#forgetOldLedger();
    this.#keptStates.follow(this.#options.bounds);
    return this.#keptStates;
  }

  get #floors(): Floors {
    this.#forgetOldLedger();
    return this.#keptFloors;
  }

  /** Versions of a ledger that went back, or was false, must not hold up every client (see `FleetLedger`). */
  #forgetOldLedger(): void {
    const { generation } = this.#fleet;
    if (generation === this.#generation) return;
    this.#generation = generation;
    this.#keptStates.clear();
    this.#keptFloors.clear();
  }

  #onShared(version: LedgerVersion): void {
    if (this.#options.floor === 'gateway') this.#floors.raise(version);
    const passed = this.#keptStates.passedBy(performance.now());
    if (passed !== undefined) this.#floors.forgetUpTo(passed);
  }

  /** Looks for a state of at least `min`, for a client that has seen `seen`: others do not wait for a lost one. */
  async #lookFor(
    { maxStalenessMs, min }: Demand,
    seen: LedgerVersion | undefined,
    signal: CancelSignal,
  ): Promise<PublishedState> {
    const askedMs = performance.now();
    // A look in flight may have begun before the bound; one that begins after it always satisfies the bound.
    for (let looks = 0; looks < maxLooks && !signal.aborted; looks += 1) {
      await this.#renew(min);
      const state = this.#shared.find(maxStalenessMs, min, askedMs);
      if (state !== undefined) return state;
      if (min === undefined || this.#isProvided(min)) continue;
      const isAwaited = min === seen || this.#isAboveHead(min);
      if (!isAwaited || !(await this.#comesTo(min, signal))) break;
    }
    if (this.#isAboveHead(min)) {
      throw new GatewayError(
        'unavailable',
        `the ledger is at version ${this.#head} here, and version ${min} was asked for; try again`,
        { reason: 'not reached' },
      );
    }
    if (min !== undefined && !this.#isProvided(min)) throw new UnreachedError(min);
    throw new GatewayError('unavailable', 'no node reports the latest ledger version now; try again', {
      reason: 'no node',
    });
  }

  #lostBy({ failed }: UnreachedError, { info }: ReportedState): readonly Upstream[] {
    if (failed.length > 0) return failed;
    return this.#fleet.upstreams.filter(({ head }) => head >= info.version);
  }

  /** The newest state of the nodes that have not failed. Throws `error` when the client has seen newer ones. */
  async #instead(
    error: UnreachedError,
    failed: ReadonlySet<Upstream>,
    { min }: Demand,
    signal: CancelSignal,
  ): Promise<ReportedState> {
    await this.#events.compareHeads?.();
    this.#giveUpLost();
    const isFit = (upstream: Upstream): boolean => !failed.has(upstream);
    if (min !== undefined && !(await this.#comesTo(min, signal, isFit))) throw new UnreachedError(min);
    let newest: Upstream | undefined;
    for (const upstream of this.#providers(isFit)) {
      if (upstream.head > (newest?.head ?? -1n)) newest = upstream;
    }
    const info = newest?.window.info;
    if (newest === undefined || info === undefined) throw error;
    return { info, asOfMs: newest.window.observedAtMs };
  }

  #isReached(version: LedgerVersion): boolean {
    return version <= (this.#head ?? -1n) && this.#isProvided(version);
  }

  /** Resolves when a node that provides the newest state has reached the version, or to false after `waitForVersionMs`. */
  #comesTo(version: LedgerVersion, signal: CancelSignal, isFit?: (upstream: Upstream) => boolean): Promise<boolean> {
    const isProvider = (upstream: Upstream): boolean => this.#providers(isFit).includes(upstream);
    return this.#fleet.waitFor(version, this.#options.waitForVersionMs, signal, isProvider);
  }

  /** The nodes that reads of the newest state depend on; when all fail these reads, the others are no better. */
  #providers(isFit = (_: Upstream): boolean => true): readonly Upstream[] {
    const trusted = this.#fleet.upstreams.filter((upstream) => upstream.isTrusted && isFit(upstream));
    const providers = trusted.filter(({ failsNewest }) => !failsNewest);
    return providers.length === 0 ? trusted : providers;
  }

  /** Whether a node that can be reached holds the version. In an outage none answers an older one either. */
  #isProvided(version: LedgerVersion): boolean {
    return version <= this.#newestProvided();
  }

  /** The newest version that a node that can be reached holds; -1: no node has reported one. */
  #newestProvided(isFit?: (upstream: Upstream) => boolean): LedgerVersion {
    const providers = this.#providers(isFit);
    if (providers.length === 0) return this.#head ?? none;
    return providers.reduce((newest, { head }) => (head > newest ? (head as LedgerVersion) : newest), none);
  }

  #ifProvided(version: LedgerVersion | undefined): LedgerVersion | undefined {
    return version !== undefined && this.#isProvided(version) ? version : undefined;
  }

  /** Whether clients have got a version that the ledger has reached and no node provides, as far as heads are known. */
  get #isAnyLost(): boolean {
    const left = this.#newestProvided();
    const got = newer(this.#shared.newest?.info.version, this.#floors.newest);
    return left < (this.#head ?? none) && got !== undefined && got > left;
  }

  /** Gives up versions that no node provides any more: only clients that have seen them wait for them. */
  #giveUpLost(): void {
    const left = this.#newestProvided();
    this.#shared.drop((version) => version > left);
    this.#floors.giveUpAbove(left);
  }

  #isAboveHead(version: LedgerVersion | undefined): version is LedgerVersion {
    return version !== undefined && this.#head !== undefined && version > this.#head;
  }

  /** A look that finds no better state does not reject. */
  #renew(min: LedgerVersion | undefined): Promise<void> {
    this.#look ??= this.#lookNow(min).finally(() => {
      this.#look = undefined;
    });
    return this.#look;
  }

  async #lookNow(min: LedgerVersion | undefined): Promise<void> {
    const asOfMs = performance.now();
    this.#lookedAtMs = asOfMs;
    const current = this.#shared.newest?.info.version;
    // While no node provides a version, the look reads the head of the freshest one instead.
    const floor = newer(this.#ifProvided(current), this.#ifProvided(min));
    const answer = await this.#askInfo(floor).catch((error: unknown) => {
      if (floor === undefined || this.#isProvided(floor)) throw error;
      // The node at the floor has just failed the look.
      return this.#askInfo(undefined);
    });
    this.#schedule();
    const { status, info, body, upstream } = answer;
    if (status !== 200 || info === undefined || !this.#providers().includes(upstream)) return;
    upstream.newest.succeed(asOfMs, performance.now());
    // A node may have reached the version of one that has stopped, since it reported its head.
    if (this.#isAnyLost) await this.#events.compareHeads?.();
    this.#giveUpLost();
    // Above the believed head no state is shared.
    if (info.version > (this.#head ?? -1n)) return;
    this.#shared.take({ info, body, asOfMs, upstream: upstream.name }, this.#options.floor === 'gateway');
  }

  #askInfo(min: LedgerVersion | undefined): Promise<NodeAnswer> {
    const wire = { method: 'GET', path: '', headers: { accept: 'application/json' } } as const;
    const need = { kind: 'head', min } as const;
    const bounds = { isIdempotent: true, timeoutMs: silentMs, isLook: true } as const;
    const look = { wire, need, promised: 'json', isContent: isInfoOf, ...bounds } as const;
    return this.#sender.whole(look, this.#closing.signal);
  }

  /** Schedules the next look before a bound is reached, while reads come for its state, so that none waits for it. */
  #schedule(): void {
    clearTimeout(this.#timer);
    const inMs = this.#keptStates.renewalInMs(performance.now(), this.#lookedAtMs);
    if (inMs === undefined) return;
    // After a failure the next read repeats the look, and its client gets the error.
    this.#timer = setTimeout(() => void this.#renew(undefined).catch(() => undefined), inMs).unref();
  }
}

/** Whether a body is a ledger info, of the chain in its headers: clients sign for the chain that it names. */
function isInfoOf({ json }: AnswerContent, { chainId }: LedgerInfo): boolean {
  const { chain_id: named = chainId } = json.members;
  return json.isObject && !json.isError && named === chainId;
}
