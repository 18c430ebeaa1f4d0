/**
 * The part of the gateway that answers clients, one in every serving process: it joins the rooms of the process, starts and
 * drains them, and applies another config to them.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { loadAccess } from '../access/index.ts';
import { type Cache, createCache, redisConnections, RedisSource } from '../cache/index.ts';
import { accessRedisOf, type Config, packageVersion } from '../config/index.ts';
import type { LedgerVersion } from '../ledger/index.ts';
import { Journal, loadOtlp, Renewals, Tracer } from '../metrics/index.ts';
import { type ClientPort, type ConnectionTimes, createClientPort } from '../proxy/http/index.ts';
import { ProcessOperations } from '../proxy/operations/index.ts';
import { createReads, type Reads } from '../proxy/reads/index.ts';
import { Routes } from '../proxy/routes/index.ts';
import { createFleet, type FleetDeps } from '../upstream/index.ts';
import { createAccessLog } from './access-log.ts';
import { type Bus, createBus, type PeerEvent, type PeerWorkers } from './bus.ts';
import { GatewayLog } from './log.ts';
import { createSettings, shareOf } from './settings.ts';

/** Requests in flight have this long to finish when the gateway stops. */
export const drainMs = 10_000;
/** Longest wait of the start for the ledger's identity, without which no answer is shared. */
const firstLookMs = 300;
/** Covers a phone in a tunnel; the answer occupies a connection to a node meanwhile. */
const usualStallMs = 30_000;

/** Options of one serving process beside its config. */
export interface ServingOptions extends Pick<FleetDeps, 'drained' | 'forkTimes' | 'lookUp'> {
  /** Default: on stdout. */
  readonly log?: GatewayLog | undefined;
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
  /** Processes that share the bounds of the gateway. Default 1. */
  readonly processes?: number | undefined;
  /** The name of this start of the gateway, which its processes share. Default: random. */
  readonly run?: string | undefined;
  /** The other workers; absent in a single process. */
  readonly peers?: PeerWorkers | undefined;
}

/** A serving process. */
export type Serving = Awaited<ReturnType<typeof startServing>>;

/** Starts listening for clients. Rejects when the port is in use; nodes may be down. */
export async function startServing(config: Config, options: ServingOptions = {}) {
  const serving = await buildServing(config, options);
  try {
    await serving.start();
  } catch (error) {
    await serving.stop();
    throw error;
  }
  return serving;
}

/** Builds and joins the rooms. None of them listens or sends a request before the start. */
export async function buildServing(whole: Config, options: ServingOptions = {}) {
  const { now = () => performance.now(), processes = 1, run = randomUUID(), peers } = options;
  const config = shareOf(whole, processes);
  const { log = new GatewayLog(config.log) } = options;
  const optional = await loadOptional(config);
  const registry = createProcessRegistry();
  const journal = new Journal(log.logger);
  const settings = createSettings(config, options.stallMs ?? usualStallMs);
  const renewals = new Renewals(registry, journal, peers?.files);
  const context = { log: log.logger, journal, registry, settings, processes, run, peers, renewals };
  /** The servers of Redis that the config has; access without one of its own uses the cache's. */
  const redis = {
    cache: config.cache.redis && new RedisSource(config.cache.redis, { ...context, toward: 'cache.redis' }),
    access: config.access?.redis && new RedisSource(config.access.redis, { ...context, toward: 'access.redis' }),
  };
  const { drained, forkTimes, lookUp } = options;
  const fleet = await createFleet(config, {
    ...context,
    drained,
    forkTimes,
    lookUp,
    ownLag: () => clientPort.lagMs(),
    onGeneration: () => {
      cache.forgetLedger();
      reads.follower.recheck();
    },
    onRollback: () => cache.rolledBack(),
    onConfirmed: (version) => cache.tiers.settle(version),
    onFork: () => {
      reads.follower.recheck();
      // Before and after: a peer may read it from the store or Redis in between.
      void bus.publish({ kind: 'fork found' });
      void cache.purge({ kind: 'everything' }).then(() => bus.publish({ kind: 'fork found' }));
    },
    publish: (news) => void bus.publish(news),
  });
  const { answerBudget } = fleet;
  const cache: Cache = createCache(config.cache, {
    ...context,
    redisSource: redis.cache,
    chainId: () => fleet.chainId,
    identity: fleet.identity,
    generation: () => fleet.generation,
    outageFromMs: () => fleet.outageFromMs,
    readRoots: (known, wantsNext) => fleet.roots.read(known, wantsNext),
    replaceHistory: (version) => fleet.replaceHistory(version as LedgerVersion),
    onNews: (news) => void bus.apply(news),
    onAwaited: () => fleet.lookAtSecond(),
  });
  const accessRedis = accessRedisOf(config);
  const access =
    config.access &&
    optional.Access &&
    new optional.Access(config.access, {
      ...context,
      redis: accessRedis && redisConnections(accessRedis, settings.accessRedis, redis.access ?? redis.cache),
      publishChange: (change) => bus.publish({ kind: 'keys changed', change }),
    });
  const reads: Reads = createReads({
    fleet,
    cache,
    registry,
    settings,
    gasPriceTtlMs: config.cache.gasPriceTtlMs,
    drop: async (key) => {
      // Before and after: in between the others may read it from Redis again.
      void bus.publish({ kind: 'dropped', key });
      const { isComplete } = await cache.purge({ kind: 'read', key });
      void bus.publish({ kind: 'dropped', key });
      if (!isComplete)
        journal.record('drop incomplete', {}, 'nodes disagree on a read, and not every cache dropped it');
    },
    isBusy: () => clientPort.isDraining() || clientPort.load().isOverloaded,
    onDisagreement: (report) =>
      journal.record('disagreement', report, 'two upstreams answer a pinned read differently: it is dropped'),
    followerEvents: {
      publish: (page) => void bus.publish({ kind: 'page', page }),
      wanted: () => void bus.publish({ kind: 'follow wanted' }),
      rolledBack: (version) => void bus.publish({ kind: 'rolled back', version }),
      distrusted: (mismatch) => {
        void bus.publish({ kind: 'pages distrusted' });
        const why = 'a transaction in a page differs from its own answer of the same upstream: pages are not used';
        journal.record('page mismatch', mismatch, why);
      },
    },
    isAppointed: peers === undefined,
  });
  const routes = new Routes({
    ...context,
    fleet,
    reads,
    basePath: config.listen.basePath,
    signingDomain: config.encode.signingDomain,
    now,
    distrusted: peers?.distrusted,
    access,
    isOverloaded: () => clientPort.load().isOverloaded,
    onSubmitted: (hash, upstream) => bus.publish({ kind: 'submitted', hash, upstream }),
    onDistrusted: (functionId) => void bus.publish({ kind: 'distrusted', functionId }),
  });
  const bus: Bus = createBus({ access, cache, fleet, reads, routes }, peers);
  const clientPort: ClientPort = createClientPort(routes, config, {
    ...context,
    ...reads,
    access,
    fleet,
    memory: cache.memory,
    answerBudget,
    onEnd: createAccessLog(log, registry),
    sdk: config.tracing && optional.createTracing?.(tracingOf(config.tracing, settings.tracing), context),
    times: options.times,
    isOverloaded: options.isOverloaded,
  });
  const operations = new ProcessOperations({
    ...context,
    fleet,
    cache,
    reads,
    routes,
    clientPort,
    access,
  });
  /** Frees everything but the port: timers and connections to nodes and Redis included. */
  const free = async (): Promise<void> => {
    clientPort.free();
    operations.close();
    fleet.stop();
    reads.close();
    // Usage first: nothing of the cache is worth its loss.
    await access?.close();
    await cache.close();
    redis.cache?.close();
    redis.access?.close();
    await fleet.close();
  };
  /** Applies the live keys of `next`, this process's share of the config. */
  const applyShare = async (next: Config): Promise<void> => {
    if (next.access !== undefined) access?.check(next.access);
    settings.apply(next);
    // Before irreversible steps: they may reject the config.
    await fleet.follow(next);
    if (next.cache.redis !== undefined) redis.cache?.renew(next.cache.redis);
    if (next.access?.redis !== undefined) redis.access?.renew(next.access.redis);
    if (next.access !== undefined) access?.update(next.access);
    clientPort.apply(next);
    // In the background: evicts in steps.
    void cache.memory.resize(next.cache.memory.maxBytes);
  };
  let applied = Promise.resolve();
  return {
    get port() {
      return clientPort.number();
    },
    registry,
    operations,
    journal,
    fleet,
    applyPeerEvent: (event: PeerEvent) => bus.apply(event),
    /** Whether this worker follows the ledger for all. */
    appoint: (isAppointed: boolean) => reads.follower.appoint(isAppointed),
    get isDraining() {
      return clientPort.isDraining();
    },
    /** Rejects when the port is in use. Waits a moment for the nodes, for the ledger's identity and for Redis. */
    async start() {
      clientPort.start();
      await fleet.start();
      const looked = Promise.all([cache.start(), access?.started]);
      await Promise.race([looked, sleep(firstLookMs, undefined, { ref: false })]);
      operations.start();
      await clientPort.listen();
    },
    /**
     * Applies the live keys of another config (`config/changes.ts`) without interrupting requests; resolves when they are
     * in force. One call at a time.
     */
    apply(next: Config) {
      const apply = () => applyShare(shareOf(next, processes));
      applied = applied.then(apply, apply);
      return applied;
    },
    /** Stops accepting, drains requests in flight within a bound, and frees everything. */
    async close() {
      await clientPort.drain({
        delayMs: options.drainDelayMs ?? 0,
        maxMs: drainMs,
        onCutOff: () => log.logger.warn({ drainMs }, 'requests still in flight at the end of the drain were cut off'),
      });
      await free();
      await clientPort.flushTraces();
    },
    /** Frees everything at once. */
    async stop() {
      await clientPort.stop();
      await free();
    },
  };
}

/**
 * Parts that only some configs need; other configs do not load their modules. A part that is absent at the
 * start needs a restart.
 */
async function loadOptional({ access, tracing }: Config) {
  return {
    Access: access && (await loadAccess()),
    // A registered SDK is the operator's own choice.
    createTracing: tracing && !Tracer.findSdk() ? (await loadOtlp()).createTracing : undefined,
  };
}

/** `live`: the headers in force. */
function tracingOf(
  { endpoint, share }: NonNullable<Config['tracing']>,
  live: { readonly headers: Readonly<Record<string, string>> },
) {
  const resource = {
    'service.name': 'ledgergate',
    'service.version': packageVersion(),
    'service.instance.id': `${hostname()}-${process.pid}`,
  };
  return { endpoint, headers: () => live.headers, share, resource };
}

/** The registry of a process, with Node's own metrics. */
function createProcessRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges with names of counters, which promtool refuses; their labels are internal classes of Node.
  for (const kind of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${kind}_total`);
  return registry;
}
