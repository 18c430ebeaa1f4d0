/**
 * The gateway in several processes. Workers serve clients on one port; the primary reads the config, accepts connections,
 * replaces exited workers, forwards their events, and serves the operations port.
 */
import { randomUUID } from 'node:crypto';
import { LimitService } from '../access/index.ts';
import type { Config } from '../config/index.ts';
import { drainMs, type GatewayOptions, LogControl, logOf, openGateway, type RunningGateway } from '../gateway/index.ts';
import { Journal, mergeEvents } from '../metrics/index.ts';
import { mergeReadiness, mergeStatus } from '../proxy/operations/index.ts';
import { adminOf } from './admin.ts';
import { HangWatch, WorkerPool } from './worker-pool.ts';
import { FlightDesk } from './flight-desk.ts';
import { WorkerMetrics } from './metrics.ts';
import { WorkerBroadcast } from './worker-events.ts';
import type { WorkerProcess } from './worker-process.ts';

/** Clients of the operations port wait for a second or more; a report leaves out a slower worker. */
const answerMs = 800;
/** Later confirmations of a config are logged as missing. */
const applyMs = 5_000;
/** A starting worker confirms a config once it serves. */
const startMs = 30_000;
/** Time for a drain beyond the worker's own bounds. */
export const slackMs = 5_000;

/** Starts `count` worker processes. Rejects when the port is in use; nodes may be down. */
export async function startWorkers(
  config: Config,
  count: number,
  options: GatewayOptions = {},
): Promise<RunningGateway> {
  const { drainDelayMs = 0 } = options;
  const run = randomUUID();
  const gatewayLog = logOf(config, options);
  const { log } = gatewayLog;
  const journal = new Journal(log);
  const metrics = new WorkerMetrics(() => pool.serving.length);
  const broadcast = new WorkerBroadcast(() => pool.workers);
  const flights = new FlightDesk();
  const limits = new LimitService();
  const logging = new LogControl(log, config.log);
  let inForce = config;
  let keys: string | undefined;
  const drained = new Set<string>();
  let isUp = false;
  const pool: WorkerPool = new WorkerPool(config.listen.port, {
    setup: (port) => ({
      ...broadcast.setup,
      config: { ...inForce, log: logging.inForce, listen: { ...inForce.listen, port } },
      drainDelayMs,
      run,
      processes: count,
      keys,
      drained: [...drained],
    }),
    servicesFor: ({ id }) => ({
      publish: (published) => broadcast.publish(id, published),
      keys: (text) => {
        keys = text;
      },
      ...flights.handlersFor(id),
      ...limits.handlersFor(id),
    }),
    onServing: ({ id }) => {
      if (isUp) journal.note('worker back', { worker: id });
    },
    onLost: (id, how, againMs) => {
      metrics.pool.restarts.inc();
      journal.record('worker lost', { worker: id, how, againMs }, 'a worker exited and is being replaced');
    },
    onGone: ({ id }) => {
      flights.release(id);
      limits.release(id);
      metrics.forget(id);
    },
  });
  const watch = new HangWatch({
    workers: () => pool.workers.filter(({ isLoaded }) => isLoaded),
    onHung: ({ id }, silentMs) => {
      metrics.pool.hangs.inc();
      pool.end(id, `no answer for ${silentMs / 1_000} s`);
    },
  });
  /** The reason of a refusal; `undefined` also for a timeout, which is logged. */
  const applyAt = async ({ id, channel, isServing }: WorkerProcess, next: Config): Promise<string | undefined> => {
    const applied = channel.call('apply', next, isServing ? applyMs : startMs + applyMs);
    const reported = applied.catch((error: unknown) => {
      log.error({ worker: id, cause: String(error) }, 'a worker did not apply the config');
      return undefined;
    });
    return isServing ? reported : undefined;
  };
  let isDraining = false;
  const startedAtMs = Date.now();
  const readiness = async () => {
    const reports = [...(await pool.askAll(({ channel }) => channel.call('readiness', undefined, answerMs))).values()];
    const ready = reports.filter(({ isReady }) => isReady).length;
    return { ...mergeReadiness(reports), workers: { wanted: count, answering: reports.length, ready } };
  };
  const stop = async (): Promise<void> => {
    watch.close();
    return Promise.resolve(pool.kill());
  };
  try {
    const port = await pool.start(count);
    isUp = true;
    const { nodes } = await readiness();
    return await openGateway(config, gatewayLog, {
      port,
      get isDraining() {
        return isDraining;
      },
      registry: metrics.registry,
      journal,
      logging,
      admin: adminOf(pool, drained),
      nodes: () => nodes,
      readiness,
      async report() {
        const answers = await pool.askAll(({ channel }) => channel.call('status', undefined, answerMs));
        const merged = mergeStatus([...answers.values()]);
        return {
          status: merged && { ...merged, startedAtMs, events: mergeEvents([merged.events, journal.events]) },
          workers: { wanted: count, answering: answers.size },
        };
      },
      families: async () =>
        metrics.families(await pool.askAll(({ channel }) => channel.call('metrics', undefined, answerMs))),
      async apply(next) {
        inForce = next;
        const faults = await Promise.all(pool.workers.map((worker) => applyAt(worker, next)));
        const fault = faults.find((reason) => reason !== undefined);
        if (fault !== undefined) throw new Error(fault);
        for (const name of drained)
          if (!next.upstreams.some((upstream) => upstream.name === name)) drained.delete(name);
      },
      setLog(next) {
        logging.set(next);
        for (const { channel } of pool.workers) channel.notify('log', next);
      },
      async close() {
        isDraining = true;
        watch.close();
        await pool.close(drainDelayMs + drainMs + slackMs);
      },
      stop,
    });
  } catch (error) {
    await stop();
    throw error;
  }
}
