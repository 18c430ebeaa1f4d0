/** One node of the fleet: its address, its connections, and what its answers have taught. */
import { hash } from 'node:crypto';
import { LedgerInfoReader, type LedgerInfo } from '../ledger/ledger-headers.ts';
import { ConcurrencyLimit } from './concurrency-limit.ts';
import { Deferral } from './deferral.ts';
import { Ejection } from './ejection.ts';
import { LatencyHistogram } from './latency.ts';
import { NodeChain } from './ledger-identity.ts';
import { createPool, type Pool } from './pool.ts';
import type { ReadClass } from './read-class.ts';
import { RetentionWindow } from './retention-window.ts';
import { Slots } from './slots.ts';

export type Tier = 'full' | 'archival';

/**
 * `unproven`: has not answered yet. `usable`: answers. `down`: its last attempts failed, asked only when nobody better
 * is left. `foreign`: tells another chain id than the fleet, never asked.
 */
export type Health = 'unproven' | 'usable' | 'down' | 'foreign';

export interface UpstreamOptions {
  readonly name: string;
  /** Base address without a trailing slash, for example `http://10.0.0.1:8080/v1`. */
  readonly url: URL;
  readonly tier: Tier;
  /** The node's own credentials: on every request to it, and on none to another. Names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** At most this many connections to the node, and two for looks at its ledger info. */
  readonly connections: number;
  /** Bound of the TCP and TLS handshake. */
  readonly connectTimeoutMs: number;
  /** How late this process runs, in ms: what a node seems slow by. Default: never late. */
  readonly ownLag?: () => number;
}

/** Failures in a row after which a node is asked only when nobody better is left. */
const failuresUntilDown = 2;
/** A slow answer counts at once and fades with this time constant. */
const latencyMemoryMs = 2_000;
const assumedLatencyMs = 20;
/** One for the probe, one for the look that reads of "latest" wait for: of each there is one at a time. */
const lookConnections = 2;
/** A failure is quick and must not make a node look cheap: what one counts as at least. */
const failureMs = 50;
/** Share of the connections that streamed answers may hold. */
const streamShare = 0.75;
/** Share of the connections that long polls may hold. */
const pollShare = 0.5;
/** Share of the connections that neither may hold: plain reads go on. */
const readShare = 1 / 8;
/**
 * An idle connection is closed before the node would: servers without a word on it keep one for 5 s or longer, and of
 * what a node announces (`Keep-Alive: timeout=`) this margin is taken off.
 */
const keepAliveMs = 4_000;
const keepAliveMarginMs = 2_000;

export class Upstream {
  readonly name: string;
  readonly url: URL;
  readonly tier: Tier;
  /** On every request to it, whatever else that says. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Digest of the address: what gateways call the node among each other, which may have given it other names. */
  readonly fingerprint: string;
  readonly pool: Pool;
  /**
   * Connections that only looks at the ledger info use: what they find is the node's doing, and they are answered,
   * however busy the others are.
   */
  readonly lookPool: Pool;
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
  /** How far its ledger was behind the fleet's when it last told, in ms of ledger time. */
  lagMs = 0;
  /** Requests whose answer, or the body of it, is still to come. */
  inFlight = 0;
  /** Places for answers that are handed on as they come: a slow client must not take the last connection. */
  readonly streams: Slots;
  /** Places for long polls, which do nothing but wait: reads must not wait behind them. */
  readonly polls: Slots;
  readonly #connections: number;
  readonly chain = new NodeChain();
  /** Tells a head that the other nodes contradict: asked only when nobody better is left. */
  isSuspect = false;
  /** Taken out of the fleet: it answers what it was sent, and is sent nothing new. */
  isRemoved = false;
  #foreign = false;
  #failures = 0;
  /** A request timed out or was answered 502 to 504, and nothing has shown since whether that was the node's doing. */
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
    this.streams = new Slots(Math.max(1, Math.floor(options.connections * streamShare)));
    this.polls = new Slots(Math.max(1, Math.floor(options.connections * pollShare)));
    this.#connections = options.connections;
    const { url, connections, connectTimeoutMs } = options;
    const bounds = { connectTimeoutMs, keepAliveMs, keepAliveMarginMs };
    this.pool = createPool(url, { ...bounds, connections });
    this.lookPool = createPool(url, { ...bounds, connections: lookConnections });
  }

  get health(): Health {
    if (this.#foreign) return 'foreign';
    if (this.#failures >= failuresUntilDown) return 'down';
    return this.#answered ? 'usable' : 'unproven';
  }

  /** Whether one more request has to wait for a connection, because our own requests hold or await them all. */
  get isBusy(): boolean {
    return this.inFlight >= this.#connections;
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

  /** Takes another process's word on the node, older than what was known here or not. */
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
    await Promise.all([this.pool.destroy(), this.lookPool.destroy()]);
  }
}

function byClass<T>(make: () => T): Record<ReadClass, T> {
  return { head: make(), archive: make(), view: make() };
}
