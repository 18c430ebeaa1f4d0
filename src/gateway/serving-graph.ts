/** Builds and joins the parts of a serving process. No part listens or sends a request before the start. */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { type AccessDependencies, loadAccess } from '../access/index.ts';
import { type Cache, redisConnections } from '../cache/index.ts';
import { createRoutes } from '../proxy/routes/index.ts';
import { createReads } from '../proxy/reads/index.ts';
import { type ClientPort, type ConnectionTimes, createClientPort } from '../proxy/http/index.ts';
import type { PeerWorkers } from './peer-workers.ts';
import type { Config, UpstreamConfig } from '../config/index.ts';
import { Journal, Tracer } from '../metrics/index.ts';
import { ProcessOperations } from '../proxy/operations/index.ts';
import { createFleet, type FleetDeps, type FleetNews } from '../upstream/index.ts';
import { buildCache } from './cache.ts';
import { LogControl } from './log/log.ts';
import { AccessLog } from './log/access-log.ts';
import { createSettings, type ServingContext } from './settings.ts';

/** Covers a phone in a tunnel; the answer occupies a connection to a node meanwhile. */
const usualStallMs = 30_000;

type Optional = Awaited<ReturnType<typeof loadOptional>>;

/**
 * Builders of the parts that only some configs need; other configs do not load their modules. A part that is absent at the
 * start needs a restart.
 */
export async function loadOptional({ access, tracing }: Config) {
  return {
    access: access && of(access, await loadAccess()),
    // A registered SDK is the operator's own choice.
    tracing: tracing && !Tracer.findSdk() ? of(tracing, await (await import('./tracing.ts')).loadTracing()) : undefined,
  };
}

function of<C, Context, Part>(config: C, build: (config: C, context: Context) => Part): (context: Context) => Part {
  return (context) => build(config, context);
}

/** The config of one of `processes`: its share of connections, memory and allowances. */
export function shareOf(config: Config, processes: number): Config {
  if (processes === 1) return config;
  const { memory } = config.cache;
  const { connections } = config.upstream;
  const { maxConnections } = config.listen;
  return {
    ...config,
    listen: { ...config.listen, maxConnections: Math.max(1, Math.floor(maxConnections / processes)) },
    upstreams: config.upstreams.map((upstream) => shareOfNode(upstream, processes)),
    upstream: { ...config.upstream, connections: Math.max(1, Math.floor(connections / processes)) },
    cache: { ...config.cache, memory: { ...memory, maxBytes: Math.floor(memory.maxBytes / processes) } },
  };
}

function shareOfNode(upstream: UpstreamConfig, processes: number): UpstreamConfig {
  const { maxRequestsPerSecond } = upstream;
  if (maxRequestsPerSecond === undefined) return upstream;
  return { ...upstream, maxRequestsPerSecond: maxRequestsPerSecond / processes };
}

/** The parts of a serving process. */
export type Parts = Awaited<ReturnType<typeof buildParts>>;

/** Options of one serving process beside its config. */
export interface ServingOptions extends Pick<FleetDeps, 'drained' | 'forkTimes' | 'lookUp'> {
  readonly log: Logger;
  /** Milliseconds that `close` still accepts connections for. Default 0. */
  readonly drainDelayMs?: number | undefined;
  /** The monotonic clock of the encoder's bounds, in ms. */
  readonly now?: (() => number) | undefined;
  /** A client that reads nothing of a streamed answer for this many ms, or twice as many after it read much, loses it. Default 30,000. */
  readonly stallMs?: number | undefined;
  /** Timeouts of clients; absent ones have their defaults. */
  readonly times?: Partial<ConnectionTimes> | undefined;
  /** Default: measured by the lag of the event loop. */
  readonly isOverloaded?: (() => boolean) | undefined;
  /** Default: built from the config. */
  readonly limits?: AccessDependencies['limits'];
  /** Processes that share the bounds of the gateway. Default 1. */
  readonly processes?: number | undefined;
  /** The name of this start of the gateway, which its processes share. Default: random. */
  readonly run?: string | undefined;
  /** The other workers; absent in a single process. */
  readonly peers?: PeerWorkers | undefined;
}

/** `config`: the share of this process. `optional`: the result of `loadOptional`. */
export async function buildParts(config: Config, options: ServingOptions, optional: Optional) {
  const { log, now = () => performance.now(), processes = 1, run = randomUUID(), peers, limits } = options;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges with names of counters, which promtool refuses; their labels are internal classes of Node.
  for (const kind of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${kind}_total`);
  const journal = new Journal(log);
  const settings = createSettings(config, options.stallMs ?? usualStallMs);
  const context: ServingContext = { log, journal, registry, settings, processes, run, peers };
  const logging = new LogControl(log, config.log);
  const listener = {
    onGeneration: () => cache.forgetLedger(),
    onRollback: () => cache.rolledBack(),
    onConfirmed: (version: bigint) => cache.tiers.settle(version),
    onFork: () => {
      // Before and after: a peer may read it from the store or Redis in between.
      peers?.publish({ kind: 'fork found' });
      void cache.purge({ kind: 'everything' }).then(() => peers?.publish({ kind: 'fork found' }));
    },
    publish: (news: FleetNews) => {
      if (news.kind === 'served') cache.publishServed(news.version);
      if (news.kind === 'snapshot') cache.publishServed(news.snapshot.info.version);
      if (news.kind === 'refused') cache.publishRefused(news.fingerprint, news.version);
      peers?.publish(news);
    },
  };
  const { drained, forkTimes, lookUp } = options;
  const ownLag = () => clientPort.lagMs();
  const fleet = await createFleet(config, { ...context, ...listener, ownLag, drained, forkTimes, lookUp });
  const { answerBudget, latest, sender } = fleet;
  const cache: Cache = buildCache(config.cache, fleet, context);
  const { redis } = config.cache;
  const access = optional.access?.({ ...context, limits, redis: redis && redisConnections(redis, settings.redis) });
  const reads = createReads({
    fleet,
    cache,
    registry,
    settings,
    gasPriceTtlMs: config.cache.gasPriceTtlMs,
    drop: async (key) => {
      // Before and after: in between the others may read it from Redis again.
      peers?.publish({ kind: 'dropped', key });
      const { isComplete } = await cache.purge({ kind: 'read', key });
      peers?.publish({ kind: 'dropped', key });
      if (!isComplete)
        journal.record('drop incomplete', {}, 'nodes disagree on a read, and not every cache dropped it');
    },
    onDisagreement: (report) =>
      journal.record('disagreement', report, 'two upstreams answer a pinned read differently: it is dropped'),
  });
  const routes = createRoutes({
    ...context,
    fleet,
    reads,
    basePath: config.listen.basePath,
    signingDomain: config.encode.signingDomain,
    now,
    distrusted: peers?.distrusted,
    onSubmitted: (hash, upstream) => peers?.publishSubmission({ kind: 'submitted', hash, upstream }),
    onDistrusted: (functionId) => peers?.publish({ kind: 'distrusted', functionId }),
  });
  const accessLog = new AccessLog({
    log,
    registry,
    rules: () => logging.inForce.access,
  });
  const clientPort: ClientPort = createClientPort(routes.service, config, {
    ...context,
    ...reads,
    access,
    fleet,
    memory: cache.memory,
    answerBudget,
    onEnd: (summary, seconds) => accessLog.note(summary, seconds),
    sdk: optional.tracing?.(context),
    times: options.times,
    isOverloaded: options.isOverloaded,
  });
  const operations = new ProcessOperations({
    fleet,
    latest,
    registry,
    journal,
    ...reads,
    parse: routes.parse,
    cache,
    usage: access?.usage,
    limits: settings.latest,
    sending: settings.sender,
    load: () => ({ ...clientPort.load(), waiting: sender.waiting }),
    isEncoding: () => settings.encode.enabled,
    distrusted: routes.distrusted,
    disagreements: () => reads.audits.disagreements,
    certificateExpiresMs: () => clientPort.certificate?.expiresMs(),
    certificateRefused: () => clientPort.certificate?.refused(),
  });
  return {
    ...context,
    fleet,
    operations,
    logging,
    access,
    cache,
    reads,
    routes,
    clientPort,
  };
}

/** Closes every part, timers and connections to nodes and Redis included. */
export async function freeParts(parts: Parts): Promise<void> {
  const { fleet, operations, reads, clientPort, cache, access } = parts;
  clientPort.free();
  operations.close();
  fleet.stop();
  reads.audits.close();
  // Usage first: nothing of the cache is worth its loss.
  await access?.close();
  await cache.close();
  await fleet.close();
}
