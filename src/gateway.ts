/** Builds everything from a config and joins it; with the files of `gateway/` the only place that constructs things. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { pino, type Logger } from 'pino';
import type { FastifyInstance } from 'fastify';
import type { Config } from './config/config.ts';
import type { LedgerVersion } from './ledger/version.ts';
import { ShadowProof } from './encode/shadow.ts';
import { buildCache, type Cache } from './gateway/cache.ts';
import { buildFleet, statusOf } from './gateway/fleet.ts';
import { buildProxy } from './gateway/proxy.ts';
import { Connections } from './proxy/connections.ts';
import { drain } from './proxy/drain.ts';
import type { Upstream } from './upstream/upstream.ts';
import { createOperationsServer, type UpstreamStatus } from './proxy/health.ts';

/** A gateway that listens. */
export interface RunningGateway {
  /** Base address for clients on this machine, base path included. */
  readonly url: string;
  readonly operationsUrl: string;
  readonly port: number;
  readonly operationsPort: number;
  fleet(): readonly UpstreamStatus[];
  /** Turns readiness off, stops accepting, finishes what is in flight within a bound, and frees everything. */
  close(): Promise<void>;
}

export interface GatewayOptions {
  readonly log?: Logger;
  /** `close` goes on taking new connections for so long, readiness off. Default 0. */
  readonly drainDelayMs?: number;
  /** The clock of the encoder's bounds, monotonic, in milliseconds; tests move it. */
  readonly now?: () => number;
  /** A client that takes nothing of a streamed answer for this long, or twice as long after it took much, loses it. Default 30,000. */
  readonly stallMs?: number;
}

/** What is in flight when the gateway stops has this long to finish. */
const drainMs = 10_000;
/** The first answers of the nodes are waited for this long, so that a start is ready when it says so. */
const firstProbeMs = 1_500;
/** So is the answer to which ledger it is: until then nothing is shared. */
const firstLookMs = 300;

/** Starts listening. Nodes that are down do not stop it; a port that is taken does. */
export async function startGateway(config: Config, options: GatewayOptions = {}): Promise<RunningGateway> {
  const log = options.log ?? pino({ level: config.log.level });
  const listener = {
    onGeneration: () => cache.forget(),
    onServed: (version: LedgerVersion) => cache.tellServed(version),
    onRefused: (upstream: Upstream, version: LedgerVersion) => cache.tellRefused(upstream, version),
  };
  const parts = buildFleet(config, log, listener, options.stallMs);
  const { fleet, prober, latest, registry } = parts;
  let isDraining = false;
  const { now = () => performance.now(), drainDelayMs = 0 } = options;
  const proof = new ShadowProof({ share: config.encode.shadow, now });
  const cache: Cache = buildCache(config, parts, log);
  const proxy = buildProxy(config, { parts, cache, log, proof, now, isDraining: () => isDraining });
  const connections = new Connections(proxy.server);
  const operations = createOperationsServer({
    isReady: () => fleet.isReady,
    isDraining: () => isDraining,
    status: () => statusOf(fleet),
    distrustedFunctions: () => [...proof.distrusted],
    redis: () => cache.redisStatus(),
    metrics: () => registry.metrics(),
    metricsContentType: registry.contentType,
  });

  const stop = async (): Promise<void> => {
    prober.close();
    latest.close();
    cache.close();
    await operations.close();
    await Promise.all(fleet.upstreams.map((upstream) => upstream.close()));
  };
  const probed = prober.start();
  try {
    await Promise.race([probed, sleep(firstProbeMs, undefined, { ref: false })]);
    fleet.settle();
    await Promise.race([cache.start(), sleep(firstLookMs, undefined, { ref: false })]);
    await proxy.listen({ host: config.listen.host, port: config.listen.port });
    await operations.listen({ host: config.operations.host, port: config.operations.port });
  } catch (error) {
    await proxy.close();
    await stop();
    throw error;
  }

  const port = portOf(proxy);
  const operationsPort = portOf(operations);
  return {
    url: `http://${reachable(config.listen.host)}:${port}${config.listen.basePath}`,
    operationsUrl: `http://${reachable(config.operations.host)}:${operationsPort}`,
    port,
    operationsPort,
    fleet: () => statusOf(fleet),
    async close() {
      isDraining = true;
      await drain(proxy, connections, {
        delayMs: drainDelayMs,
        maxMs: drainMs,
        onCutOff: () => log.warn({ drainMs }, 'requests were still in flight at the end of the drain'),
      });
      await stop();
    },
  };
}

function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** An address a person on this machine can open. */
function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
