/** The interface of Redis for keys, limits and usage; the room of the cache connects to it. */
import { hash } from 'node:crypto';
import type { Cluster, Redis } from 'ioredis';

/** The Redis of the config. */
export interface AccessRedis {
  /** Prefix of names in Redis. */
  readonly keyPrefix: string;
  link(onTrouble: (change: StoreTrouble) => void): OpenStore;
  /** Opens the connection of keys, whose commands fail at once while it is down. `onError`: receives the cause. */
  connect(onError: (error: Error) => void): RedisClient;
  /** Receives the messages of a channel on a connection of its own. */
  subscribe(channel: string, listener: ChannelListener): { disconnect(): void };
  /** The failure of a read in words of a closed set, for the log. */
  reasonOf(error: Error): string;
}

/** The begin or end of a trouble of a server. `server`: the address of a cluster's, otherwise ''. */
export interface StoreTrouble {
  readonly server: string;
  readonly trouble: string;
  readonly isOn: boolean;
  readonly reason: string;
}

/** The receiver of a channel. */
export interface ChannelListener {
  /** The subscription begins, or begins again after a time without messages. */
  onBegin(): void;
  onMessage(message: string): void;
}

/** A connection, to a server or to a cluster. While its `status` is not `ready`, commands fail at once, and are not sent. */
export type RedisClient = Redis | Cluster;

/** The result of a command, or the class of its failure. */
export type StoreOutcome<T> = { readonly value: T } | { readonly failure: string };

/** Runs commands within a bound of time. No method rejects. */
export interface Store {
  /** `key`: the command's key, which decides the server of a cluster. */
  read<T>(key: string, command: (client: RedisClient) => Promise<T>): Promise<StoreOutcome<T>>;
  write<T>(key: string, command: (client: RedisClient) => Promise<T>): Promise<StoreOutcome<T>>;
}

/** A store with its connection. */
export interface OpenStore extends Store {
  /** Resolves when the connection is ready, or has failed. */
  readonly started: Promise<void>;
  close(): void;
}

/** A Lua script. `digest`: SHA-1 of the text, for EVALSHA. */
export interface Script {
  readonly text: string;
  readonly digest: string;
}

/** A script from its text. */
export function script(text: string): Script {
  return { text, digest: hash('sha1', text) };
}

/** Runs a script by digest, and by text on a server that does not have it yet. Rejects as the commands do. */
export async function runScript(
  client: RedisClient,
  { text, digest }: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  try {
    return await client.evalsha(digest, keys.length, ...keys, ...args);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return client.eval(text, keys.length, ...keys, ...args);
  }
}
