/**
 * One Redis of the config: its connections in three topologies, which fail fast, because Redis is only speed, and the user
 * and TLS that they have. New ones are tried over a connection of their own, again and again until Redis takes them; then
 * open connections send AUTH, and later ones use them. Open connections stay, so no command is lost.
 */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type * as Ioredis from 'ioredis';
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { ClientTls, type RedisServersConfig, type TlsMaterial } from '../../config/index.ts';
import { Allowance, settlesWithin } from '../../ledger/index.ts';
import type { Journal, Renewals } from '../../metrics/index.ts';

const require = createRequire(import.meta.url);

type RedisTarget = RedisServersConfig['target'];
/** The part of the config that decides how to connect. */
type RedisSourceConfig = Pick<RedisServersConfig, 'target' | 'tls'>;

interface RedisSourceParts {
  /** Section of the config: the name in metrics and log. */
  readonly toward: 'cache.redis' | 'access.redis';
  readonly renewals: Renewals;
  readonly journal: Journal;
}

/** A trial that Redis refuses is recorded after this; it goes on. */
const trialMs = 3_000;

/** The servers, with the connections to them. */
export class RedisSource {
  #config: RedisSourceConfig;
  readonly #parts: RedisSourceParts | undefined;
  #files: ClientTls | undefined;
  /** The user that connections have: that of the config, or the one before while Redis refuses it. */
  #target: RedisTarget;
  #tls: TlsMaterial | undefined;
  readonly #clients = new Set<RedisClient>();
  #trial: { readonly client: RedisClient; readonly timer: NodeJS.Timeout } | undefined;

  /** Throws when files of TLS cannot be used. `parts`: absent, the config and its files are read once. */
  constructor(config: RedisSourceConfig, parts?: RedisSourceParts) {
    this.#config = partOf(config);
    this.#parts = parts;
    this.#target = config.target;
    if (parts === undefined) this.#tls = config.tls && ClientTls.once(config.tls);
    else this.#openFiles(parts);
    this.#tls ??= this.#files?.material;
    if (parts !== undefined && (this.#files !== undefined || userOf(config.target).password !== undefined))
      parts.renewals.add(parts.toward);
  }

  /** See `connectRedis`. */
  connect(onError: (error: Error) => void): RedisClient {
    return this.#keep(connectRedis(this.#target, onError, this.#tls));
  }

  /** See `connectSubscriber`. */
  subscribe(onError: (error: Error) => void): RedisClient {
    return this.#keep(connectSubscriber(this.#target, onError, this.#tls));
  }

  /** Takes over another config of the same servers. Throws when its files cannot be used. */
  renew(next: RedisSourceConfig): void {
    const config = partOf(next);
    if (JSON.stringify(config) === JSON.stringify(this.#config)) return;
    const before = this.#config;
    this.#config = config;
    if (JSON.stringify(before.tls) !== JSON.stringify(config.tls)) {
      const files = this.#files;
      try {
        if (this.#parts !== undefined) this.#openFiles(this.#parts);
      } catch (error) {
        this.#config = before;
        throw error;
      }
      files?.close();
    }
    this.#try();
  }

  close(): void {
    this.#files?.close();
    this.#endTrial();
  }

  #openFiles(parts: RedisSourceParts): void {
    const { tls } = this.#config;
    this.#files = tls && new ClientTls(tls, parts);
    if (tls === undefined) parts.renewals.useFiles(parts.toward);
    this.#files?.use(() => this.#try());
  }

  #keep(client: RedisClient): RedisClient {
    this.#clients.add(client);
    client.once('end', () => this.#clients.delete(client));
    // A cluster's client keeps a copy of the options of its start for servers that it finds later.
    if ('slots' in client) client.on('+node', (node: Redis) => setAccess(node, userOf(this.#target), this.#tls));
    return client;
  }

  #try(): void {
    this.#endTrial();
    const { target } = this.#config;
    const tls = this.#files?.material;
    let cause: Error | undefined;
    const client = connectRedis(target, (error) => (cause = error), tls);
    const onRefused = (): void => {
      this.#parts?.renewals.refuse(this.#parts.toward, 'credentials', `a trial at Redis fails${codeOf(cause)}`);
      // No connection is ready with the earlier ones either.
      if (![...this.#clients].some(({ status }) => status === 'ready')) this.#use(target, tls);
    };
    this.#trial = { client, timer: setInterval(onRefused, trialMs).unref() };
    client.once('ready', () => {
      this.#endTrial();
      this.#use(target, tls);
      this.#parts?.renewals.take(this.#parts.toward);
    });
  }

  #endTrial(): void {
    clearInterval(this.#trial?.timer);
    this.#trial?.client.disconnect();
    this.#trial = undefined;
  }

  /** Open connections get the user, and later ones all of it. */
  #use(target: RedisTarget, tls: TlsMaterial | undefined): void {
    const user = userOf(target);
    const isOther = JSON.stringify(user) !== JSON.stringify(userOf(this.#target));
    this.#target = target;
    this.#tls = tls;
    for (const client of this.#clients) {
      for (const node of 'slots' in client ? client.nodes('all') : [client]) {
        setAccess(node, user, tls);
        if (isOther) authenticate(node, user);
      }
    }
  }
}

/** Other keys of the section are no concern of connections. */
function partOf({ target, tls }: RedisSourceConfig): RedisSourceConfig {
  return tls === undefined ? { target } : { target, tls };
}

/** A connection that Redis refuses it on, or that cannot send it, keeps its user until it is replaced. */
function authenticate(node: Redis, { username, password }: RedisUser): void {
  if (node.status !== 'ready' || password === undefined) return;
  const sent = username === undefined ? node.auth(password) : node.auth(username, password);
  sent.catch(() => undefined);
}

/** An error of the client; that of a cluster has its last node's. */
type ClientError = NodeJS.ErrnoException & { readonly lastNodeError?: NodeJS.ErrnoException };

/** Codes of replies to a user that cannot be used, which a sentinel's error quotes. */
const refusals = /\b(?:WRONGPASS|NOAUTH|NOPERM|LOADING|MASTERDOWN|CLUSTERDOWN)\b/;

/** The code of an error, which names no server and no secret. */
function codeOf(whole: ClientError | undefined): string {
  const error = whole?.lastNodeError ?? whole;
  const code = error?.code ?? refusals.exec(error?.message ?? '')?.[0];
  return code === undefined ? '' : `: ${code}`;
}

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
export function connectRedis(target: RedisTarget, onError: (error: Error) => void, tls?: TlsMaterial): RedisClient {
  const client = createClient(target, tls);
  if ('slots' in client) {
    client.on('+node', gatherCommands);
    connectPrimaries(client);
  } else {
    gatherCommands(client);
  }
  client.on('error', onError);
  // `error` has reported the failed start already, and the client reconnects.
  client.connect().catch(() => undefined);
  return client;
}

/**
 * Connects to the primaries of a cluster, also to those that it gets later. The client connects with a node's first command
 * only, and holds every other command back for 20 ms meanwhile, four times at most (ioredis, `cluster/index.js`). Not
 * before the cluster is ready: the client takes any of its nodes for its own check, and needs the failures of a start.
 */
function connectPrimaries(cluster: Cluster): void {
  const connect = (): void => {
    if (cluster.status !== 'ready') return;
    for (const node of cluster.nodes('master')) if (node.status === 'wait') node.connect().catch(() => undefined);
  };
  cluster.on('ready', connect);
  cluster.on('refresh', connect);
}

/** Calls `onReady` once commands are sent at once; in a cluster: to every primary that can be reached. */
export function onceReady(client: RedisClient, onReady: () => void): void {
  client.once('ready', () => {
    if (!('slots' in client)) return onReady();
    const connecting = client.nodes('master').filter(({ status }) => status !== 'ready');
    const connected = connecting.map(
      (node) => new Promise<void>((resolve) => node.once('ready', resolve).once('end', resolve)),
    );
    void settlesWithin(Promise.all(connected), connectMs).then(onReady);
  });
}

/** A separate connection for messages, without the bound on silence: few messages come. */
export function connectSubscriber(
  target: RedisTarget,
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

interface RedisUser {
  readonly username?: string;
  readonly password?: string;
}

/** The user of a target, which all its servers have. */
function userOf(target: RedisTarget): RedisUser {
  const [first = ''] = target.kind === 'single' ? [target.url] : target.urls;
  const { username, password } = serverOf(first, undefined);
  return defined({ username, password });
}

/** Sets what the next connection of a server's client uses; the open one stays. The client reads its options then. */
function setAccess({ options }: Redis, { username, password }: RedisUser, tls: TlsMaterial | undefined): void {
  const hasTls = Boolean(options.tls);
  const isOfSentinels = Boolean(options.sentinels);
  Object.assign(options, { username, password }, hasTls ? { tls: tls ?? {} } : {});
  if (!isOfSentinels) return;
  Object.assign(options, { sentinelUsername: username, sentinelPassword: password });
  if (hasTls) Object.assign(options, { sentinelTLS: tls ?? {} });
}

function createClient(
  target: RedisTarget,
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
