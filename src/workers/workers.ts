/**
 * The gateway in several processes. Workers serve clients on one port; the primary reads the config, accepts connections,
 * replaces exited workers, forwards their events, and serves the operations port.
 */
import type { Config } from '../config/config.ts';
import type { GatewayOptions, RunningGateway } from '../gateway/gateway.ts';
import { createLog, LogControl } from '../gateway/log/log.ts';
import { LogAdmin } from '../gateway/log/log-admin.ts';
import { packageVersion } from '../gateway/package-version.ts';
import { Reloads } from '../gateway/reloads.ts';
import { expose } from '../metrics/exposition.ts';
import { createLogMetrics } from '../metrics/log-metrics.ts';
import { createBuildMetrics, createReloadMetrics } from '../metrics/reload-metrics.ts';
import { portOf, reachable, schemeOf } from '../gateway/address.ts';
import { drainMs } from '../gateway/serving.ts';
import { createOperationsServer } from '../proxy/operations/operations-server.ts';
import { Journal, mergeEvents } from '../proxy/operations/status/events.ts';
import { mergeReadiness, mergeStatus } from '../proxy/operations/status/merge.ts';
import { factsOf, type StatusFacts } from '../proxy/operations/status/present.ts';
import { adminOf } from './admin.ts';
import { HangWatch } from './hang-watch.ts';
import { LimitService } from './limit-service.ts';
import { WorkerMetrics } from './metrics.ts';
import { packConfig } from './protocol.ts';
import { WorkerBroadcast } from './worker-broadcast.ts';
import { WorkerPool } from './worker-pool.ts';
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
  const { log, lines } =
    options.log === undefined ? createLog(config.log.level) : { log: options.log, lines: options.logLines };
  const journal = new Journal(log);
  const metrics = new WorkerMetrics(() => pool.serving.length);
  createBuildMetrics(metrics.registry, { version: packageVersion(), node: process.version, dialect: config.dialect });
  createLogMetrics(metrics.registry, lines);
  const broadcast = new WorkerBroadcast(() => pool.workers);
  const limits = new LimitService();
  let inForce = config;
  let keys: string | undefined;
  let isUp = false;
  const pool: WorkerPool = new WorkerPool(config.listen.port, {
    setup: (port) => ({
      ...broadcast.setup,
      config: packConfig({ ...inForce, log: logAdmin.inForce, listen: { ...inForce.listen, port } }),
      drainDelayMs,
      processes: count,
      keys,
    }),
    servicesFor: ({ id }) => ({
      publish: (published) => broadcast.publish(id, published),
      keys: (text) => {
        keys = text;
      },
      ...limits.handlersFor(id),
    }),
    onServing: ({ id }) => {
      if (isUp) journal.note('worker back', { worker: id });
    },
    onLost: (id, how, againMs) => {
      metrics.restarts.inc();
      journal.record('worker lost', { worker: id, how, againMs }, 'a worker exited and is being replaced');
    },
    onGone: ({ id }) => {
      limits.release(id);
      metrics.forget(id);
    },
  });
  const watch = new HangWatch({
    workers: () => pool.workers.filter(({ isLoaded }) => isLoaded),
    onHung: ({ id }, silentMs) => {
      metrics.hangs.inc();
      pool.end(id, `no answer for ${silentMs / 1_000} s`);
    },
  });
  /** The reason of a refusal; `undefined` also for a timeout, which is logged. */
  const applyAt = async ({ id, channel, isServing }: WorkerProcess, next: Config): Promise<string | undefined> => {
    const applied = channel.call('apply', packConfig(next), isServing ? applyMs : startMs + applyMs);
    const reported = applied.catch((error: unknown) => {
      log.error({ worker: id, cause: String(error) }, 'a worker did not apply the config');
      return undefined;
    });
    return isServing ? reported : undefined;
  };
  const control = new LogControl(log, config.log);
  const logAdmin: LogAdmin = new LogAdmin(config.log, {
    log,
    apply: (inForce) => {
      control.set(inForce);
      for (const { channel } of pool.workers) channel.notify('log', inForce);
    },
  });
  const reloads = new Reloads(config, {
    journal,
    onInForce: ({ log }) => logAdmin.reload(log),
    metrics: createReloadMetrics(metrics.registry),
    apply: async (next) => {
      inForce = next;
      const faults = await Promise.all(pool.workers.map((worker) => applyAt(worker, next)));
      const fault = faults.find((reason) => reason !== undefined);
      if (fault !== undefined) throw new Error(fault);
    },
  });
  let isDraining = false;
  const startedAtMs = Date.now();
  const status = async (): Promise<StatusFacts> => {
    const reports = [...(await pool.askAll(({ channel }) => channel.call('status', undefined, answerMs))).values()];
    const merged = mergeStatus(reports);
    return factsOf(merged && { ...merged, startedAtMs, events: mergeEvents([merged.events, journal.events]) }, {
      version: packageVersion(),
      nowMs: Date.now(),
      isDraining,
      reload: reloads.status,
      workers: { wanted: count, answering: reports.length },
    });
  };
  const readiness = async () => {
    const reports = [...(await pool.askAll(({ channel }) => channel.call('readiness', undefined, answerMs))).values()];
    const ready = reports.filter(({ isReady }) => isReady).length;
    return { ...mergeReadiness(reports), workers: { wanted: count, answering: reports.length, ready } };
  };
  const operations = createOperationsServer({
    isDraining: () => isDraining,
    readiness,
    metrics: async (accept) => {
      const reports = await pool.askAll(({ channel }) => channel.call('metrics', undefined, answerMs));
      return expose(await metrics.families(reports), accept);
    },
    admin: adminOf(() => pool.serving),
    log: logAdmin,
    rules: () => reloads.config.operations,
    reload: () => reloads.status,
    status,
  });
  try {
    const port = await pool.start(count);
    isUp = true;
    await operations.listen({ host: config.operations.host, port: config.operations.port });
    const { nodes } = await readiness();
    const operationsPort = portOf(operations);
    return {
      url: `${schemeOf(config)}://${reachable(config.listen.host)}:${port}${config.listen.basePath}`,
      operationsUrl: `http://${reachable(config.operations.host)}:${operationsPort}`,
      port,
      operationsPort,
      fleet: () => nodes,
      reloads,
      async close() {
        isDraining = true;
        watch.close();
        await pool.close(drainDelayMs + drainMs + slackMs);
        await operations.close();
      },
    };
  } catch (error) {
    pool.kill();
    watch.close();
    throw error;
  }
}
