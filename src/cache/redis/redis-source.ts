/**
 * One Redis of the config: its connections, and the user and TLS that they have. New ones are tried over a connection of
 * their own, again and again until Redis takes them; then open connections send AUTH, and later ones use them. Open
 * connections stay, so no command is lost.
 */
import type { Redis } from 'ioredis';
import { ClientTls, type RedisServersConfig, type TlsMaterial } from '../../config/index.ts';
import type { Journal, Renewals } from '../../metrics/index.ts';
import {
  connectRedis,
  connectSubscriber,
  type RedisClient,
  type RedisUser,
  setAccess,
  userOf,
} from './redis-client.ts';

type RedisTarget = RedisServersConfig['target'];
/** The part of the config that decides how to connect. */
type RedisSourceConfig = Pick<RedisServersConfig, 'target' | 'tls'>;

/** Receivers of renewals. */
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
    this.#files?.watch(() => this.#try());
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
