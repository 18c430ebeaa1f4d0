/**
 * Reads without a version. The gateway chooses one that is fresh enough for the client and shared by all clients within
 * the staleness bound, and pins the read to it (docs/consistency.md).
 */
import type { Socket } from 'node:net';
import type { Registry } from 'prom-client';
import { clientOf } from '../../access/index.ts';
import {
  type CancelSignal,
  GatewayError,
  type LedgerInfo,
  type LedgerVersion,
  withVersion,
} from '../../ledger/index.ts';
import { Histogram, lagVersions } from '../../metrics/index.ts';
import type { Demand, Fleet, PublishedState, ReportedState } from '../../upstream/index.ts';
import {
  type BoundedRead,
  type BoundingPlan,
  type ExplainedBound,
  explainBound,
  parseBound,
  parseDemand,
  type StalenessSettings,
  usualBound,
} from './demand.ts';
import { HotReads } from './hot-reads.ts';
import type { DemandingCaller, DemandSource, Read, ReadResult } from './read.ts';
import type { Reader } from './reader.ts';

/** Newest version that a connection has received, and the fleet's generation that it is of. */
interface SeenVersion {
  readonly version: LedgerVersion;
  readonly generation: number;
  /**
   * The client that got it, where reads with any bound share an older state: a proxy's connection is that of many
   * clients, and binds the others to `before` alone.
   */
  readonly client: string | undefined;
  readonly before: LedgerVersion | undefined;
}

const seenKey = Symbol('newest version that the connection has received');

/** A request, or a stream, whose client receives a version. */
type Received = Pick<DemandSource, 'socket' | 'admitted'>;

/** A client's connection: a member costs a hit a tenth of a map look-up. */
type SeeingSocket = Socket & { [seenKey]?: SeenVersion };

/** Body and version of an answer to `GET {base}`. */
export interface InfoBody {
  readonly body: Buffer;
  readonly version: LedgerVersion;
}

/** Decides the version of each read of "latest", by the client's demand and its connection's history. */
export class Freshness {
  readonly hot: HotReads;
  readonly #fleet: Fleet;
  readonly #latest: Fleet['latest'];
  readonly #reader: Reader;
  readonly #settings: StalenessSettings;
  readonly #metrics: ReturnType<typeof createLatestMetrics>;
  readonly #infoRead: BoundedRead = { operation: 'ledger_info' };
  /** Cached targets' reads, pinned to the version of their last use. */
  readonly #pins = new WeakMap<Read, Read>();
  /** The last ledger info, and its sources. */
  #info: (InfoBody & { readonly state: PublishedState; readonly oldest: Fleet['oldest'] }) | undefined;
  #head: LedgerInfo | undefined;
  #version: LedgerVersion | undefined;
  #lag = 0;

  /** `isBusy`: see `HotReads`. */
  constructor(fleet: Fleet, reader: Reader, settings: StalenessSettings, isBusy: () => boolean, registry: Registry) {
    this.hot = new HotReads(fleet, reader, (read, version) => this.pinned(read, version), isBusy, registry);
    this.#fleet = fleet;
    this.#latest = fleet.latest;
    this.#reader = reader;
    this.#settings = settings;
    this.#metrics = createLatestMetrics(registry);
  }

  /** `read`: absent where the age does not count. Throws `GatewayError` 400 for malformed headers. */
  demandOf(source: DemandSource, read?: BoundedRead): Demand {
    const usualMs = usualBound(this.#settings, read, source.admitted?.principal.plan);
    return parseDemand(source.headers, this.#settings, usualMs, this.#seenBy(source), this.#floorOf(source));
  }

  /** Whether an answer of a ledger that ends ahead of `next` has all that the client has seen, or demands. */
  suffices(source: DemandSource, next: LedgerVersion): boolean {
    const { headers } = source;
    if ((headers['ledgergate-min-version'] ?? headers['ledgergate-max-staleness']) !== undefined) return false;
    const { min, floor } = this.demandOf(source);
    return (min === undefined || min < next) && (floor === undefined || floor < next);
  }

  /** `given`: value of `Ledgergate-Max-Staleness`. Throws `GatewayError` 400. */
  explainBound(read: BoundedRead, plan: BoundingPlan | undefined, given: string | undefined): ExplainedBound {
    if (given === undefined) return explainBound(this.#settings, read, plan);
    return { maxStalenessMs: parseBound(given, this.#settings), by: 'Ledgergate-Max-Staleness' };
  }

  /**
   * Records a version that the client received: later reads on its connection are at or past `version`, and those on its
   * others where it is ahead of the state that reads share. `isShared`: it is of such a state, and is compared with that
   * of the client's usual bound; else with those of all bounds, so that the client reads its writes under each.
   */
  recordSeen(source: Received, version: LedgerVersion, isShared = false): void {
    const seen = this.#seenBy(source);
    const isSeen = seen !== undefined && seen >= version;
    if (isSeen && isShared) return;
    const usualMs = isShared ? usualBound(this.#settings, undefined, source.admitted?.principal.plan) : undefined;
    const socket: SeeingSocket = source.socket;
    const { generation } = this.#fleet;
    const client = nameOf(source);
    const isOfClient = this.#latest.recordGiven(client, version, usualMs);
    if (isSeen) return;
    const last = socket[seenKey];
    const before = last?.generation !== generation ? undefined : last.client === undefined ? last.version : last.before;
    socket[seenKey] = isOfClient
      ? { version, generation, client, before }
      : { version, generation, client: undefined, before: undefined };
  }

  /** The shared state, if it satisfies the demand. Synchronous: a hit costs no promise. */
  find(request: DemandSource, read: BoundedRead): PublishedState | undefined {
    return this.#latest.find(this.demandOf(request, read));
  }

  /** Memory's answer at the shared version, if that satisfies the demand. Synchronous, as `find`. */
  findRead(read: Read, request: DemandSource): ReadResult | undefined {
    const state = this.find(request, read);
    const hit = state === undefined ? undefined : this.#reader.find(this.pinned(read, state.info.version));
    if (state === undefined || hit === undefined) return undefined;
    this.recordServed(request, state);
    this.hot.record(read, state);
    return { ...hit, isLatest: true, ageSeconds: this.ageOf(state, performance.now()) };
  }

  /** Reads at the shared version, or at a newer one if the demand needs it. Rejects with `GatewayError`. */
  async load(read: Read, exchange: DemandingCaller): Promise<ReadResult> {
    const reader = this.#reader;
    const latest = this.#latest;
    const demand = this.demandOf(exchange, read);
    if (demand.maxStalenessMs === 0) return this.#readAtHead(read, demand, exchange);
    return latest.at(demand, exchange, async (state) => {
      this.hot.record(read, state);
      const pinned = this.pinned(read, state.info.version);
      const served = reader.find(pinned) ?? (await reader.load(pinned, exchange));
      latest.requireVersion(served.entry, state.info.version);
      this.recordServed(exchange, state, performance.now());
      return { ...served, isLatest: true, ageSeconds: this.ageOf(state, performance.now()) };
    });
  }

  /** `ledgerInfo` of the shared state, if it satisfies the demand. Synchronous, as `find`. */
  findLedgerInfo(request: DemandSource): InfoBody | undefined {
    const state = this.find(request, this.#infoRead);
    return state === undefined ? undefined : this.#infoOf(state, request);
  }

  /**
   * Body and version of `GET {base}`: the node's answer with the fleet's oldest version and block, because another node
   * may reach further back (protocol 9), and with the snapshot of its headers. Rejects with `GatewayError`.
   */
  async ledgerInfo(request: DemandSource, signal: CancelSignal): Promise<InfoBody> {
    return this.#infoOf(await this.#latest.reach(this.demandOf(request, this.#infoRead), signal), request);
  }

  /** `findLedgerInfo` of this state, for an event; `undefined`: the client has got a newer one. */
  infoAt(state: PublishedState, client: Received): InfoBody | undefined {
    return this.mayFollow(state, client) && this.#fleet.oldest !== undefined ? this.#infoOf(state, client) : undefined;
  }

  /** Whether the state is at or past all that the client has got. Its age does not count for an event. */
  mayFollow({ info }: ReportedState, client: Received): boolean {
    const seen = this.#seenBy(client);
    if (seen !== undefined && seen > info.version) return false;
    const floor = this.#floorOf(client);
    return floor === undefined || floor <= info.version;
  }

  /** Throws `GatewayError` 503 where the node that answered does not hold the state: see `Latest.requireVersion`. */
  requireVersion({ entry }: ReadResult, { info }: ReportedState): void {
    this.#latest.requireVersion(entry, info.version);
  }

  #infoOf(state: PublishedState, request: Received): InfoBody {
    const { oldest } = this.#fleet;
    if (oldest === undefined) throw new GatewayError('unavailable', 'no usable node is known', { reason: 'no node' });
    this.recordServed(request, state, performance.now());
    const last = this.#info;
    if (last?.state === state && last.oldest === oldest) return last;
    const { version } = state.info;
    const info = { body: bodyOf(state, oldest), version, state, oldest };
    this.#info = info;
    return info;
  }

  /** The read at a version that the gateway chose; its answer equals that of a client that names it. */
  pinned(read: Read, version: LedgerVersion): Read {
    const before = this.#pins.get(read);
    if (before?.version === version) return before;
    const pinned = pinTo(read, version);
    this.#pins.set(read, pinned);
    return pinned;
  }

  /** Age in whole seconds since the state was requested: a small integer, which V8 stores inline. */
  ageOf({ asOfMs }: ReportedState, nowMs: number): number {
    return Math.max(0, (nowMs - asOfMs) / 1000) | 0;
  }

  /** Records an answer from this state. `nowMs`: of `performance.now()`; default: the time at which `find` chose it. */
  recordServed(request: Received, { info, asOfMs }: ReportedState, nowMs = this.#latest.askedAtMs): void {
    this.recordSeen(request, info.version, true);
    this.#metrics.observeStaleness((nowMs - asOfMs) / 1000);
    this.#noteLag(info.version);
  }

  /** Records that the client receives a state at a node's head next: no later answer is older, while a node holds it. */
  recordHead(request: Received, version: LedgerVersion): void {
    this.#latest.recordServed(version);
    this.recordSeen(request, version);
    this.#noteLag(version);
  }

  /** Without staleness, a node answers that has reached every version that was served. */
  async #readAtHead(read: Read, demand: Demand, exchange: DemandingCaller): Promise<ReadResult> {
    const reader = this.#reader;
    const latest = this.#latest;
    const served = await latest.aboveFloor(demand, exchange.signal, (floor, isChosen) =>
      reader.ask({ ...read, need: { kind: 'head', min: floor, isExact: true, isChosen } }, exchange),
    );
    latest.requireVersion(served.entry);
    if (served.version !== undefined) this.recordHead(exchange, served.version);
    return served;
  }

  /** Cached, because thousands of answers have the same head and version. */
  #noteLag(version: LedgerVersion): void {
    const { head } = this.#fleet;
    if (head !== this.#head || version !== this.#version) {
      this.#head = head;
      this.#version = version;
      this.#lag = head === undefined ? 0 : Math.max(0, Number(head.version - version));
    }
    this.#metrics.observeLag(this.#lag);
  }

  #floorOf(source: Received): LedgerVersion | undefined {
    return this.#latest.clientsAhead > 0 ? this.#latest.floorOf(nameOf(source)) : undefined;
  }

  #seenBy(source: Received): LedgerVersion | undefined {
    const seen = (source.socket as SeeingSocket)[seenKey];
    if (seen?.generation !== this.#fleet.generation) return undefined;
    return seen.client === undefined || seen.client === nameOf(source) ? seen.version : seen.before;
  }
}

/** The client that a version binds: the key, or the address as limits count it. */
function nameOf({ socket, admitted }: Received): string {
  return admitted?.principal.client ?? clientOf(socket);
}

const infoMember =
  /"(epoch|ledger_version|ledger_timestamp|block_height|oldest_ledger_version|oldest_block_height)"(\s*:\s*)"\d+"/g;

/** Body and headers name one ledger at a node (protocol 9); reads are pinned to the version in the headers. */
function bodyOf({ body, info }: PublishedState, oldest: LedgerInfo): Buffer {
  const values: Readonly<Record<string, bigint>> = {
    epoch: info.epoch,
    ledger_version: info.version,
    ledger_timestamp: info.timestampUsec,
    block_height: info.blockHeight,
    oldest_ledger_version: oldest.oldestVersion,
    oldest_block_height: oldest.oldestBlockHeight,
  };
  const withSnapshot = (_: string, name: string, colon: string): string => `"${name}"${colon}"${values[name]}"`;
  return Buffer.from(body.toString().replaceAll(infoMember, withSnapshot));
}

function pinTo(read: Read, version: LedgerVersion): Read {
  const wire = { ...read.wire, path: withVersion(read.wire.path, version) };
  return { ...read, version, wire, need: { kind: 'version', version, isChosen: true } };
}

/** Registers the families of reads of the latest state. */
export function createLatestMetrics(registry: Registry) {
  const staleness = new Histogram(registry, {
    name: 'ledgergate_served_staleness_seconds',
    help: 'Age of the shared state when a read of the latest state is answered from it; latest.maxStaleness bounds it when the request comes.',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 1, 2.5, 5, 10],
  }).of({});
  const lag = new Histogram(registry, {
    name: 'ledgergate_served_version_lag_versions',
    help: 'Versions from the one that a read of the latest state is answered from to the newest that the fleet has reported by then.',
    buckets: lagVersions,
  }).of({});
  return {
    /** Age of the shared state at the answer. */
    observeStaleness: (seconds: number) => staleness.observe(seconds),
    /** Versions from the answer's state to the present head. */
    observeLag: (versions: number) => lag.observe(versions),
  };
}
