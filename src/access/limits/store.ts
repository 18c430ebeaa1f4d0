/** Redis as this folder wants it: bounded in time, left alone while it does not answer. The gateway hands it in. */
import { hash } from 'node:crypto';

export interface StoreClient {
  eval(script: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  evalsha(digest: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  sadd(key: string, member: string): Promise<unknown>;
  pexpire(key: string, ms: number): Promise<unknown>;
  smembers(key: string): Promise<string[]>;
  hgetall(key: string): Promise<Record<string, string>>;
}

export type StoreOutcome<T> = { readonly value: T } | { readonly failure: string };

export interface Store {
  /** Neither rejects nor takes longer than the store's bound. `key`: what the command is about. */
  read<T>(key: string, command: (client: StoreClient) => Promise<T>): Promise<StoreOutcome<T>>;
  write<T>(key: string, command: (client: StoreClient) => Promise<T>): Promise<StoreOutcome<T>>;
}

export interface Script {
  readonly text: string;
  readonly digest: string;
}

export function script(text: string): Script {
  return { text, digest: hash('sha1', text) };
}

/** A server that does not know the script yet, because it is new or was restarted, is given it. */
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
