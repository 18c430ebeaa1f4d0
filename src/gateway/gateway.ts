/** The composition root for one process: builds the gateway from a config. */
import type { Config } from '../config/config.ts';
import { createLog } from './log/log.ts';
import { LogAdmin } from './log/log-admin.ts';
import { Reloads } from './reloads.ts';
import { expose } from '../metrics/exposition.ts';
import { familiesOf } from '../metrics/family.ts';
import { createLogMetrics, type LogLines } from '../metrics/log-metrics.ts';
import { packageVersion } from './package-version.ts';
import { createBuildMetrics, createReloadMetrics } from '../metrics/reload-metrics.ts';
import { portOf, reachable, schemeOf } from './address.ts';
import { startServing } from './serving.ts';
import type { ServingOptions } from './serving-graph.ts';
import { createOperationsServer } from '../proxy/operations/operations-server.ts';
import type { NodeStatus } from '../proxy/operations/status/facts.ts';
import { factsOf } from '../proxy/operations/status/present.ts';

/** A listening gateway. */
export interface RunningGateway {
  /** Base address for clients on this machine, base path included. */
  readonly url: string;
  readonly operationsUrl: string;
  readonly port: number;
  readonly operationsPort: number;
  fleet(): readonly NodeStatus[];
  /** Applies configs at run time. */
  readonly reloads: Reloads;
  /** Turns readiness off, stops accepting, drains requests in flight within a bound, and frees everything. */
  close(): Promise<void>;
}

/** Options of a gateway beside its config, most of them for tests. */
export interface GatewayOptions extends Partial<Omit<ServingOptions, 'processes' | 'peers'>> {
  /** Counts the lines of `log`, when that is set. */
  readonly logLines?: LogLines | undefined;
}

/** Starts a gateway in this process. Rejects when a port is in use; nodes may be down. */
export async function startGateway(config: Config, options: GatewayOptions = {}): Promise<RunningGateway> {
  const { log, lines } =
    options.log === undefined ? createLog(config.log.level) : { log: options.log, lines: options.logLines };
  const serving = await startServing(config, { ...options, log });
  createBuildMetrics(serving.registry, { version: packageVersion(), node: process.version, dialect: config.dialect });
  createLogMetrics(serving.registry, lines);
  const apply = (next: Config): Promise<void> => serving.apply(next);
  const logAdmin = new LogAdmin(config.log, { log, apply: (inForce) => serving.setLog(inForce) });
  const reloads = new Reloads(config, {
    journal: serving.journal,
    metrics: createReloadMetrics(serving.registry),
    apply,
    onInForce: ({ log }) => logAdmin.reload(log),
  });
  const operations = createOperationsServer({
    isDraining: () => serving.isDraining,
    readiness: () => serving.readiness(),
    metrics: async (accept) => expose(await familiesOf(serving.registry), accept),
    admin: serving.admin,
    log: logAdmin,
    rules: () => reloads.config.operations,
    reload: () => reloads.status,
    status: () =>
      factsOf(serving.status(), {
        version: packageVersion(),
        nowMs: Date.now(),
        isDraining: serving.isDraining,
        reload: reloads.status,
      }),
  });
  try {
    await operations.listen({ host: config.operations.host, port: config.operations.port });
  } catch (error) {
    await serving.stop();
    throw error;
  }

  const operationsPort = portOf(operations);
  return {
    url: `${schemeOf(config)}://${reachable(config.listen.host)}:${serving.port}${config.listen.basePath}`,
    operationsUrl: `http://${reachable(config.operations.host)}:${operationsPort}`,
    port: serving.port,
    operationsPort,
    fleet: () => serving.readiness().nodes,
    reloads,
    async close() {
      await serving.close();
      await operations.close();
    },
  };
}
