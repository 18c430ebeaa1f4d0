/**
 * The gateway in several processes. Workers serve clients on one port; the primary reads the config, accepts connections,
 * replaces exited workers, forwards their events, and serves the operations port.
 */
import { randomUUID } from 'node:crypto';
import type { Registry } from 'prom-client';
import { LimitService } from '../access/index.ts';
import type { Config } from '../config/index.ts';
import { drainMs, type GatewayLog, type GatewayOptions, openGateway, type RunningGateway } from '../gateway/index.ts';
import { Journal } from '../metrics/index.ts';
import { joinProcesses, type OperationsSource } from '../proxy/operations/index.ts';
import { FlightDesk } from './flight-desk.ts';
import { WorkerMetrics } from './metrics.ts';
import type { Setup } from './protocol.ts';
import { WorkerBroadcast } from './worker-events.ts';
import { type PoolEvents, WorkerPool } from './worker-pool.ts';
import type { Services, WorkerProcess } from './worker-process.ts';

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
  readonly #limits = new LimitService();
  /** Names of drained nodes. */
  readonly #drained = new Set<string>();
  #config: Config;
  /** Text of the keys file in force. */
  #keys: string | undefined;
  #isUp = false;

  constructor(config: Config, count: number, log: GatewayLog, drainDelayMs = 0) {
    this.#config = config;
    this.#count = count;
    this.#log = log;
    this.#drainDelayMs = drainDelayMs;
    this.journal = new Journal(log.logger);
    this.registry = this.#metrics.registry;
    this.#pool = new WorkerPool(config.listen.port, this);
    this.operations = joinProcesses({
      wanted: count,
      processes: () => this.#pool.workers,
      families: async () => this.#metrics.families(await this.#pool.askAll((worker) => worker.operations.families())),
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
  }

  /** Kills the workers. */
  stop(): Promise<void> {
    return Promise.resolve(this.#pool.kill());
  }

  setup(port: number): Setup {
    return {
      ...this.#broadcast.setup,
      config: { ...this.#config, log: this.#log.inForce, listen: { ...this.#config.listen, port } },
      drainDelayMs: this.#drainDelayMs,
      run: this.#run,
      processes: this.#count,
      keys: this.#keys,
      drained: [...this.#drained],
    };
  }

  servicesFor({ id }: WorkerProcess): Services {
    return {
      publish: (published) => this.#broadcast.publish(id, published),
      keys: (text) => {
        this.#keys = text;
      },
      ...this.#flights.handlersFor(id),
      ...this.#limits.handlersFor(id),
    };
  }

  onServing({ id }: WorkerProcess): void {
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
    this.#limits.release(id);
    this.#metrics.forget(id);
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
