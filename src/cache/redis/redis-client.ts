/** Connections to Redis in its three topologies, set up to fail fast: Redis is a cache, and nobody waits for it. */
import type { Socket } from 'node:net';
import { Cluster, Redis, type ClusterOptions, type RedisOptions } from 'ioredis';

export type RedisServers =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  | { readonly kind: 'cluster'; readonly urls: readonly string[] };

export type RedisClient = Redis | Cluster;

/** Replies keep their usual form, which a client cannot be told to leave as it is under exact optional types. */
type NodeOptions = Omit<RedisOptions, 'replyMapping'>;

/** A connection that owes answers and says nothing for this long is replaced. */
const silentMs = 2_000;
const connectMs = 1_000;
const longestReconnectMs = 2_000;

const reconnectAfter = (times: number): number => Math.min(50 * 2 ** Math.min(times, 8), longestReconnectMs);

/**
 * Connects in the background and for as long as it takes; commands fail at once meanwhile. `onError` hears why a
 * connection failed: commands themselves only say that there is none.
 */
export function connectRedis(target: RedisServers, onError: (error: Error) => void): RedisClient {
  const client = createClient(target);
  if ('slots' in client) client.on('+node', gatherCommands);
  else gatherCommands(client);
  client.on('error', onError);
  // A failed start is one more reason to reconnect, and `error` has told it already.
  client.connect().catch(() => undefined);
  return client;
}

/** A connection of its own for messages; it is quiet most of the time, so silence says nothing. */
export function connectSubscriber(target: RedisServers, onError: (error: Error) => void): RedisClient {
  const client = createClient(target, { socketTimeout: undefined, enableOfflineQueue: true });
  client.on('error', onError);
  client.connect().catch(() => undefined);
  return client;
}

/**
 * Sends the commands of one turn of the event loop as one piece. The client's own `enableAutoPipelining` holds back
 * later commands until all of that piece are answered, so that a command waits for up to two answers. To be called once
 * for each connection, before its first command.
 */
export function gatherCommands(connection: Redis): void {
  const send = connection.sendCommand.bind(connection);
  connection.sendCommand = (command, stream) => {
    gather(connection.stream);
    return send(command, stream);
  };
}

/** There is no socket before the first connection. */
function gather(socket: Socket | undefined): void {
  if (socket === undefined || socket.writableCorked > 0) return;
  socket.cork();
  setImmediate(() => socket.uncork());
}

function createClient(target: RedisServers, changes: Partial<NodeOptions> = {}): RedisClient {
  const options: NodeOptions = { ...common, ...changes };
  switch (target.kind) {
    case 'single':
      return new Redis({ ...serverOf(target.url), ...options, reconnectOnError: onDemotion(30_000) });
    case 'sentinel': {
      const servers = target.urls.map(serverOf);
      const { username, password, tls, db } = servers[0] ?? {};
      return new Redis({
        ...defined({ username, password, tls, db, sentinelUsername: username, sentinelPassword: password }),
        ...(tls === undefined ? {} : { enableTLSForSentinelMode: true, sentinelTLS: tls }),
        ...options,
        name: target.name,
        sentinels: servers.map(({ host, port }) => ({ host, port })),
        sentinelRetryStrategy: reconnectAfter,
        reconnectOnError: onDemotion(1_000),
      });
    }
    case 'cluster': {
      const servers = target.urls.map(serverOf);
      const { username, password, tls } = servers[0] ?? {};
      return new Cluster(
        servers.map(({ host, port }) => ({ host, port })),
        {
          ...clusterCommon,
          enableOfflineQueue: options.enableOfflineQueue ?? false,
          redisOptions: { ...defined({ username, password, tls }), ...nodeOptions(options) },
        },
      );
    }
  }
}

/**
 * A primary that was demoted refuses writes on a connection that is fine otherwise: the new one is found by connecting
 * anew. Reads fail meanwhile, so it is not done more often than once in `everyMs`: some replicas stay read-only.
 */
function onDemotion(everyMs: number): (error: Error) => boolean {
  let lastMs = -Infinity;
  return (error) => {
    if (!error.message.startsWith('READONLY') || performance.now() - lastMs < everyMs) return false;
    lastMs = performance.now();
    return true;
  };
}

const common: NodeOptions = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  connectTimeout: connectMs,
  socketTimeout: silentMs,
  retryStrategy: reconnectAfter,
  connectionName: 'ledgergate',
};

const clusterCommon: ClusterOptions = {
  lazyConnect: true,
  clusterRetryStrategy: reconnectAfter,
  maxRedirections: 4,
  retryDelayOnFailover: 20,
  retryDelayOnClusterDown: 20,
  retryDelayOnTryAgain: 20,
  slotsRefreshTimeout: connectMs,
  slotsRefreshInterval: 5_000,
};

/** Within a cluster each node's own client queues until it is connected, and the cluster finds nodes anew itself. */
function nodeOptions(options: NodeOptions): NodeOptions {
  const { enableOfflineQueue: _, retryStrategy: __, lazyConnect: ___, ...rest } = options;
  return rest;
}

interface Server {
  readonly host: string;
  readonly port: number;
  readonly username?: string;
  readonly password?: string;
  readonly db?: number;
  readonly tls?: Record<string, never>;
}

/** Parts of `redis://USER:PASSWORD@HOST:PORT/DB`; `rediss:` for TLS with the usual checks of the certificate. */
function serverOf(text: string): Server {
  const url = new URL(text);
  const db = /^\/(\d+)$/.exec(url.pathname)?.[1];
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? 6379 : Number(url.port),
    ...(url.username === '' ? {} : { username: decodeURIComponent(url.username) }),
    ...(url.password === '' ? {} : { password: decodeURIComponent(url.password) }),
    ...(db === undefined ? {} : { db: Number(db) }),
    ...(url.protocol === 'rediss:' ? { tls: {} } : {}),
  };
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function defined<T extends object>(parts: T): Defined<T> {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as Defined<T>;
}
