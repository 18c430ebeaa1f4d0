/** Builds everything from a config and joins it; with the files of `gateway/` the only place that constructs things. */
import type { Logger } from 'pino';
import type { Limits } from '../access/limits/ticket.ts';
import type { Config } from '../config/config.ts';
import { createLog } from './log/log.ts';
import { LogAdmin } from './log/log-admin.ts';
import { Reloads } from './reloads.ts';
import { createBuildMetrics } from '../metrics/reload-metrics.ts';
import { expose } from '../metrics/exposition.ts';
import { familiesOf } from '../metrics/family.ts';
import { createLogMetrics, type LogLines } from '../metrics/log-metrics.ts';
import { packageVersion } from './package-version.ts';
import { createReloadMetrics } from '../metrics/reload-metrics.ts';
import { portOf, reachable, schemeOf } from './address.ts';
import { startServing } from './serving.ts';
import type { ConnectionTimes } from '../proxy/routes/server-parts.ts';
import { createOperationsServer, type UpstreamStatus } from '../proxy/operations/operations-server.ts';
import { factsOf } from '../proxy/operations/status/present.ts';

/** A gateway that listens. */
export interface RunningGateway {
  /** Base address for clients on this machine, base path included. */
  readonly url: string;
  readonly operationsUrl: string;
  readonly port: number;
  readonly operationsPort: number;
  fleet(): readonly UpstreamStatus[];
  /** Takes configs that are read while it runs. */
  readonly reloads: Reloads;
  /** Turns readiness off, stops accepting, finishes what is in flight within a bound, and frees everything. */
  close(): Promise<void>;
}

export interface GatewayOptions {
  readonly log?: Logger;
  /** Counts the lines of `log`, where that is given. */
  readonly logLines?: LogLines | undefined;
  /** `close` goes on taking new connections for so long, readiness off. Default 0. */
  readonly drainDelayMs?: number;
  /** The clock of the encoder's bounds, monotonic, in milliseconds; tests move it. */
  readonly now?: () => number;
  /** A client that takes nothing of a streamed answer for this long, or twice as long after it took much, loses it. Default 30,000. */
  readonly stallMs?: number;
  /** How long clients may take; what is not given is as usual. */
  readonly times?: ConnectionTimes;
  /** Who counts requests. Default: as the config says. */
  readonly limits?: Limits;
  /** Whether there is more work than gets done. Default: told by the event loop. */
  readonly isOverloaded?: () => boolean;
}

/** Starts listening, in this process. Nodes that are down do not stop it; a port that is taken does. */
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
    fleet: () => serving.readiness().upstreams,
    reloads,
    async close() {
      await serving.close();
      await operations.close();
    },
  };
}
