/** The composition root: joins the operations port, reloads and log settings to the part that serves clients. */
import type { Registry } from 'prom-client';
import { type Config, packageVersion } from '../config/index.ts';
import { Gauge } from '../metrics/index.ts';
import { createOperations, type OperationsSource } from '../proxy/operations/index.ts';
import { GatewayLog } from './log.ts';
import { Reloads } from './reloads.ts';
import { startServing, type Serving, type ServingOptions } from './serving.ts';

/** A listening gateway. */
export type RunningGateway = Awaited<ReturnType<typeof openGateway>>;

/** The surroundings of a gateway beside its config: its log, and else settings of tests. */
export type GatewayOptions = Omit<ServingOptions, 'processes' | 'peers'>;

/** The part that serves clients and listens: this process, or several workers. */
interface ServingPart extends Pick<
  Serving,
  'port' | 'isDraining' | 'registry' | 'journal' | 'apply' | 'close' | 'stop'
> {
  readonly operations: OperationsSource;
  /** Applies log settings to the loggers of other processes. */
  setLog?(inForce: Config['log']): void;
}

/** Starts a gateway in this process. Rejects when a port is in use; nodes may be down. */
export function startGateway(config: Config, options: GatewayOptions = {}): Promise<RunningGateway> {
  return openGateway(config, options, (log) => startServing(config, { ...options, log }));
}

/** Starts a serving part, and its operations port. Stops the part and rejects when that port is in use. */
export async function openGateway(
  config: Config,
  { log = new GatewayLog(config.log) }: GatewayOptions,
  startPart: (log: GatewayLog) => Promise<ServingPart>,
) {
  const part = await startPart(log);
  const version = packageVersion();
  createBuildMetrics(part.registry, version, config.dialect);
  log.register(part.registry);
  const operations = createOperations({
    version,
    source: part.operations,
    log,
    setLog: (inForce) => {
      log.set(inForce);
      part.setLog?.(inForce);
    },
    isDraining: () => part.isDraining,
    rules: () => reloads.config.operations,
    reload: () => reloads.status,
    audit: (call) => log.audit(call),
  });
  const reloads = new Reloads(config, part, (inForce) => operations.reloadLog(inForce.log));
  const operationsPort = await operations.listen(config.operations).catch(async (error: unknown) => {
    await part.stop();
    throw error;
  });
  const { port } = part;
  const scheme = config.listen.tls === undefined ? 'http' : 'https';
  return {
    /** Base address for clients on this machine, base path included. */
    url: `${scheme}://${reachable(config.listen.host)}:${port}${config.listen.basePath}`,
    operationsUrl: `http://${reachable(config.operations.host)}:${operationsPort}`,
    port,
    operationsPort,
    fleet: () => part.operations.nodes(),
    /** Applies configs at run time. */
    reloads,
    /** Turns readiness off, stops accepting, drains requests in flight within a bound, and frees everything. */
    async close() {
      await part.close();
      await operations.close();
    },
  };
}

/** `host` as part of a URL that works on this machine. */
function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}

const dialects = ['auto', 'node', 'aptos'] as const;

/** Registers the family that describes the build. */
export function createBuildMetrics(registry: Registry, version: string, dialect: (typeof dialects)[number]): void {
  new Gauge(registry, {
    name: 'ledgergate_build_info',
    help: 'Always 1: which version runs, on which Node, and what the config calls its headers (dialect).',
    labels: { version: 'version of the package', node: 'version of Node', dialect: dialects },
    join: 'first',
    read: () => [[{ version, node: process.version, dialect }, 1]],
  });
}
