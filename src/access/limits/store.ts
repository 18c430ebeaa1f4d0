/** The interface of Redis for limits and usage, over a `RedisLink` of the gateway. */
import { hash } from 'node:crypto';

/** The commands in use. */
export interface StoreClient {
  eval(script: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  evalsha(digest: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  sadd(key: string, member: string): Promise<unknown>;
  pexpire(key: string, ms: number): Promise<unknown>;
  smembers(key: string): Promise<string[]>;
  hgetall(key: string): Promise<Record<string, string>>;
}

/** The result of a command, or the class of its failure. */
export type StoreOutcome<T> = { readonly value: T } | { readonly failure: string };

/** Runs commands within a bound of time. No method rejects. */
export interface Store {
  /** `key`: the command's key, which decides the server of a cluster. */
  read<T>(key: string, command: (client: StoreClient) => Promise<T>): Promise<StoreOutcome<T>>;
  write<T>(key: string, command: (client: StoreClient) => Promise<T>): Promise<StoreOutcome<T>>;
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
  client: StoreClient,
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
