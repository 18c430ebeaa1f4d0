/** One node of the fleet: its address, its connections, and the state that its answers have set. */
import { hash } from 'node:crypto';
import { LedgerInfoReader, type LedgerInfo } from '../../ledger/ledger-headers.ts';
import { Deferral } from './deferral.ts';
import { Ejection } from './ejection.ts';
import { LatencyHistogram } from './latency.ts';
import { NodeChain } from './ledger-identity.ts';
import { ConcurrencyLimit, Semaphore } from './limits.ts';
import type { ReadClass } from '../select/need.ts';
import { NodeClient, type NodeClientOptions } from './node-client.ts';
import type { Health, Tier } from '../select/ranking.ts';
import { RetentionWindow } from './retention-window.ts';

/** Options of an `Upstream`. */
export interface UpstreamOptions extends NodeClientOptions {
  readonly name: string;
  /** Base address without a trailing slash, for example `http://10.0.0.1:8080/v1`. */
  readonly url: URL;
  readonly tier: Tier;
  /** The node's own credentials: on every request to it, and on none to another. Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** How late this process runs, in ms, since a node seems slow by as much. Default: never late. */
  readonly ownLag?: () => number;
}

/** Failures in a row after which a node is asked only when no better one is left. */
const failuresUntilDown = 2;
/** A slow answer counts at once and fades with this time constant. */
const latencyMemoryMs = 2_000;
const assumedLatencyMs = 20;
/** Least time that a failure counts as: it is quick and must not make a node look cheap. */
const failureMs = 50;
/** Share of the connections that streamed answers may hold. */
const streamShare = 0.75;
/** Share of the connections that long polls may hold. */
const pollShare = 0.5;
/** Share of the connections that neither may hold: plain reads go on. */
const readShare = 1 / 8;
/** A node. */
export class Upstream {
  readonly name: string;
  readonly url: URL;
  readonly tier: Tier;
  /** On every request to it, whatever else that says. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Digest of the address: identifies the node among gateways, which may have given it other names. */
  readonly fingerprint: string;
  /** Path that every request path is appended to, for example `/v1`. */
  readonly basePath: string;
  readonly infos = new LedgerInfoReader();
  readonly window = new RetentionWindow();
  readonly ejections: Readonly<Record<ReadClass, Ejection>> = byClass(() => new Ejection());
  readonly deferral = new Deferral();
  readonly latencies: Readonly<Record<ReadClass | 'look', LatencyHistogram>> = {
    ...byClass(() => new LatencyHistogram()),
    look: new LatencyHistogram(),
  };
  /** Places for requests that the node works on. */
  readonly places: ConcurrencyLimit;
  /** How far its ledger was behind the fleet's in its last report, in ms of ledger time. */
  lagMs = 0;
  /** Requests whose answer, or the body of it, is still to come. */
  inFlight = 0;
  /** Places for answers that are handed on as they come: a slow client must not take the last connection. */
  readonly streams: Semaphore;
  /** Places for long polls, which do nothing but wait: reads must not wait behind them. */
  readonly polls: Semaphore;
  readonly #connections: number;
  readonly #clientOptions: NodeClientOptions;
  #client: NodeClient;
  /** Clients that were replaced and have requests in flight. */
  readonly #draining = new Set<NodeClient>();
  readonly chain = new NodeChain();
  /** It reports a head that the other nodes contradict: asked only when no better one is left. */
  isSuspect = false;
  /** Taken out of the fleet: requests in flight complete, and no new one is sent. */
  isRemoved = false;
  #foreign = false;
  #failures = 0;
  /** A request timed out or was answered 502 to 504; a probe has yet to show whether that was the node's doing. */
  #isDoubted = false;
  #answered = false;
  #latencyMs = assumedLatencyMs;
  #latencyAtMs = 0;

  constructor(options: UpstreamOptions) {
    this.name = options.name;
    this.url = options.url;
    this.tier = options.tier;
    this.headers = options.headers;
    this.fingerprint = hash('sha256', options.url.href, 'base64url').slice(0, 22);
    this.basePath = options.url.pathname.replace(/\/+$/, '');
    this.places = new ConcurrencyLimit(options.connections, options.ownLag);
    this.streams = new Semaphore(Math.max(1, Math.floor(options.connections * streamShare)));
    this.polls = new Semaphore(Math.max(1, Math.floor(options.connections * pollShare)));
    this.#connections = options.connections;
    this.#clientOptions = options;
    this.#client = this.openClient();
  }

  /** The connections that requests go over. */
  get client(): NodeClient {
    return this.#client;
  }

  /** Connections beside those in use: the caller closes them or has `replaceClient` take them over. */
  openClient(): NodeClient {
    return new NodeClient(this.url, this.#clientOptions);
  }

  /** Later requests go over `client`. Requests in flight finish over the connections of before, which close then. */
  replaceClient(client: NodeClient): void {
    const old = this.#client;
    this.#client = client;
    this.#draining.add(old);
    void old.close().finally(() => this.#draining.delete(old));
  }

  get health(): Health {
    if (this.#foreign) return 'foreign';
    if (this.#failures >= failuresUntilDown) return 'down';
    return this.#answered ? 'usable' : 'unproven';
  }

  /** Whether the newest request in flight waits for a connection, because the gateway's own requests hold them all. */
  get isBusy(): boolean {
    return this.inFlight > this.#connections;
  }

  /** Whether a stream or a long poll may hold one more connection: together they leave some to plain reads. */
  get mayBeHeld(): boolean {
    const kept = Math.max(1, Math.floor(this.#connections * readShare));
    return this.streams.taken + this.polls.taken < Math.max(1, this.#connections - kept);
  }

  /** Decaying peak of the answer times (peak EWMA), in milliseconds. */
  latencyMs(nowMs: number): number {
    const keep = Math.exp(-Math.max(0, nowMs - this.#latencyAtMs) / latencyMemoryMs);
    return Math.max(1, this.#latencyMs * keep);
  }

  /** The chain it stands for; `undefined` before it has reported one. */
  get chainId(): number | undefined {
    return this.chain.id;
  }

  /** Takes another process's report of the node, older than the one held here or not. */
  adopt(info: LedgerInfo, nowMs: number): void {
    this.chain.settle(info.chainId);
    this.window.adopt(info, nowMs);
  }

  markForeign(foreign: boolean): void {
    this.#foreign = foreign;
  }

  /** An answer came, whatever its status: the node is alive. */
  recordAnswer(elapsedMs: number, nowMs: number): void {
    this.#answered = true;
    this.#failures = 0;
    this.#isDoubted = false;
    const decayed = this.latencyMs(nowMs);
    this.#latencyMs = elapsedMs > decayed ? elapsedMs : decayed + (elapsedMs - decayed) * 0.1;
    this.#latencyAtMs = nowMs;
  }

  /** No usable answer came: refused, reset, a probe timed out, or an answer that shows the node itself is broken. */
  recordFailure(elapsedMs: number, nowMs: number): void {
    this.#failures += this.#isDoubted ? 2 : 1;
    this.#isDoubted = false;
    this.#raiseLatency(elapsedMs, nowMs);
  }

  /**
   * A client's request failed in a way that may not be the node's doing: clients choose how much work a request is, and
   * something before the node may have answered. It counts as a failure only together with one that is surely the
   * node's.
   */
  recordDoubt(elapsedMs: number, nowMs: number): void {
    this.#isDoubted = true;
    this.#raiseLatency(Math.max(elapsedMs, failureMs), nowMs);
  }

  /** Another node answered what this one had been asked for so long. */
  recordOutpaced(elapsedMs: number, nowMs: number): void {
    this.#raiseLatency(elapsedMs, nowMs);
  }

  #raiseLatency(elapsedMs: number, nowMs: number): void {
    this.#latencyMs = Math.max(this.latencyMs(nowMs), elapsedMs);
    this.#latencyAtMs = nowMs;
  }

  /** Ends what it is asked at once. */
  async close(): Promise<void> {
    await Promise.all([this.#client, ...this.#draining].map((client) => client.destroy()));
  }
}

function byClass<T>(make: () => T): Record<ReadClass, T> {
  return { head: make(), archive: make(), view: make() };
}
