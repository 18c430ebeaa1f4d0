/** Builds everything from a config and joins it; the only place that constructs things. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { pino, type Logger } from 'pino';
import type { FastifyInstance } from 'fastify';
import type { Config } from './config/config.ts';
import { dialectOf } from './ledger/ledger-headers.ts';
import { ShadowProof } from './encode/shadow.ts';
import { MemoryCache } from './cache/memory.ts';
import { ReadThrough } from './cache/read-through.ts';
import { buildSharedCache } from './shared-cache.ts';
import { createCacheMetrics } from './metrics/cache-metrics.ts';
import { createEncodeMetrics } from './metrics/encode-metrics.ts';
import { createHttpMetrics } from './metrics/http-metrics.ts';
import { createUpstreamMetrics } from './metrics/upstream-metrics.ts';
import { Aliases } from './proxy/aliases.ts';
import { Consistency } from './proxy/consistency.ts';
import { Connections } from './proxy/connections.ts';
import { Cors } from './proxy/cors.ts';
import { Encoder } from './proxy/encode-submission.ts';
import { drain } from './proxy/drain.ts';
import type { Exchange } from './proxy/exchange.ts';
import { LatestReads } from './proxy/latest-read.ts';
import { ResponseHeaders } from './proxy/headers.ts';
import { createOperationsServer, type UpstreamStatus } from './proxy/health.ts';
import { ModuleSource } from './proxy/module-source.ts';
import { PassThrough } from './proxy/pass-through.ts';
import { Reader, type Origin } from './proxy/read.ts';
import { Replier } from './proxy/reply.ts';
import { Bodies } from './proxy/request-body.ts';
import { createProxyServer } from './proxy/server.ts';
import { ShadowChecks } from './proxy/shadow-checks.ts';
import { Submissions } from './proxy/submissions.ts';
import { Fleet } from './upstream/fleet.ts';
import { Genesis } from './upstream/genesis.ts';
import { Latest } from './upstream/latest.ts';
import { Prober } from './upstream/probe.ts';
import { Sender } from './upstream/sender.ts';
import { Upstream } from './upstream/upstream.ts';

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
  /** A client that takes nothing of a streamed answer for this long loses it. Default 30,000. */
  readonly stallMs?: number;
}

/** What is in flight when the gateway stops has this long to finish. */
const drainMs = 10_000;
/** Long enough for a phone in a tunnel; the answer holds a connection to a node meanwhile. */
const usualStallMs = 30_000;
/** The first answers of the nodes are waited for this long, so that a start is ready when it says so. */
const firstProbeMs = 1_500;
/** So is the answer to which ledger it is: until then nothing is shared. */
const firstLookMs = 300;

/** Starts listening. Nodes that are down do not stop it; a port that is taken does. */
export async function startGateway(config: Config, options: GatewayOptions = {}): Promise<RunningGateway> {
  const log = options.log ?? pino({ level: config.log.level });
  const onGeneration = (): void => cache.forget();
  const { fleet, prober, sender, latest, registry } = buildFleet(config, log, { ...options, onGeneration });
  let isDraining = false;
  const { now = () => performance.now(), drainDelayMs = 0 } = options;
  const proof = new ShadowProof({ share: config.encode.shadow, now });
  const cache: Cache = buildCache(config, { fleet, sender, registry, log });
  const context = { fleet, sender, latest, registry, cache, log, proof, now, isDraining: () => isDraining };
  const proxy = buildProxy(config, context);
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

interface FleetContext {
  readonly stallMs?: number;
  onGeneration(): void;
}

function buildFleet(config: Config, log: Logger, { stallMs = usualStallMs, onGeneration }: FleetContext) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges under counters' names: promtool takes offence, and their labels are of Node's inner classes.
  for (const kind of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${kind}_total`);
  const upstreams = config.upstreams.map(
    ({ name, url, tier }) =>
      new Upstream({
        name,
        url,
        tier,
        connections: config.upstream.connections,
        connectTimeoutMs: Math.min(config.upstream.timeoutMs, 3_000),
      }),
  );
  const fleet = new Fleet(upstreams, dialectOf(config.dialect), {
    onForeign: (upstream, chainId, fleetChainId) =>
      log.error({ upstream: upstream.name, chainId, fleetChainId }, 'upstream is of another chain and is not asked'),
    onSuspect: (upstream, head, retracted) =>
      log.error({ upstream: upstream.name, head, retracted }, 'upstream tells a head that other nodes contradict'),
    onGeneration,
    onRollback: (upstream, before, after) =>
      log.error({ upstream: upstream.name, before, after }, 'the ledger went back: what was cached of it is dropped'),
    onAwaited: () => prober.hurry(),
  });
  const metrics = createUpstreamMetrics(
    registry,
    () => gaugesOf(fleet),
    () => ({ head: fleet.head?.version, oldest: fleet.oldest?.oldestVersion }),
  );
  const { timeoutMs, deadlineMs, maxAttempts, probeIntervalMs } = config.upstream;
  const limits = { timeoutMs, deadlineMs, maxAttempts, waitForVersionMs: config.latest.waitForVersionMs, stallMs };
  const prober: Prober = new Prober(fleet, { intervalMs: probeIntervalMs, timeoutMs: Math.min(timeoutMs, 2_000) }, log);
  const onTimeout = (upstream: Upstream): void => void prober.look(upstream);
  const sender = new Sender({ fleet, limits, metrics, log, onTimeout });
  const latest = new Latest(fleet, sender, config.latest);
  return { fleet, prober, sender, latest, registry };
}

interface CacheContext {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly registry: Registry;
  readonly log: Logger;
}

type Cache = ReturnType<typeof buildCache>;

function buildCache(config: Config, { fleet, sender, registry, log }: CacheContext) {
  const metrics = createCacheMetrics(registry, () => memory.fill);
  const memory: MemoryCache = new MemoryCache({
    maxBytes: config.cache.memory.maxBytes,
    onEvict: (reads) => metrics.evictions.inc(reads),
  });
  const { redis } = config.cache;
  const genesis = new Genesis(fleet, sender);
  const followMs = config.upstream.timeoutMs;
  const shared =
    redis === undefined
      ? undefined
      : buildSharedCache(redis, { memory, registry, log, ledger: () => genesis.name, followMs });
  return {
    memory,
    tiers: new ReadThrough<Origin>({ memory, shared }),
    metrics,
    /** Nothing that was read before may be used. */
    forget: () => {
      memory.purge(() => true);
    },
    redisStatus: () => (shared === undefined ? undefined : { trouble: shared.trouble() }),
    /** Resolves when what is shared can be used, or will have to wait. */
    start: () => (shared === undefined ? Promise.resolve() : genesis.start()),
    close: () => {
      genesis.close();
      shared?.close();
    },
  };
}

interface ProxyContext {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly latest: Latest;
  readonly registry: Registry;
  readonly cache: Cache;
  readonly log: Logger;
  readonly proof: ShadowProof;
  readonly now: () => number;
  isDraining(): boolean;
}

function buildProxy(config: Config, context: ProxyContext): FastifyInstance {
  const { fleet, sender, latest, registry, cache, log, proof } = context;
  const { basePath } = config.listen;
  const reader = new Reader({ fleet, sender, memory: cache.memory, tiers: cache.tiers, metrics: cache.metrics });
  const cors = new Cors(fleet.dialect);
  const replier = new Replier({ fleet, cors, isDraining: () => context.isDraining() }, fleet.dialect);
  const submissions = new Submissions();
  const responseHeaders = new ResponseHeaders(fleet.dialect);
  const consistency = new Consistency(config.latest, () => fleet.generation);
  const latestReads = new LatestReads({ fleet, reader, latest, consistency });
  const passThrough = new PassThrough({
    basePath,
    sender,
    replier,
    responseHeaders,
    submissions,
    latest,
    consistency,
  });
  const observer = { metrics: createHttpMetrics(registry), onEnd: accessLog(log) };
  const encoder = config.encode.enabled ? buildEncoder() : undefined;
  const aliases = new Aliases();
  return createProxyServer({
    basePath,
    reader,
    replier,
    passThrough,
    encoder,
    submissions,
    latestReads,
    consistency,
    aliases,
    bodies: new Bodies(),
    cors,
    observer,
  });

  function buildEncoder(): Encoder {
    const metrics = createEncodeMetrics(registry, () => proof.distrusted.size);
    return new Encoder({
      fleet,
      replier,
      passThrough,
      proof,
      modules: new ModuleSource(reader, { now: context.now }),
      checks: new ShadowChecks({
        sender,
        proof,
        metrics,
        onMismatch: (mismatch) =>
          log.error(mismatch, 'a node encodes this function differently: it is left to nodes now'),
      }),
      metrics,
      signingDomain: config.encode.signingDomain,
    });
  }
}

/** One line per request at `debug`, so that the usual level costs nothing on a hit; paths and queries stay out of it. */
function accessLog(log: Logger): (exchange: Exchange, seconds: number) => void {
  return ({ route, response, request }, seconds) => {
    if (!log.isLevelEnabled('debug')) return;
    log.debug({ route, method: request.method, status: response.statusCode, seconds }, 'answered');
  };
}

function statusOf(fleet: Fleet): readonly UpstreamStatus[] {
  const head = fleet.head?.version;
  return fleet.upstreams.map(({ name, url, tier, health, chainId, window: { info } }) => ({
    name,
    url: url.href,
    tier,
    state: health,
    chainId,
    oldest: info?.oldestVersion.toString(),
    head: info?.version.toString(),
    lag: info === undefined || head === undefined ? undefined : (head - info.version).toString(),
  }));
}

function gaugesOf(fleet: Fleet) {
  const head = fleet.head?.version;
  return fleet.upstreams.map(({ name, health, inFlight, window: { info } }) => ({
    name,
    isUsable: health === 'usable',
    inFlight,
    head: info?.version,
    oldest: info?.oldestVersion,
    lag: info === undefined || head === undefined || health === 'foreign' ? undefined : head - info.version,
  }));
}

function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** An address a person on this machine can open. */
function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
