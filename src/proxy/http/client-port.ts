/** The port of clients: its server and fast path, the bounds of what clients hold, and its metrics. */
import type { AddressInfo } from 'node:net';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Access } from '../../access/index.ts';
import type { Cache } from '../../cache/index.ts';
import type { Config } from '../../config/index.ts';
import { type Journal, type Sdk, type SharedFiles, Tracer } from '../../metrics/index.ts';
import type { ByteBudget, Fleet } from '../../upstream/index.ts';
import type { Reads } from '../reads/index.ts';
import { EventStreams } from './event-streams.ts';
import { AnswerHeads } from './heads.ts';
import { FastPath } from './fast-path/fast-path.ts';
import { Bodies } from './bodies.ts';
import { createBodyMetrics, createFastPathMetrics, createHttpMetrics, createOverloadMetrics } from './http-metrics.ts';
import { type ExchangeObserver, RequestSpans } from './observer.ts';
import { Connections, type DrainOptions } from './server/connections.ts';
import { createEncryption } from './server/tls-server.ts';
import { createProxyServer } from './server/listener.ts';
import type { ServerParts, Service } from './serve.ts';
import { type ConnectionTimes, usualTimes } from './server/connection-state.ts';
import { TurnShares } from './server/turn-shares.ts';
import { UnsentAnswers } from './unsent-answers.ts';

interface ClientPortContext extends Pick<Reads, 'reader' | 'freshness'> {
  /** Absent: the endpoint is open. */
  readonly access: Access | undefined;
  readonly fleet: Fleet;
  readonly memory: Cache['memory'];
  /** Memory of answers that are read from nodes, or that clients have not read. */
  readonly answerBudget: ByteBudget;
  readonly registry: Registry;
  readonly journal: Journal;
  readonly log: Logger;
  /** Absent in a single process. */
  readonly peers: { readonly files: SharedFiles } | undefined;
  /** Live settings of the config. */
  readonly settings: { readonly sender: ExchangeObserver['limits']; readonly streams: { readonly max: number } };
  /** Processes that share the bounds of the gateway. */
  readonly processes: number;
  /** Called once per request, see `ExchangeObserver`. */
  readonly onEnd: ExchangeObserver['onEnd'];
  /** Default: the registered SDK, if there is one. */
  readonly sdk: Sdk | undefined;
  /** Timeouts of clients; absent ones have their defaults. */
  readonly times: Partial<ConnectionTimes> | undefined;
  /** Default: measured by the lag of the event loop. */
  readonly isOverloaded: (() => boolean) | undefined;
}

/** The port of clients in one process. */
export type ClientPort = ReturnType<typeof createClientPort>;

/** Builds the port, which does not listen yet. `service` serves its requests. */
export function createClientPort(service: Service, config: Config, context: ClientPortContext) {
  const { access, fleet, memory, reader, freshness, answerBudget, registry, settings, processes } = context;
  const { listen } = config;
  const lag = new LoopLag();
  const { isOverloaded = () => lag.isOverloaded } = context;
  const metrics: ReturnType<typeof createOverloadMetrics> = createOverloadMetrics(registry, {
    connections: () => connections.open,
    lagSeconds: () => lag.lagMs / 1000,
    answerBytes: () => answerBudget.held,
  });
  const unsent = new UnsentAnswers(answerBudget, {
    refused: () => metrics.shed('answers on their way'),
    ended: () => metrics.slowConnectionEnded.inc(),
  });
  const times = { ...usualTimes, inactivityMs: inactivityMs(config), ...context.times };
  const turns = new TurnShares();
  const encryption = listen.tls && createEncryption(listen.tls, { ...context, times, turns }, context.peers?.files);
  const sdk = context.sdk ?? Tracer.findSdk();
  const tracer = sdk && new Tracer(sdk);
  const observer = {
    spans: tracer && new RequestSpans(tracer, listen.tls === undefined ? 'http' : 'https', listen.basePath),
    metrics: createHttpMetrics(registry, service.routeNames),
    limits: settings.sender,
    onEnd: context.onEnd,
  };
  const bodies: Bodies = new Bodies({ processes, onEnded: () => bodiesEnded.inc(), turns });
  const bodiesEnded = createBodyMetrics(registry, () => bodies.heldBytes);
  const heads = new AnswerHeads(fleet, access && (() => access.header));
  const streams = new EventStreams(settings.streams, access, registry, processes);
  // A literal without getters: V8 makes an object that has one a dictionary, and each load slow.
  const parts: ServerParts = {
    service,
    targets: service.targets,
    access,
    bodies,
    fleet,
    reader,
    memory,
    freshness,
    heads,
    unsent,
    streams,
    observer,
    overload: { isOverloaded, onShed: () => metrics.shed('event loop') },
    times,
    turns,
    tls: encryption?.listener,
  };
  const app = createProxyServer(parts);
  const fastPath = listen.fastPath ? new FastPath(app.server, parts, createFastPathMetrics(registry)) : undefined;
  const connections: Connections = new Connections(app.server, {
    max: listen.maxConnections,
    sessions: encryption?.listener.sessions,
    fastPath,
    streams,
    onRefused: () => metrics.connectionRefused.inc(),
    onDisplaced: () => metrics.connectionDisplaced.inc(),
  });
  return {
    /** The certificate in use; absent over plain HTTP. */
    certificate: encryption,
    isDraining: () => heads.isDraining,
    /** The number that it listens on; the config may have 0. */
    number: () => (app.server.address() as AddressInfo).port,
    lagMs: () => lag.lagMs,
    load: () => ({
      connections: connections.open,
      maxConnections: listen.maxConnections,
      streams: streams.open,
      maxStreams: settings.streams.max,
      loopLagMs: Math.round(lag.lagMs),
      isOverloaded: isOverloaded(),
    }),
    /** Measures the lag of the event loop from now on. */
    start: () => lag.start(),
    /** Begins to accept connections. Rejects when the port is in use. */
    listen: () => app.listen({ host: listen.host, port: listen.port }),
    /** Applies the live keys of another config. */
    apply(next: Config) {
      service.targets.clear();
      app.server.timeout = context.times?.inactivityMs ?? inactivityMs(next);
    },
    /** Stops accepting, and drains requests in flight within a bound. */
    drain(options: DrainOptions) {
      heads.isDraining = true;
      return connections.drain(app, options);
    },
    /** Closes the port at once. */
    stop: () => app.close(),
    /** Stops timers and watches. */
    free() {
      lag.close();
      streams.close();
      encryption?.close();
    },
    flushTraces: async () => tracer?.flush(),
  };
}

/** Idle timeout of clients' connections, longer than the deadline: a client that waits for a node is not idle. */
function inactivityMs({ upstream }: Config): number {
  return Math.max(usualTimes.inactivityMs, upstream.deadlineMs + 15_000);
}

const sampleMs = 50;
/** From this lag on, the wait for a turn costs more than most answers. */
const lateMs = 100;
/**
 * Overload takes late samples for this long without a break, and this many of them: a stall of a second is one sample.
 */
const windowMs = 500;
const fewestSamples = 4;

/**
 * Measures how late the event loop runs. A single stall (garbage collection, a large body) is over when it shows, so
 * shedding load would be pointless; a loop late at every turn for half a second is overloaded.
 */
export class LoopLag {
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #lastMs: number;
  /** Time of the first sample in an unbroken run of late ones. */
  #lateSinceMs: number | undefined;
  #lateSamples = 0;
  /** Lag of the newest sample, in milliseconds. */
  lagMs = 0;

  /** `now`: monotonic, in milliseconds. */
  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#lastMs = now();
  }

  /** Whether the loop has been late for `windowMs` without a break. */
  get isOverloaded(): boolean {
    if (this.#lateSinceMs === undefined || this.#lateSamples < fewestSamples) return false;
    return this.#lastMs - this.#lateSinceMs >= windowMs;
  }

  start(): void {
    this.#lastMs = this.#now();
    this.#timer = setInterval(() => this.sample(), sampleMs).unref();
  }

  /** Called by the timer, every 50 ms on a loop in time. */
  sample(): void {
    const nowMs = this.#now();
    this.lagMs = Math.max(0, nowMs - this.#lastMs - sampleMs);
    if (this.lagMs < lateMs) {
      this.#lateSinceMs = undefined;
      this.#lateSamples = 0;
    } else {
      this.#lateSinceMs ??= this.#lastMs;
      this.#lateSamples += 1;
    }
    this.#lastMs = nowMs;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
