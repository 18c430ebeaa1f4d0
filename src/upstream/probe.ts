/**
 * Asks quiet nodes for their ledger info, so that the fleet's picture stays fresh without traffic (protocol 9). Of
 * several processes one is on duty: it tells the others what it found, and they ask only when they hear nothing.
 */
import { performance } from 'node:perf_hooks';
import { ByteBudget } from './byte-budget.ts';
import { fetchWhole, type NodeAnswer, type Progress } from './exchange.ts';
import type { Fleet } from './fleet.ts';
import { overLiveConnection } from './lost-connection.ts';
import { findShedding } from './classify.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { Deadline } from '../ledger/stop.ts';
import type { UpstreamLog } from './fleet-request.ts';
import type { Health } from './ranking.ts';
import type { Upstream } from './upstream.ts';

/** Read whenever they matter, so they may change; after a change of the interval see `reschedule`. */
export interface ProbeOptions {
  /** A node that has told nothing for this long is asked. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Default: yes. */
  readonly isOnDuty?: () => boolean;
  /** Called on duty, once per node and interval. */
  readonly onFound?: (upstream: Upstream, finding: Finding) => void;
}

/** What is known of a node: from a probe, or from answers that made one needless. */
export interface Finding {
  /** Absent: the probe failed. */
  readonly info: LedgerInfo | undefined;
  /** How long ago that was told. */
  readonly ageMs: number;
  /** How long the probe took. Absent: there was none, because the node answers requests. */
  readonly elapsedMs: number | undefined;
}

/** Who is not on duty asks when nothing was heard for so many intervals. */
const patience = 3;
/** While somebody waits for a version, a node that has told nothing for this long is asked. */
const awaitedMs = 50;

/** The ledger info takes a few hundred bytes. */
const bodies = { largest: 64 * 1024, all: 16 * 1024 * 1024 };

export class Prober {
  readonly #fleet: Fleet;
  readonly #options: ProbeOptions;
  readonly #log: UpstreamLog;
  readonly #stop = new AbortController();
  readonly #timers = new Map<Upstream, NodeJS.Timeout>();
  readonly #budget = new ByteBudget(bodies);
  #awaited: NodeJS.Timeout | undefined;
  readonly #looks = new Map<Upstream, Promise<Finding | undefined>>();
  /** When another process last told of a node. */
  readonly #heardAtMs = new Map<Upstream, number>();

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
    const answer = await this.#ask(upstream, withinMs).catch(() => undefined);
    if (answer?.status !== 200 || answer.info === undefined) return undefined;
    return { info: answer.info, ageMs: 0, elapsedMs: performance.now() - startedMs };
  }

  /** The node was taken out of the fleet. */
  remove(upstream: Upstream): void {
    clearTimeout(this.#timers.get(upstream));
    this.#timers.delete(upstream);
    this.#heardAtMs.delete(upstream);
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
  look(upstream: Upstream): Promise<Finding | undefined> {
    const running = this.#looks.get(upstream);
    if (running !== undefined || upstream.isRemoved || this.#stop.signal.aborted)
      return running ?? Promise.resolve(undefined);
    const look = this.#probe(upstream).finally(() => this.#looks.delete(upstream));
    this.#looks.set(upstream, look);
    return look;
  }

  /** Another process, which is on duty, tells what it found. */
  hear(upstream: Upstream, { info, ageMs, elapsedMs }: Finding): void {
    const nowMs = performance.now();
    const before = upstream.health;
    this.#heardAtMs.set(upstream, nowMs);
    if (info === undefined) upstream.recordFailure(elapsedMs ?? 0, nowMs);
    else {
      upstream.recordAnswer(elapsedMs ?? upstream.latencyMs(nowMs), nowMs);
      const { info: known, observedAtMs } = upstream.window;
      if (known === undefined || nowMs - ageMs > observedAtMs) this.#fleet.observe(upstream, info, nowMs - ageMs);
    }
    this.#noteHealth(upstream, before);
  }

  async #round(upstream: Upstream): Promise<void> {
    const { isOnDuty = () => true, onFound } = this.#options;
    const found = this.#isQuiet(upstream, isOnDuty()) ? await this.look(upstream) : known(upstream);
    if (found !== undefined && isOnDuty()) onFound?.(upstream, found);
    this.#schedule(upstream);
  }

  #isQuiet(upstream: Upstream, isOnDuty: boolean): boolean {
    const { intervalMs } = this.#options;
    const nowMs = performance.now();
    const { info, observedAtMs } = upstream.window;
    const toldAtMs = info === undefined ? -Infinity : observedAtMs;
    if (isOnDuty) return nowMs - toldAtMs >= intervalMs * 0.9 || upstream.health !== 'usable';
    const heardAtMs = this.#heardAtMs.get(upstream) ?? -Infinity;
    const lastMs = upstream.health === 'usable' ? Math.max(toldAtMs, heardAtMs) : heardAtMs;
    return nowMs - lastMs >= intervalMs * (patience - 0.1);
  }

  #schedule(upstream: Upstream): void {
    if (this.#stop.signal.aborted || upstream.isRemoved) return;
    // A round that was under way at a change of the interval schedules the next one, too.
    clearTimeout(this.#timers.get(upstream));
    const timer = setTimeout(() => void this.#round(upstream), this.#options.intervalMs);
    timer.unref();
    this.#timers.set(upstream, timer);
  }

  async #probe(upstream: Upstream): Promise<Finding | undefined> {
    let startedMs = performance.now();
    // As it is when there is something to note: meanwhile requests change it, and tell of it, too.
    let before = upstream.health;
    let info: LedgerInfo | undefined;
    try {
      for (let looks = 0; looks < 2 && (looks === 0 || upstream.chain.doubted !== undefined); looks += 1) {
        // The second one confirms another chain: it is sent after the answer that reported it.
        startedMs = performance.now();
        const answered = await this.#askInfo(upstream, startedMs);
        if (answered === undefined && info === undefined) return undefined;
        if (answered === undefined) break;
        info = answered;
        before = upstream.health;
        const nowMs = performance.now();
        upstream.recordAnswer(nowMs - startedMs, nowMs);
        this.#fleet.observe(upstream, info, nowMs, startedMs);
      }
    } catch (error) {
      if (this.#stop.signal.aborted) return undefined;
      before = upstream.health;
      upstream.recordFailure(performance.now() - startedMs, performance.now());
      this.#log.debug({ upstream: upstream.name, cause: String(error) }, 'probe failed');
    }
    this.#noteHealth(upstream, before);
    return { info, ageMs: 0, elapsedMs: performance.now() - startedMs };
  }

  /**
   * `undefined`: the node limits or sheds requests. It is alive; one that is down stays so until it reports its ledger.
   * Throws when it does neither.
   */
  async #askInfo(upstream: Upstream, startedMs: number): Promise<LedgerInfo | undefined> {
    const answer = await this.#ask(upstream, this.#options.timeoutMs);
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
    this.#log.tell(change, fields, `upstream is ${upstream.health}`);
  }

  async #ask(upstream: Upstream, withinMs: number): Promise<NodeAnswer> {
    const signal = new Deadline(this.#stop.signal, withinMs);
    const progress: Progress = { sentAtMs: undefined, isAnswered: false };
    const context = { dialect: this.#fleet.dialect, signal, progress, budget: this.#budget };
    const exchange = (): Promise<NodeAnswer> => fetchWhole(upstream, wire, context, upstream.lookPool);
    try {
      return await overLiveConnection(exchange, progress, signal);
    } finally {
      signal.end();
    }
  }
}

/** What answers have told without a probe. */
function known({ window: { info, observedAtMs }, health }: Upstream): Finding | undefined {
  if (info === undefined || health !== 'usable') return undefined;
  return { info, ageMs: performance.now() - observedAtMs, elapsedMs: undefined };
}

const wire = { method: 'GET', path: '', headers: {} } as const;
