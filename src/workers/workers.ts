/**
 * The gateway in several processes. Workers serve clients on one port; the primary reads the config, accepts connections,
 * replaces exited workers, forwards their events, and serves the operations port.
 */
import { randomUUID } from 'node:crypto';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { GatewayCounts } from '../access/index.ts';
import { accessRedisOf, type Config } from '../config/index.ts';
import { drainMs, type GatewayLog, type GatewayOptions, openGateway, type RunningGateway } from '../gateway/index.ts';
import {
  Counter,
  familiesOf,
  type FamilyData,
  type FileTexts,
  Gauge,
  joinFamilies,
  Journal,
} from '../metrics/index.ts';
import { joinProcesses, type OperationsSource } from '../proxy/operations/index.ts';
import type { Setup } from './channel.ts';
import { FlightDesk, WorkerBroadcast } from './peers.ts';
import { type PoolEvents, type Services, WorkerPool, type WorkerProcess } from './worker-pool.ts';

/** Later confirmations of a config are logged as missing. */
const applyMs = 5_000;
/** A starting worker confirms a config once it serves. */
const startMs = 30_000;
/** Time for a drain beyond the worker's own bounds. */
export const slackMs = 5_000;

/** Starts `count` worker processes. Rejects when the port is in use; nodes may be down. */
export function startWorkers(config: Config, count: number, options: GatewayOptions = {}): Promise<RunningGateway> {
  return openGateway(config, options, (log) => new Primary(config, count, log, options.drainDelayMs).start());
}

/** The part of the gateway that serves clients by its workers. */
class Primary implements PoolEvents {
  readonly journal: Journal;
  readonly registry: Registry;
  readonly operations: OperationsSource;
  port = 0;
  isDraining = false;
  readonly #count: number;
  readonly #log: GatewayLog;
  readonly #drainDelayMs: number;
  readonly #run = randomUUID();
  readonly #pool: WorkerPool;
  readonly #metrics = new WorkerMetrics(() => this.#pool.serving.length);
  readonly #broadcast = new WorkerBroadcast(() => this.#pool.workers);
  readonly #flights = new FlightDesk();
  /** Counts of all workers; Redis has them where there is one. */
  readonly #counts: GatewayCounts;
  /** Names of drained nodes. */
  readonly #drained = new Set<string>();
  #config: Config;
  /** The contents of files that workers have published, for those that start (`SharedFiles`): by section, the last at the end. */
  readonly #files = new Map<string, FileTexts>();
  #isUp = false;
  /** The worker that follows the ledger for all. */
  #appointed: WorkerProcess | undefined;

  constructor(config: Config, count: number, log: GatewayLog, drainDelayMs = 0) {
    this.#config = config;
    this.#count = count;
    this.#log = log;
    this.#drainDelayMs = drainDelayMs;
    this.journal = new Journal(log.logger);
    const { access } = config;
    this.registry = this.#metrics.registry;
    const isCounting = access !== undefined && accessRedisOf(config) === undefined;
    this.#counts = isCounting
      ? GatewayCounts.ofPrimary(access.usage.path, this.journal, this.registry)
      : new GatewayCounts();
    this.#pool = new WorkerPool(config.listen.port, this);
    this.operations = joinProcesses({
      wanted: count,
      processes: () => this.#pool.workers,
      families: (reports) => this.#metrics.families(reports),
      journal: this.journal,
      drained: this.#drained,
    });
  }

  async start(): Promise<this> {
    try {
      this.port = await this.#pool.start(this.#count);
      this.#isUp = true;
      await this.operations.readiness();
      return this;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Rejects when a serving worker refuses the config. */
  async apply(next: Config): Promise<void> {
    this.#config = next;
    dropUnused(this.#files, next);
    const faults = await Promise.all(this.#pool.workers.map((worker) => this.#applyAt(worker, next)));
    const fault = faults.find((reason) => reason !== undefined);
    if (fault !== undefined) throw new Error(fault);
    for (const name of this.#drained)
      if (!next.upstreams.some((upstream) => upstream.name === name)) this.#drained.delete(name);
  }

  setLog(next: Config['log']): void {
    for (const { channel } of this.#pool.workers) channel.notify('log', next);
  }

  async close(): Promise<void> {
    this.isDraining = true;
    await this.#pool.close(this.#drainDelayMs + drainMs + slackMs);
    this.#counts.close();
  }

  /** Kills the workers. */
  stop(): Promise<void> {
    this.#pool.kill();
    this.#counts.close();
    return Promise.resolve();
  }

  setup(port: number): Setup {
    return {
      ...this.#broadcast.setup,
      config: { ...this.#config, log: this.#log.inForce, listen: { ...this.#config.listen, port } },
      drainDelayMs: this.#drainDelayMs,
      run: this.#run,
      processes: this.#count,
      files: this.#files,
      drained: [...this.#drained],
    };
  }

  servicesFor({ id }: WorkerProcess): Services {
    return {
      publish: (published) => this.#broadcast.publish(id, published),
      files: ({ section, texts }) => {
        this.#files.delete(section);
        this.#files.set(section, texts);
      },
      ...this.#flights.handlersFor(id),
      ...this.#counts.handlersFor(id),
    };
  }

  onServing({ id }: WorkerProcess): void {
    this.#appoint();
    if (this.#isUp) this.journal.note('worker back', { worker: id });
  }

  onHung(): void {
    this.#metrics.pool.hangs.inc();
  }

  onLost(id: number | undefined, how: string, againMs: number): void {
    this.#metrics.pool.restarts.inc();
    this.journal.record('worker lost', { worker: id, how, againMs }, 'a worker exited and is being replaced');
  }

  onGone({ id }: WorkerProcess): void {
    this.#flights.release(id);
    this.#counts.release(id);
    this.#metrics.forget(id);
    this.#appoint();
  }

  #appoint(): void {
    if (this.#appointed?.isServing === true) return;
    [this.#appointed] = this.#pool.serving;
    this.#appointed?.channel.notify('follow', true);
  }

  /** The reason of a refusal; `undefined` also for a timeout, which is logged. */
  async #applyAt({ id, channel, isServing }: WorkerProcess, next: Config): Promise<string | undefined> {
    const applied = channel.call('apply', next, isServing ? applyMs : startMs + applyMs);
    const reported = applied.catch((error: unknown) => {
      this.#log.logger.error({ worker: id, cause: String(error) }, 'a worker did not apply the config');
      return undefined;
    });
    return isServing ? reported : undefined;
  }
}

/** Sections without use whose files are kept for workers that start: a reload may be undone. */
const mostUnused = 1_000;

/** Drops files of sections that `config` lacks, the oldest ones: reloads may name ever new ones. */
export function dropUnused(files: Map<string, FileTexts>, { listen, upstreams, cache, access }: Config): void {
  const own = [listen.tls, cache.redis?.tls, access?.redis?.tls, access?.jwt, ...upstreams.map(({ tls }) => tls)];
  const used = new Set(own.map((section) => JSON.stringify(section ?? null)));
  // A reload names no other keys file.
  const unused = [...files].filter(([name, { keys }]) => keys === undefined && !used.has(name));
  for (const [name] of unused.slice(0, -mostUnused)) files.delete(name);
}

/** Metrics of the worker processes, counted by the primary. `readServing` is called at each scrape. */
export function createPoolMetrics(registry: Registry, readServing: () => number) {
  new Gauge(registry, { name: 'ledgergate_workers', help: 'Serving workers.', read: readServing });
  return {
    restarts: new Counter(registry, {
      name: 'ledgergate_worker_restarts_total',
      help: 'Workers that exited and were replaced.',
    }).of({}),
    hangs: new Counter(registry, {
      name: 'ledgergate_worker_hangs_total',
      help: 'Workers killed because they did not answer for 10 s.',
    }).of({}),
  };
}

/**
 * Joins the families of the workers. Counters of an exited or silent worker stay in the sum with their last values:
 * Prometheus reads a falling sum as a restart of all.
 */
export class WorkerMetrics {
  readonly registry = new Registry();
  readonly pool: ReturnType<typeof createPoolMetrics>;
  readonly #last = new Map<number, readonly FamilyData[]>();
  #departed: readonly FamilyData[] = [];

  constructor(readServing: () => number) {
    // Processor time and memory of the primary belong to the gateway; its event loop serves no client.
    collectDefaultMetrics({ register: this.registry });
    for (const { name } of this.registry.getMetricsAsArray()) {
      if (!/^process_(cpu|resident|start)/.test(name)) this.registry.removeSingleMetric(name);
    }
    this.pool = createPoolMetrics(this.registry, readServing);
  }

  forget(worker: number): void {
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last !== undefined) this.#departed = joinFamilies([this.#departed, counted(last)]);
  }

  /** The families of a scrape. `reports`: of the workers that answered, by id. */
  async families(reports: ReadonlyMap<number, readonly FamilyData[]>): Promise<readonly FamilyData[]> {
    for (const [worker, families] of reports) this.#last.set(worker, families);
    const silent = [...this.#last].filter(([worker]) => !reports.has(worker)).map(([, last]) => counted(last));
    const own = (await familiesOf(this.registry)).map(asOwn);
    return joinFamilies([own, ...reports.values(), ...silent, this.#departed]);
  }
}

/** Families that only go up. */
function counted(families: readonly FamilyData[]): FamilyData[] {
  return families.filter(({ type }) => type === 'counter' || type === 'histogram');
}

/** The primary's start time is the gateway's; the library leaves it out of sums. */
function asOwn(family: FamilyData): FamilyData {
  return family.name === 'process_start_time_seconds' ? { ...family, aggregator: 'first' } : family;
}
