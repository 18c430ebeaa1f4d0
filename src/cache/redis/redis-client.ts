/** Connections to Redis in its three topologies. They fail fast: Redis is only speed. */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type * as Ioredis from 'ioredis';
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import type { TlsMaterial } from '../../config/index.ts';
import { Allowance } from '../../ledger/index.ts';

const require = createRequire(import.meta.url);

/** The topology of Redis, and the URLs to connect to. */
type RedisServers =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  | { readonly kind: 'cluster'; readonly urls: readonly string[] };

/** A connection to a server, or to a cluster. */
export type RedisClient = Redis | Cluster;

/** Without `replyMapping`, whose default cannot be passed under exact optional types. */
type NodeOptions = Omit<RedisOptions, 'replyMapping'>;

/** A connection with commands in flight is replaced after this silence. */
const silentMs = 2_000;
const connectMs = 1_000;
const longestReconnectMs = 2_000;

const reconnectAfter = (times: number): number => Math.min(50 * 2 ** Math.min(times, 8), longestReconnectMs);

/**
 * Connects in the background; commands fail at once meanwhile. `onError` receives the cause, which they lack. `tls`: for
 * `rediss:` addresses; absent: the public authorities.
 */
export function connectRedis(target: RedisServers, onError: (error: Error) => void, tls?: TlsMaterial): RedisClient {
  const client = createClient(target, tls);
  if ('slots' in client) client.on('+node', gatherCommands);
  else gatherCommands(client);
  client.on('error', onError);
  // `error` has reported the failed start already, and the client reconnects.
  client.connect().catch(() => undefined);
  return client;
}

/** A separate connection for messages, without the bound on silence: few messages come. */
export function connectSubscriber(
  target: RedisServers,
  onError: (error: Error) => void,
  tls?: TlsMaterial,
): RedisClient {
  // The client's own renewal of subscriptions leaves a rejection without a handler when the server goes away again.
  const changes = { socketTimeout: undefined, enableOfflineQueue: true, autoResubscribe: false };
  const client = createClient(target, tls, changes);
  client.on('error', onError);
  client.connect().catch(() => undefined);
  return client;
}

/**
 * Sends the commands of one turn of the event loop in one write. The client's `enableAutoPipelining` delays later
 * commands until that pipeline is answered: up to two round trips. To be called once per connection, before its first
 * command.
 */
export function gatherCommands(connection: Redis): void {
  const send = connection.sendCommand.bind(connection);
  connection.sendCommand = (command, stream) => {
    gather(connection.stream);
    return send(command, stream);
  };
}

/** `socket`: undefined before the first connection. */
function gather(socket: Socket | undefined): void {
  if (socket === undefined || socket.writableCorked > 0) return;
  socket.cork();
  setImmediate(() => socket.uncork());
}

/** User and password of a Redis. */
export interface RedisUser {
  readonly username?: string;
  readonly password?: string;
}

/** The user of a target, which all its servers have. */
export function userOf(target: RedisServers): RedisUser {
  const [first = ''] = target.kind === 'single' ? [target.url] : target.urls;
  const { username, password } = serverOf(first, undefined);
  return defined({ username, password });
}

/** Sets what the next connection of a server's client uses; the open one stays. The client reads its options then. */
export function setAccess({ options }: Redis, { username, password }: RedisUser, tls: TlsMaterial | undefined): void {
  const hasTls = Boolean(options.tls);
  const isOfSentinels = Boolean(options.sentinels);
  Object.assign(options, { username, password }, hasTls ? { tls: tls ?? {} } : {});
  if (!isOfSentinels) return;
  Object.assign(options, { sentinelUsername: username, sentinelPassword: password });
  if (hasTls) Object.assign(options, { sentinelTLS: tls ?? {} });
}

function createClient(
  target: RedisServers,
  material: TlsMaterial | undefined,
  changes: Partial<NodeOptions> = {},
): RedisClient {
  // Loaded with the first connection: most configs need none.
  const { Cluster, Redis } = require('ioredis') as typeof Ioredis;
  const options: NodeOptions = { ...common, ...changes };
  switch (target.kind) {
    case 'single':
      return new Redis({ ...serverOf(target.url, material), ...options, reconnectOnError: onDemotion(30_000) });
    case 'sentinel': {
      const servers = target.urls.map((url) => serverOf(url, material));
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
      const servers = target.urls.map((url) => serverOf(url, material));
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
 * A demoted primary refuses writes on a connection that works otherwise: a reconnect finds the new primary. Reads fail
 * meanwhile, and some servers stay read-only, so it happens at most once in `everyMs`.
 */
function onDemotion(everyMs: number): (error: Error) => boolean {
  const reconnects = new Allowance(1_000 / everyMs);
  return ({ message }) => message.startsWith('READONLY') && reconnects.withdraw(performance.now());
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

/** In a cluster, each node's client queues until it is connected, and the cluster client reconnects nodes itself. */
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
  readonly tls?: Partial<TlsMaterial>;
}

/** Parts of `redis://USER:PASSWORD@HOST:PORT/DB`; `rediss:` is TLS with certificate checks, by `tls`. */
function serverOf(text: string, tls: TlsMaterial | undefined): Server {
  const url = new URL(text);
  const db = /^\/(\d+)$/.exec(url.pathname)?.[1];
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? 6379 : Number(url.port),
    ...(url.username === '' ? {} : { username: decodeURIComponent(url.username) }),
    ...(url.password === '' ? {} : { password: decodeURIComponent(url.password) }),
    ...(db === undefined ? {} : { db: Number(db) }),
    ...(url.protocol === 'rediss:' ? { tls: tls ?? {} } : {}),
  };
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function defined<T extends object>(parts: T): Defined<T> {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as Defined<T>;
}
