/** Asks quiet nodes for their ledger info, so that the fleet's picture stays fresh without traffic (protocol 9). */
import { performance } from 'node:perf_hooks';
import { ByteBudget } from '../byte-budget.ts';
import type { NodeAnswer, Progress } from '../dispatch/exchange.ts';
import { fetchWhole } from '../dispatch/fetch-whole.ts';
import type { Fleet } from '../fleet.ts';
import { overLiveClient } from './live-client.ts';
import { overLiveConnection } from './lost-connection.ts';
import type { NodeClient } from './node-client.ts';
import { findShedding } from '../dispatch/classify.ts';
import type { LedgerInfo } from '../../ledger/ledger-headers.ts';
import { Deadline } from '../../ledger/stop.ts';
import type { UpstreamLog } from '../dispatch/fleet-request.ts';
import type { Health } from '../select/ranking.ts';
import type { Upstream } from './upstream.ts';

/** Read whenever they matter, so they may change; after a change of the interval see `reschedule`. */
export interface ProbeOptions {
  /** A node that has told nothing for this long is asked. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** The answer of a node that may join the fleet. */
export interface Finding {
  readonly info: LedgerInfo;
  /** How long the probe took. */
  readonly elapsedMs: number;
}

/** While somebody waits for a version, a node that has told nothing for this long is asked. */
const awaitedMs = 50;

/** The ledger info takes a few hundred bytes, a transaction at a head mostly little more, but it may be any. */
const bodies = { largest: 1024 * 1024, all: 16 * 1024 * 1024 };
/** For so long one comparison of heads holds: nodes keep their order, and each comparison costs every node a look. */
const comparedMs = 250;
/** A node that takes longer to report its head is no good choice, and must not hold up every read. */
const longestComparisonMs = 100;

export class Prober {
  readonly #fleet: Fleet;
  readonly #options: ProbeOptions;
  readonly #log: UpstreamLog;
  readonly #stop = new AbortController();
  readonly #timers = new Map<Upstream, NodeJS.Timeout>();
  readonly #budget = new ByteBudget(bodies);
  #awaited: NodeJS.Timeout | undefined;
  readonly #looks = new Map<Upstream, Promise<void>>();
  #comparedAtMs = -Infinity;
  #comparison: Promise<void> | undefined;

  constructor(fleet: Fleet, options: ProbeOptions, log: UpstreamLog) {
    this.#fleet = fleet;
    this.#options = options;
    this.#log = log;
  }

  /** Probes every node once and goes on by itself. Resolves when each has answered or failed. */
  async start(): Promise<void> {
    await Promise.all(this.#fleet.upstreams.map((upstream) => this.add(upstream)));
  }

  /** As `start`, for a node that was added to the fleet. */
  async add(upstream: Upstream): Promise<void> {
    await this.look(upstream);
    this.#schedule(upstream);
  }

  /** Asks a node that may become one of the fleet; `hear` learns from what it said. `undefined`: it did not answer. */
  async peek(upstream: Upstream, withinMs: number): Promise<Finding | undefined> {
    const startedMs = performance.now();
    const answer = await this.ask(upstream, '', withinMs).catch(() => undefined);
    if (answer?.status !== 200 || answer.info === undefined) return undefined;
    return { info: answer.info, elapsedMs: performance.now() - startedMs };
  }

  /** The node was taken out of the fleet. */
  remove(upstream: Upstream): void {
    clearTimeout(this.#timers.get(upstream));
    this.#timers.delete(upstream);
  }

  /** The interval is another one: what waits for the old one to pass waits for the new one instead. */
  reschedule(): void {
    for (const [upstream, timer] of this.#timers) {
      clearTimeout(timer);
      this.#schedule(upstream);
    }
  }

  /** Ends all probing. */
  close(): void {
    this.#stop.abort(new Error('closing'));
    for (const timer of this.#timers.values()) clearTimeout(timer);
    clearTimeout(this.#awaited);
  }

  /**
   * Asks the nodes often for as long as anybody waits for a version: without traffic the next probe may be far. One
   * question per node at a time, however many wait.
   */
  hurry(): void {
    if (this.#awaited !== undefined || this.#stop.signal.aborted) return;
    this.#awaited = setTimeout(() => {
      this.#awaited = undefined;
      if (!this.#fleet.isAwaited) return;
      const nowMs = performance.now();
      for (const upstream of this.#fleet.upstreams) {
        const isQuiet = nowMs - upstream.window.observedAtMs >= awaitedMs / 2;
        if (isQuiet && upstream.health === 'usable') void this.look(upstream);
      }
      this.hurry();
    }, awaitedMs);
    this.#awaited.unref();
  }

  /** Asks the node now, together with everybody who wants that: one question at a time. Never rejects. */
  look(upstream: Upstream): Promise<void> {
    const running = this.#looks.get(upstream);
    if (running !== undefined || upstream.isRemoved || this.#stop.signal.aborted) return running ?? Promise.resolve();
    const look = this.#probe(upstream).finally(() => this.#looks.delete(upstream));
    this.#looks.set(upstream, look);
    return look;
  }

  /**
   * Asks all nodes for their heads at one moment, so that the freshest is known: of heads reported at different moments,
   * that of a node that is behind and was asked later seems ahead. Resolves after 100 ms at most. `undefined`: that has
   * just been done, or there is one node only.
   */
  compareHeads(): Promise<void> | undefined {
    if (this.#comparison !== undefined || performance.now() - this.#comparedAtMs < comparedMs) return this.#comparison;
    const nodes = this.#fleet.upstreams.filter(({ health, isSuspect }) => health === 'usable' && !isSuspect);
    if (nodes.length < 2) return undefined;
    const looks = Promise.all(nodes.map((upstream) => this.look(upstream)));
    const isLate = new Promise((resolve) => setTimeout(resolve, longestComparisonMs).unref());
    this.#comparison = Promise.race([looks, isLate]).then(() => {
      this.#comparedAtMs = performance.now();
      this.#comparison = undefined;
    });
    return this.#comparison;
  }

  /** A node that joins the fleet starts with the answer to `peek`. */
  hear(upstream: Upstream, { info, elapsedMs }: Finding): void {
    const nowMs = performance.now();
    const before = upstream.health;
    upstream.recordAnswer(elapsedMs, nowMs);
    this.#fleet.observe(upstream, info, nowMs);
    this.#noteHealth(upstream, before);
  }

  async #round(upstream: Upstream): Promise<void> {
    const { info, observedAtMs } = upstream.window;
    const isQuiet = info === undefined || performance.now() - observedAtMs >= this.#options.intervalMs * 0.9;
    if (isQuiet || upstream.health !== 'usable') await this.look(upstream);
    this.#schedule(upstream);
  }

  #schedule(upstream: Upstream): void {
    if (this.#stop.signal.aborted || upstream.isRemoved) return;
    // A round that was under way at a change of the interval schedules the next one, too.
    clearTimeout(this.#timers.get(upstream));
    const timer = setTimeout(() => void this.#round(upstream), this.#options.intervalMs);
    timer.unref();
    this.#timers.set(upstream, timer);
  }

  async #probe(upstream: Upstream): Promise<void> {
    let startedMs = performance.now();
    // As it is when there is something to note: meanwhile requests change it, and tell of it, too.
    let before = upstream.health;
    try {
      for (let looks = 0; looks < 2 && (looks === 0 || upstream.chain.doubted !== undefined); looks += 1) {
        // The second one confirms another chain: it is sent after the answer that reported it.
        startedMs = performance.now();
        const info = await this.#askInfo(upstream, startedMs);
        if (info === undefined) break;
        before = upstream.health;
        const nowMs = performance.now();
        upstream.recordAnswer(nowMs - startedMs, nowMs);
        this.#fleet.observe(upstream, info, nowMs, startedMs);
      }
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      before = upstream.health;
      upstream.recordFailure(performance.now() - startedMs, performance.now());
      this.#log.debug({ upstream: upstream.name, cause: String(error) }, 'probe failed');
    }
    this.#noteHealth(upstream, before);
  }

  /**
   * `undefined`: the node limits or sheds requests. It is alive; one that is down stays so until it reports its ledger.
   * Throws when it does neither.
   */
  async #askInfo(upstream: Upstream, startedMs: number): Promise<LedgerInfo | undefined> {
    const { timeoutMs } = this.#options;
    const answer = await overLiveClient(upstream, timeoutMs, (client) => this.ask(upstream, '', timeoutMs, client));
    const { status, info } = answer;
    if (status === 200 && info !== undefined) return info;
    const shedding = findShedding(answer, Date.now());
    if (shedding?.isOfNode === true) {
      upstream.deferral.refused(startedMs, shedding.retryAfterMs, performance.now());
      this.#log.debug({ upstream: upstream.name, status }, 'probe refused');
      return undefined;
    }
    throw new Error(`GET of the ledger info gave status ${status}, ledger headers ${info !== undefined}`);
  }

  #noteHealth(upstream: Upstream, before: Health): void {
    if (upstream.health === before || upstream.isRemoved) return;
    this.#fleet.refresh();
    const change = upstream.health === 'usable' ? 'node usable' : 'node down';
    const fields = { upstream: upstream.name, health: upstream.health };
    this.#log.record(change, fields, `upstream is ${upstream.health}`);
  }

  /**
   * Reads `path` of one node, over a connection that no client's request takes. Rejects when no answer comes within
   * `withinMs`, by default the time-out of a probe. `client`: connections other than the node's own.
   */
  async ask(
    upstream: Upstream,
    path: string,
    withinMs = this.#options.timeoutMs,
    client?: NodeClient,
  ): Promise<NodeAnswer> {
    const signal = new Deadline(this.#stop.signal, withinMs);
    const progress: Progress = { sentAtMs: undefined, isAnswered: false };
    const context = { dialect: this.#fleet.dialect, signal, progress, budget: this.#budget };
    const wire = { method: 'GET', path, headers: { accept: 'application/json' } } as const;
    const exchange = (): Promise<NodeAnswer> => fetchWhole(upstream, wire, context, 'probe', client);
    try {
      return await overLiveConnection(exchange, progress, signal);
    } finally {
      signal.end();
    }
  }
}
