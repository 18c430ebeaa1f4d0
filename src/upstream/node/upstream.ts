/** One node of the fleet: its address, its connections, its state, which its answers set, and that of one moment. */
import { hash } from 'node:crypto';
import { Allowance, Circuit, type Dialect, type HeaderValues, type LedgerInfo, Spans } from '../../ledger/index.ts';
import type { Deadline } from '../deadline.ts';
import { Deferral, Ejection, Silence } from './circuits.ts';
import { NodeChain } from './ledger-identity.ts';
import { ConcurrencyLimit, type PlaceKind, Semaphore } from './limits.ts';
import { lookupOf, NodeClient, type NodeClientOptions } from './node-client.ts';
import type { NodeFault } from './node-fault.ts';
import {
  type Candidate,
  headToleranceMs,
  type Health,
  isAskable,
  type Need,
  type ReadClass,
  type Tier,
  unitOf,
} from '../select/ranking.ts';
import { RetentionWindow, type WindowView } from './retention-window.ts';
import { SharedAddress } from './shared-address.ts';

/** The node as config and DNS have it. */
export interface UpstreamOptions extends NodeClientOptions {
  readonly name: string;
  /** Base address, for example `http://10.0.0.1:8080/v1`. */
  readonly url: URL;
  /** The IP address of the node, one of several that the URL's host has. Default: whichever the host has. */
  readonly address?: string | undefined;
  readonly tier: Tier;
  /** The node's own credentials: on every request to it, and on none to another. Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Requests a second that this process may send to the node. Default: unlimited. */
  readonly maxRequestsPerSecond?: number | undefined;
  readonly weight?: number | undefined;
  /** How late this process runs, in ms: a node seems slow by as much. */
  readonly ownLag?: () => number;
}

/** Headers of requests, and TLS of connections, to a node. */
export type NodeAccess = Pick<UpstreamOptions, 'headers' | 'tls'>;

/** Failures in a row after which a node is asked only when no better one is left. */
const failuresUntilDown = 2;
/** A slow answer counts at once and fades with this time constant. */
const latencyMemoryMs = 2_000;
const assumedLatencyMs = 20;
/** Least latency of a failure: a quick one must not make a node seem cheap. */
const failureMs = 50;
/** A node that fails a look provides no newest state for a while, until it answers one. */
const newestPolicy = { firstMs: 1_000, longestMs: 30_000, calmMs: 0 };
/** Names of headers before those of earlier configs are forgotten. */
const mostWithheld = 64;
/** Share of the connections that streamed answers may hold. */
const streamShare = 0.75;
/** Share of the connections that long polls may hold. */
const pollShare = 0.5;
/** Share of the connections for plain reads alone. */
const readShare = 1 / 8;

/** A node. The fleet, the sender and the prober of one process share its state. */
export class Upstream {
  /** The node by itself, for all calls that have asked no other. */
  readonly alone: ReadonlySet<Upstream> = new Set([this]);
  readonly name: string;
  readonly url: URL;
  readonly tier: Tier;
  /** Sent with every request to the node; they replace equal names. */
  headers: Readonly<Record<string, string>> | undefined;
  /** Headers by name, also of requests in flight: an answer that echoes one must not publish it. */
  withheld: Readonly<Record<string, string>>;
  /** Identifies the node among gateways, whose names for it may differ. */
  readonly fingerprint: string;
  /** Path that every request path is appended to. */
  readonly basePath: string;
  readonly address = new SharedAddress();
  readonly window = new RetentionWindow(this.address);
  readonly ejections: Readonly<Record<ReadClass, Ejection>> = byClass(() => new Ejection());
  readonly deferral = new Deferral();
  readonly silence = new Silence();
  /** Reads of the newest state in flight here; a look that the node does not answer ends them. */
  readonly newestReads = new Set<Deadline>();
  /** Open after looks that it failed. The first look after the pause is the trial. */
  readonly newest = new Circuit<'look'>(newestPolicy);
  readonly allowance: Allowance;
  weight: number;
  readonly latencies: Readonly<Record<ReadClass | 'look', LatencyHistogram>> = {
    ...byClass(() => new LatencyHistogram()),
    look: new LatencyHistogram(),
  };
  readonly places: ConcurrencyLimit;
  /** Lag of its last report behind the fleet's head, in ms of ledger time. */
  lagMs = 0;
  /** Requests in flight, until the end of the answer's body. */
  inFlight = 0;
  /** Connections for streamed answers: slow clients must not hold all. */
  readonly streams: Semaphore;
  /** Connections for long polls: reads must not wait behind them. */
  readonly polls: Semaphore;
  #clientOptions: NodeClientOptions;
  client: NodeClient;
  /** Clients that were replaced and have requests in flight. */
  readonly #draining = new Set<NodeClient>();
  readonly chain = new NodeChain();
  /** Other nodes contradict its head: asked only when no better node is left. */
  isSuspect = false;
  /** Its history differs from that of other nodes, from this version on at the earliest (`Roots`). */
  forkedAt: bigint | undefined;
  /** Removed from the fleet: requests in flight complete, and no new one is sent. */
  isRemoved = false;
  /** Reports another chain than the fleet's: never asked. */
  isForeign = false;
  /** An operator has drained it: it gets no request but probes of its ledger, and the fleet does without its reports. */
  isDrained = false;
  /** Health and fault of the last log line. */
  noted: Pick<Upstream, 'health' | 'fault'> = { health: 'unproven', fault: undefined };
  /** Unix time in ms; `undefined`: it is usable, or it was not asked yet. */
  unusableSinceMs: number | undefined;
  #failures = 0;
  #info: { readonly info: LedgerInfo; readonly headers: HeaderValues; readonly dialect: Dialect['name'] } | undefined;
  #fault: NodeFault | undefined;
  /** A request timed out or was answered 502 to 504; a probe decides whether the node is at fault. */
  #isDoubted = false;
  #answered = false;
  #latencyMs = assumedLatencyMs;
  #latencyAtMs = 0;
  /** The last `latencyMs`, which all choices of one millisecond share. */
  #decayedMs = 0;
  #decayedAtMs = -Infinity;

  constructor(options: UpstreamOptions) {
    this.name = options.name;
    this.url = options.url;
    this.tier = options.tier;
    this.headers = options.headers;
    this.withheld = options.headers ?? {};
    this.fingerprint = hash('sha256', options.url.href + (options.address ?? ''), 'base64url').slice(0, 22);
    this.basePath = options.url.pathname.replace(/\/+$/, '');
    this.places = new ConcurrencyLimit(options.connections, options.ownLag);
    this.streams = new Semaphore(Math.max(1, Math.floor(options.connections * streamShare)));
    this.polls = new Semaphore(Math.max(1, Math.floor(options.connections * pollShare)));
    this.allowance = new Allowance(options.maxRequestsPerSecond);
    this.weight = options.weight ?? 1;
    const { address } = options;
    this.#clientOptions = address === undefined ? options : { ...options, lookup: lookupOf(address) };
    this.client = this.openClient();
  }

  /** Reads as `Dialect.findInfo` does; the same object while the headers repeat, so that a node parses once per change. */
  findInfo(headers: HeaderValues, dialect: Dialect): LedgerInfo | undefined {
    const before = this.#info;
    const isSame = (name: string): boolean => headers[name] === before?.headers[name];
    if (before?.dialect === dialect.name && (headers === before.headers || dialect.seven.every(isSame)))
      return before.info;
    const info = dialect.findInfo(headers);
    this.#info = info && { info, headers, dialect: dialect.name };
    return info;
  }

  /** Connections beside those in use: the caller closes them or passes them to `replaceClient`. */
  openClient(): NodeClient {
    return new NodeClient(this.url, this.#clientOptions);
  }

  /** Sends later requests over `client`. Requests in flight finish over the old connections, which close then. */
  replaceClient(client: NodeClient): void {
    const old = this.client;
    this.client = client;
    this.#draining.add(old);
    void old.close().finally(() => this.#draining.delete(old));
  }

  /** Later requests carry other headers; other TLS material is that of new connections alone. */
  renew({ headers, tls }: NodeAccess): void {
    const before = Object.keys(this.withheld).length < mostWithheld ? this.withheld : this.headers;
    this.withheld = { ...before, ...headers };
    this.headers = headers;
    if (tls === this.#clientOptions.tls) return;
    this.#clientOptions = { ...this.#clientOptions, tls };
    this.replaceClient(this.openClient());
  }

  get health(): Health {
    if (this.isForeign) return 'foreign';
    if (this.#failures >= failuresUntilDown || this.silence.isTotal) return 'down';
    return this.#answered ? 'usable' : 'unproven';
  }

  /** Why it is not usable; `undefined`: it is, or it was not asked yet. */
  get fault(): NodeFault | undefined {
    if (this.isForeign) return 'other chain';
    return this.health === 'usable' ? undefined : (this.#fault ?? (this.silence.isTotal ? 'time-out' : undefined));
  }

  /** It answers and serves, and its head is believed. */
  get isTrusted(): boolean {
    return this.health === 'usable' && !this.isSuspect && !this.isDrained;
  }

  /** The newest version that it has reported; -1 before its first report. */
  get head(): bigint {
    return this.window.info?.version ?? -1n;
  }

  /**
   * Whether it fails reads of the newest state, or has just failed a look. Views that take too long do not count: their
   * clients choose them.
   */
  get failsNewest(): boolean {
    const { head, view } = this.ejections;
    const isTotal = head.isTotal || head.reason === 'timeout' || view.isTotal;
    return isTotal || this.newest.state(performance.now()) === 'open';
  }

  get providesNewest(): boolean {
    return this.isTrusted && !this.failsNewest;
  }

  expireNewestReads(): void {
    for (const read of this.newestReads) read.expire();
  }

  /** Whether the newest request in flight waits for a connection, because the gateway's own requests hold them all. */
  get isBusy(): boolean {
    return this.inFlight > this.#clientOptions.connections;
  }

  /** Ms until it takes any request again, by its own `Retry-After` and its allowance; 0: it does now. */
  withheldForMs(nowMs: number): number {
    return Math.max(this.deferral.heldForMs(nowMs), this.allowance.freeInMs(nowMs));
  }

  /** Whether a request that no other node can answer may be sent now. */
  mayBeAsked(nowMs: number): boolean {
    return !this.isDrained && this.deferral.mayTry(nowMs) && !this.allowance.isSpent(nowMs);
  }

  /** Whether a request beside those that clients wait for may be sent now: a hedge, an audit, a trial. */
  mayBeAskedMore(nowMs: number): boolean {
    return !this.isDrained && this.deferral.heldForMs(nowMs) === 0 && this.allowance.hasToSpare(nowMs);
  }

  /**
   * Whether it has what a request of the kind holds now. `isGuest`: another tier is for the request, and this node keeps
   * half of its places for the requests that only it can answer.
   */
  hasPlace(kind: PlaceKind, isGuest: boolean, nowMs: number): boolean {
    if (kind === 'look') return true;
    if (!this.mayBeAsked(nowMs)) return false;
    if (kind === 'poll') return true;
    if (kind === 'stream' && (this.streams.isFull || !this.mayBeHeld)) return false;
    return isGuest ? this.places.isHalfFree : !this.places.isFull;
  }

  /** Whether a stream or a long poll may hold one more connection: together they leave some to plain reads. */
  get mayBeHeld(): boolean {
    const reserved = Math.max(1, Math.floor(this.#clientOptions.connections * readShare));
    return this.streams.taken + this.polls.taken < Math.max(1, this.#clientOptions.connections - reserved);
  }

  /** Decaying peak of the answer times (peak EWMA), in milliseconds. */
  latencyMs(nowMs: number): number {
    const sinceMs = nowMs - this.#decayedAtMs;
    if (sinceMs >= 0 && sinceMs < 1) return this.#decayedMs;
    const keep = Math.exp(-Math.max(0, nowMs - this.#latencyAtMs) / latencyMemoryMs);
    this.#decayedAtMs = nowMs;
    this.#decayedMs = Math.max(1, this.#latencyMs * keep);
    return this.#decayedMs;
  }

  #setLatency(ms: number, nowMs: number): void {
    this.#latencyMs = ms;
    this.#latencyAtMs = nowMs;
    this.#decayedAtMs = -Infinity;
  }

  /** Replaces the node's report by that of another process, even an older one. */
  adopt(info: LedgerInfo, nowMs: number): void {
    this.chain.settle(info.chainId);
    this.window.adopt(info, nowMs);
  }

  /** Records an answer of any status: the node is alive. */
  recordAnswer(elapsedMs: number, nowMs: number): void {
    this.#answered = true;
    this.silence.end();
    this.#failures = 0;
    this.#fault = undefined;
    this.#isDoubted = false;
    const decayed = this.latencyMs(nowMs);
    this.#setLatency(elapsedMs > decayed ? elapsedMs : decayed + (elapsedMs - decayed) * 0.1, nowMs);
  }

  /**
   * Records a failure of the node: connection refused or reset, a probe's time-out, or an answer of a broken node. `fault`
   * counts unless an earlier one does: of a node that fails at everything, the look at its ledger info names the reason.
   */
  recordFailure(elapsedMs: number, nowMs: number, fault: NodeFault): void {
    this.#fault ??= fault;
    this.#failures += this.#isDoubted ? 2 : 1;
    this.#isDoubted = false;
    this.raiseLatency(elapsedMs, nowMs);
  }

  /** Records why a look at its ledger info gave none; shown while the node is not usable. */
  explain(fault: NodeFault): void {
    this.#fault = fault;
  }

  /**
   * Records a failure that may not be the node's: clients choose the work of a request, and a proxy may have answered.
   * It counts only together with one that is surely the node's.
   */
  recordDoubt(elapsedMs: number, nowMs: number): void {
    this.#isDoubted = true;
    this.raiseLatency(Math.max(elapsedMs, failureMs), nowMs);
  }

  /** Records that the node takes at least this long, whether or not it answers. */
  raiseLatency(elapsedMs: number, nowMs: number): void {
    this.#setLatency(Math.max(this.latencyMs(nowMs), elapsedMs), nowMs);
  }

  async close(): Promise<void> {
    await Promise.all([this.client, ...this.#draining].map((client) => client.destroy()));
  }
}

function byClass<T>(make: () => T): Record<ReadClass, T> {
  return { head: make(), archive: make(), view: make() };
}

/** The part of a fleet that candidates are made from. */
export interface FleetNodes {
  readonly upstreams: readonly Upstream[];
  isLagging(upstream: Upstream): boolean;
}

/** The moment of a choice. `readClass`: of the read; a look counts as `head`. `kind`: of the place that it takes. */
export interface Moment {
  readonly fleet: FleetNodes;
  readonly nowMs: number;
  readonly need: Need;
  readonly readClass: ReadClass | undefined;
  readonly kind: PlaceKind;
}

/** A node at one moment. Most facts are read when a choice asks for them: it needs few, of many nodes. */
export class NodeNow implements Candidate<Upstream> {
  readonly upstream: Upstream;
  readonly name: string;
  readonly tier: Tier;
  readonly health: Health;
  readonly isDrained: boolean;
  readonly isSuspect: boolean;
  readonly weight: number;
  readonly #moment: Moment;

  constructor(upstream: Upstream, moment: Moment) {
    this.upstream = upstream;
    this.name = upstream.name;
    this.tier = upstream.tier;
    this.health = upstream.health;
    this.isDrained = upstream.isDrained;
    this.isSuspect = upstream.isSuspect;
    this.weight = upstream.weight;
    this.#moment = moment;
  }

  get isEjected(): boolean {
    const { nowMs, need, readClass } = this.#moment;
    const { upstream } = this;
    // The head chooses the version of reads: nodes that answer reads are asked for it first.
    if (upstream.silence.isOn(nowMs) || (need.kind === 'head' && upstream.failsNewest)) return true;
    return readClass !== undefined && upstream.ejections[readClass].isOut;
  }

  get isDeferred(): boolean {
    return this.upstream.deferral.isOn(this.#moment.nowMs);
  }

  get isWithheld(): boolean {
    return this.upstream.withheldForMs(this.#moment.nowMs) > 0;
  }

  get isLagging(): boolean {
    return this.#moment.fleet.isLagging(this.upstream);
  }

  get isFull(): boolean {
    return !this.upstream.hasPlace(this.#moment.kind, false, this.#moment.nowMs);
  }

  get isHalfFull(): boolean {
    return !this.upstream.hasPlace(this.#moment.kind, true, this.#moment.nowMs);
  }

  get window(): WindowView | undefined {
    const { nowMs, need } = this.#moment;
    return this.upstream.window.around(nowMs + this.upstream.latencyMs(nowMs), unitOf(need));
  }

  get cost(): number {
    return this.upstream.latencyMs(this.#moment.nowMs) * (this.upstream.inFlight + 1);
  }

  get headTolerance(): number {
    return this.upstream.window.pace.headSpeed * headToleranceMs;
  }
}

/** Every node as a candidate, those included that are not asked. */
export function candidatesOf(
  fleet: FleetNodes,
  nowMs: number,
  need: Need,
  readClass?: ReadClass,
  kind: PlaceKind = 'read',
): Candidate<Upstream>[] {
  const moment = { fleet, nowMs, need, readClass, kind };
  return fleet.upstreams.map((upstream) => new NodeNow(upstream, moment));
}

/** The candidates that may be asked. */
export function nodesFor(
  fleet: FleetNodes,
  need: Need,
  readClass?: ReadClass,
  kind?: PlaceKind,
): readonly Candidate<Upstream>[] {
  const nodes = candidatesOf(fleet, performance.now(), need, readClass, kind);
  return nodes.every(isAskable) ? nodes : nodes.filter(isAskable);
}

/** Four to a doubling: a quantile is exact to a fifth. */
const bucketsPerDoubling = 4;
const shortestMs = 0.1;
/** The last bucket begins above the longest configurable time-out. */
const bucketCount = 110;
/** Answers count for the rest of their span and for the next one. */
const spanMs = 10_000;
/** With fewer answers, a quantile near 1 is the slowest answer alone. */
const fewestAnswers = 20;

/**
 * Recent times of a node's answers of one class, in ms: a histogram, so that a quantile needs no sort and memory is fixed.
 */
export class LatencyHistogram {
  /** A counter for each bucket, and the last one for all answers. */
  readonly #answers = new Spans(spanMs, bucketCount + 1);

  record(elapsedMs: number, nowMs: number): void {
    const answers = this.#answers.at(nowMs);
    answers.add(bucketOf(elapsedMs));
    answers.add(bucketCount);
  }

  /** The time within which `share` of the answers of the last 10 to 20 s came, in ms; `undefined`: too few came. */
  quantile(share: number, nowMs: number): number | undefined {
    const answers = this.#answers.at(nowMs);
    const count = answers.sum(bucketCount);
    if (count < fewestAnswers) return undefined;
    let left = count * share;
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      left -= answers.sum(bucket);
      if (left <= 0) return endOf(bucket);
    }
    return endOf(bucketCount - 1);
  }
}

function bucketOf(elapsedMs: number): number {
  const bucket = Math.ceil(Math.log2(Math.max(elapsedMs, shortestMs) / shortestMs) * bucketsPerDoubling);
  return Math.min(bucket, bucketCount - 1);
}

function endOf(bucket: number): number {
  return shortestMs * 2 ** (bucket / bucketsPerDoubling);
}
