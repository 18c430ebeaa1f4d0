/** Keys for a test: a file of them, and the config that goes with it. */
import { join } from 'node:path';
import { createKey } from '../../src/access/keys/principals.ts';
import type { AccessConfig } from '../../src/config/config.ts';
import { type Ending, putFile, temporaryFolder } from './temporary-folder.ts';

/** A key of a test, in its text and as it stands in the file. */
export interface TestKey {
  readonly text: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

export function testKey(name: string, more: Readonly<Record<string, unknown>> = {}): TestKey {
  const { key: text, sha256 } = createKey();
  return { text, entry: { name, plan: 'free', sha256, ...more } };
}

export interface KeysFile {
  readonly path: string;
  /** Puts another file in its place, as editors and tools do. */
  write(keys: readonly TestKey[]): void;
  /** The same with any text. */
  writeText(text: string): void;
}

/** A file of keys that goes when the test ends. */
export function keysFile(t: Ending, keys: readonly TestKey[]): KeysFile {
  const path = join(temporaryFolder(t), 'keys.yaml');
  const writeText = (text: string): void => putFile(path, text);
  const write = (keys: readonly TestKey[]): void =>
    writeText(`keys:\n${keys.map(({ entry }) => `  - ${JSON.stringify(entry)}\n`).join('')}`);
  if (keys.length === 0) writeText('keys: []\n');
  else write(keys);
  return { path, write, writeText };
}

export function planConfig(more: Partial<AccessConfig['plans'][string]> = {}): AccessConfig['plans'][string] {
  return { windowMs: 10_000, waitMs: 0, operations: ['read', 'view', 'encode', 'submit', 'pass'], ...more };
}

/** A plan `free` that bounds nothing, no keys, no trusted proxy; `more` overrides. */
export function accessConfig(more: Partial<AccessConfig> = {}): AccessConfig {
  return {
    header: 'authorization',
    keys: { redis: false },
    trustedProxies: [],
    whenRedisIsDown: 'local',
    plans: { free: planConfig() },
    costs: { hit: 1, miss: 2, upstreamMs: 0.1, gasUnit: 0.01, encode: 1, encodeKiB: 1, submit: 10, pass: 2 },
    usage: { metricsByKey: false },
    ...more,
  };
}
