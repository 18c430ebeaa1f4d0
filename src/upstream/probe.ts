/** Asks quiet nodes for their ledger info, so that the fleet's picture stays fresh without traffic (protocol 9). */
import { performance } from 'node:perf_hooks';
import { ByteBudget } from './byte-budget.ts';
import { fetchWhole, type NodeAnswer, type Progress } from './exchange.ts';
import type { Fleet } from './fleet.ts';
import { overLiveConnection } from './lost-connection.ts';
import type { UpstreamLog } from './sender.ts';
import type { Upstream } from './upstream.ts';

export interface ProbeOptions {
  /** A node that has told nothing for this long is asked. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

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
  readonly #looks = new Map<Upstream, Promise<void>>();

  constructor(fleet: Fleet, options: ProbeOptions, log: UpstreamLog) {
    this.#fleet = fleet;
    this.#options = options;
    this.#log = log;
  }

  /** Probes every node once and goes on by itself. Resolves when each has answered or failed. */
  async start(): Promise<void> {
    await Promise.all(this.#fleet.upstreams.map((upstream) => this.#round(upstream)));
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
    if (running !== undefined || this.#stop.signal.aborted) return running ?? Promise.resolve();
    const look = this.#probe(upstream).finally(() => this.#looks.delete(upstream));
    this.#looks.set(upstream, look);
    return look;
  }

  async #round(upstream: Upstream): Promise<void> {
    const quietMs = performance.now() - upstream.window.observedAtMs;
    const isQuiet = upstream.window.info === undefined || quietMs >= this.#options.intervalMs * 0.9;
    if (isQuiet || upstream.health !== 'usable') await this.look(upstream);
    if (this.#stop.signal.aborted) return;
    const timer = setTimeout(() => void this.#round(upstream), this.#options.intervalMs);
    timer.unref();
    this.#timers.set(upstream, timer);
  }

  async #probe(upstream: Upstream): Promise<void> {
    const startedMs = performance.now();
    const before = upstream.health;
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(this.#options.timeoutMs)]);
    try {
      const answer = await this.#ask(upstream, signal);
      const nowMs = performance.now();
      if (answer.status !== 200 || answer.info === undefined) {
        throw new Error(
          `GET of the ledger info gave status ${answer.status}, ledger headers ${answer.info !== undefined}`,
        );
      }
      upstream.recordAnswer(nowMs - startedMs, nowMs);
      this.#fleet.observe(upstream, answer.info, nowMs);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      upstream.recordFailure(performance.now() - startedMs, performance.now());
      this.#log.debug({ upstream: upstream.name, cause: String(error) }, 'probe failed');
    }
    if (upstream.health === before) return;
    this.#fleet.refresh();
    const level = upstream.health === 'usable' ? 'info' : 'warn';
    this.#log[level]({ upstream: upstream.name, health: upstream.health }, `upstream is ${upstream.health}`);
  }

  #ask(upstream: Upstream, signal: AbortSignal): Promise<NodeAnswer> {
    const progress: Progress = { sentAtMs: undefined, isAnswered: false };
    const context = { dialect: this.#fleet.dialect, signal, progress, budget: this.#budget };
    const exchange = (): Promise<NodeAnswer> => fetchWhole(upstream, wire, context, upstream.lookPool);
    return overLiveConnection(exchange, progress, signal);
  }
}

const wire = { method: 'GET', path: '', headers: {} } as const;
