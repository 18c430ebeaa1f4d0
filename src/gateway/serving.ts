/** The part of the gateway that answers clients: built, listening, and drained. There is one in every process. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Limits } from '../access/ticket.ts';
import type { Config, LogConfig } from '../config/config.ts';
import { ShadowProof } from '../encode/shadow.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { createOverloadMetrics, type OverloadMetrics } from '../metrics/overload-metrics.ts';
import type { Admin } from '../proxy/admin.ts';
import { Connections } from '../proxy/connections.ts';
import { drain } from '../proxy/drain.ts';
import type { Readiness } from '../proxy/health.ts';
import { usualInactivityMs, type ConnectionTimes } from '../proxy/listener.ts';
import { LoopLag } from '../proxy/loop-lag.ts';
import { Submissions } from '../proxy/submissions.ts';
import type { Journal } from '../status/events.ts';
import type { Told } from '../status/facts.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { buildAccess, type AccessContext } from './access.ts';
import { buildCache, type Cache } from './cache.ts';
import { buildEncryption } from './encryption.ts';
import { buildFleet, outageOf, statusOf } from './fleet.ts';
import { buildProxy } from './proxy.ts';
import { LogControl } from './log-control.ts';
import { createSettings, type Settings } from './settings.ts';
import type { Heard, Siblings } from './siblings.ts';
import { StatusSource, type StatusParts } from './status.ts';

export interface ServingOptions {
  readonly log: Logger;
  /** Log lines that were lost so far. Default: none are. */
  readonly droppedLines?: (() => number) | undefined;
  /** `close` goes on taking new connections for so long. Default 0. */
  readonly drainDelayMs?: number | undefined;
  /** The clock of the encoder's bounds, monotonic, in milliseconds; tests move it. */
  readonly now?: (() => number) | undefined;
  /** A client that takes nothing of a streamed answer for this long loses it. Default 30,000. */
  readonly stallMs?: number | undefined;
  /** How long clients may take; what is not given is as usual. */
  readonly times?: ConnectionTimes | undefined;
  /** Whether there is more work than gets done; tests say so. Default: told by the event loop. */
  readonly isOverloaded?: (() => boolean) | undefined;
  /** Who counts requests; tests do it themselves. Default: as the config says. */
  readonly limits?: Limits | undefined;
  /** Processes that serve together: what is bounded for the gateway as a whole is shared among them. Default 1. */
  readonly processes?: number | undefined;
  /** The others, where several serve. */
  readonly siblings?: Siblings | undefined;
}

export interface Serving {
  readonly port: number;
  readonly isDraining: boolean;
  readonly registry: Registry;
  /** What the others say goes in here. */
  readonly heard: Heard;
  readonly admin: Admin;
  readiness(): Readiness;
  /** What this process knows, for the status page. */
  status(): Told;
  /** Remembers and logs changes of state. */
  readonly journal: Journal;
  /**
   * Takes over the live keys of another config (`config/changes.ts`) without ending anything; resolves when they are in
   * force. Not to be called again before.
   */
  apply(config: Config): Promise<void>;
  /** What is logged from now on. */
  setLog(config: LogConfig): void;
  /** Stops accepting, finishes what is in flight within a bound, and frees everything. */
  close(): Promise<void>;
  /** Frees everything at once. */
  stop(): Promise<void>;
}

/** Long enough for a phone in a tunnel; the answer holds a connection to a node meanwhile. */
const usualStallMs = 30_000;
/** What is in flight when the gateway stops has this long to finish. */
export const drainMs = 10_000;
/**
 * The first answers of the nodes are waited for this long, so that a start is ready when it says so. Of a node that
 * other processes have just told of none is waited for.
 */
const firstProbeMs = 1_500;
/** So is the answer to which ledger it is: until then nothing is shared. */
const firstLookMs = 300;

/** Starts listening for clients. Nodes that are down do not stop it; a port that is taken does. */
export async function startServing(whole: Config, options: ServingOptions): Promise<Serving> {
  const { log, now = () => performance.now(), drainDelayMs = 0, processes = 1, siblings } = options;
  const config = shareOf(whole, processes);
  const listener = {
    onGeneration: () => {
      cache.forgetLedger();
      siblings?.startOver();
    },
    onServed: (version: LedgerVersion) => cache.tellServed(version),
    onRefused: (upstream: Upstream, version: LedgerVersion) => cache.tellRefused(upstream, version),
  };
  const status = new StatusSource(log);
  const lag = new LoopLag();
  const settings = createSettings(config, options.stallMs ?? usualStallMs);
  const fleetOptions = { settings, processes, siblings, status, ownLag: () => lag.lagMs };
  const parts = buildFleet(config, log, listener, fleetOptions);
  const { fleet, nodes, prober, latest, registry } = parts;
  const access = accessOf(config, settings, {
    registry,
    status,
    limits: options.limits,
    processes,
    siblings,
  });
  siblings?.attach(fleet);
  let isDraining = false;
  const logging = new LogControl(log, config.log);
  const proof = new ShadowProof({
    get share() {
      return settings.encode.shadow;
    },
    now,
  });
  const cache: Cache = buildCache(config, settings, parts, status);
  const submissions = new Submissions((hash, upstream) => siblings?.tellTaken(hash, upstream));
  const metrics: OverloadMetrics = createOverloadMetrics(registry, () => ({
    connections: connections.open,
    lagSeconds: lag.lagMs / 1000,
  }));
  const { isOverloaded = () => lag.isOverloaded } = options;
  const overload = {
    isOverloaded,
    onShed: () => {
      status.refusals.count('event loop');
      metrics.shed('event loop');
    },
  };
  const times = { inactivityMs: inactivityMs(config), ...options.times };
  const encryption =
    config.listen.tls === undefined
      ? undefined
      : buildEncryption(config.listen.tls, { log, journal: status.journal, times, registry });
  const context = {
    settings,
    parts,
    access,
    usage: access?.usage,
    cache,
    log,
    status,
    logging,
    proof,
    now,
    submissions,
    processes,
    siblings,
    overload,
    times,
    tls: encryption?.listener,
  };
  const {
    server: proxy,
    admin,
    audits,
    flushTraces,
  } = buildProxy(config, { ...context, isDraining: () => isDraining });
  const connections: Connections = new Connections(proxy.server, {
    max: config.listen.maxConnections,
    sessions: encryption?.listener.sessions,
    onRefused: () => {
      status.refusals.count('connections');
      metrics.connectionRefused();
    },
    onDisplaced: () => metrics.connectionDisplaced(),
  });
  lag.start();

  const free = async (): Promise<void> => {
    lag.close();
    status.close();
    encryption?.close();
    prober.close();
    latest.close();
    parts.sender.close();
    audits.close();
    cache.close();
    await access?.close();
    await Promise.all([nodes.close(), ...fleet.upstreams.map((upstream) => upstream.close())]);
  };
  const hearFound: Heard['found'] = (name, finding) => {
    const upstream = fleet.upstreams.find((known) => known.name === name);
    if (upstream !== undefined) prober.hear(upstream, finding);
  };
  const heardOf = new Set<string>();
  siblings?.tellKnown((name, finding) => {
    heardOf.add(name);
    hearFound(name, finding);
  });
  const probed = prober.start();
  const isKnown = fleet.head !== undefined && fleet.upstreams.every(({ name }) => heardOf.has(name));
  try {
    if (!isKnown) await Promise.race([probed, sleep(firstProbeMs, undefined, { ref: false })]);
    fleet.settle();
    const looked = Promise.all([cache.start(), access?.started]);
    await Promise.race([looked, sleep(firstLookMs, undefined, { ref: false })]);
    // Headers from the first answer on.
    await fleet.show(fleet.head?.version ?? (0n as LedgerVersion));
    status.start(fleet);
    await proxy.listen({ host: config.listen.host, port: config.listen.port });
  } catch (error) {
    await proxy.close();
    await free();
    throw error;
  }

  const statusParts: StatusParts = {
    fleet,
    cache: () => {
      const { fill, maxBytes } = cache.memory;
      return { entries: fill.entries, bytes: fill.bytes, maxBytes };
    },
    redis: () => cache.redisStatus(),
    load: () => ({
      connections: connections.open,
      maxConnections: config.listen.maxConnections,
      loopLagMs: Math.round(lag.lagMs),
      isOverloaded: isOverloaded(),
      waiting: parts.sender.waiting,
    }),
    encode: () => ({ isEncoding: settings.encode.enabled, distrusted: [...proof.distrusted] }),
    disagreements: () => audits.disagreements.map(({ upstreams, count, last }) => ({ upstreams, count, last })),
    certificateExpiresMs: () => encryption?.expiresMs(),
  };
  let applied = Promise.resolve();
  const applyNow = async (next: Config): Promise<void> => {
    const share = shareOf(next, processes);
    if (next.access !== undefined) access?.check(next.access);
    settings.apply(share);
    // Before what cannot be taken back: it may find that the config must not be applied.
    await nodes.follow(share.upstreams);
    if (next.access !== undefined) access?.update(next.access);
    proxy.server.timeout = options.times?.inactivityMs ?? inactivityMs(share);
    prober.reschedule();
    // In the background: what is too much goes in steps.
    void cache.memory.resize(share.cache.memory.maxBytes);
  };

  return {
    port: portOf(proxy),
    registry,
    admin,
    heard: {
      found: hearFound,
      taken: (hash, upstream) => submissions.hear(hash, upstream),
      distrusted: (functionId) => proof.distrust(functionId),
      dropped: (key) => void cache.purgeHere({ kind: 'read', key }),
    },
    get isDraining() {
      return isDraining;
    },
    readiness: () => ({
      isReady: fleet.isReady,
      outage: outageOf(fleet),
      upstreams: statusOf(fleet),
      distrusted: [...proof.distrusted],
      disagreements: audits.disagreements,
      redis: cache.redisStatus(),
    }),
    journal: status.journal,
    status: () => status.told(statusParts),
    apply(whole) {
      const apply = () => applyNow(whole);
      applied = applied.then(apply, apply);
      return applied;
    },
    setLog: (next) => logging.set(next),
    async close() {
      isDraining = true;
      await drain(proxy, connections, {
        delayMs: drainDelayMs,
        maxMs: drainMs,
        onCutOff: () => log.warn({ drainMs }, 'requests were still in flight at the end of the drain'),
      });
      await free();
      await flushTraces();
    },
    async stop() {
      await proxy.close();
      await free();
    },
  };
}

/** Whoever waits for a slow node is not idle. */
function inactivityMs({ upstream }: Config): number {
  return Math.max(usualInactivityMs, upstream.deadlineMs + 15_000);
}

function accessOf({ access, cache: { redis } }: Config, settings: Settings, context: Omit<AccessContext, 'redis'>) {
  if (access === undefined) return undefined;
  if (redis === undefined) return buildAccess(access, { ...context, redis });
  const live = {
    ...redis,
    get timeoutMs() {
      return settings.redis.timeoutMs;
    },
  };
  return buildAccess(access, { ...context, redis: live });
}

/** What one of `processes` may take of what the config grants the gateway. */
function shareOf(config: Config, processes: number): Config {
  if (processes === 1) return config;
  const { memory } = config.cache;
  const { connections } = config.upstream;
  const { maxConnections } = config.listen;
  return {
    ...config,
    listen: { ...config.listen, maxConnections: Math.max(1, Math.floor(maxConnections / processes)) },
    upstream: { ...config.upstream, connections: Math.max(1, Math.floor(connections / processes)) },
    cache: { ...config.cache, memory: { ...memory, maxBytes: Math.floor(memory.maxBytes / processes) } },
  };
}

/** The port that a server listens on, whatever it was told. */
export function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** How clients have to ask. */
export function schemeOf({ listen }: Config): 'http' | 'https' {
  return listen.tls === undefined ? 'http' : 'https';
}

/** An address a person on this machine can open. */
export function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
