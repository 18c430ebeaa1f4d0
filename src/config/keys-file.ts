/** The keys file: strict like the config, reloaded at run time. No message quotes a value. */
import { z } from 'zod';
import { operations, origins, planName } from './schema/access-schema.ts';
import type { Config } from './config.ts';
import { checkRoot } from './explain.ts';
import { findValue, type Positions, ConfigError, type Problem } from './source/problem.ts';
import { nearMissHint } from './source/near-miss.ts';
import { pattern } from './schema/schema-parts.ts';
import { readText } from './source/text-file.ts';
import { readYaml } from './source/yaml-source.ts';

/** A key of the file; `tenant` defaults to the name, `sha256` is lower case. */
export type FileKey = Readonly<ReturnType<typeof fileKey>>;

/** A key as the file has it. */
export type KeyInput = z.input<typeof key>;

const nameFault = 'must be a letter, then at most 62 letters, digits or any of "._-"';
const name = pattern(/^[A-Za-z][\w.-]{0,62}$/, nameFault);
/** A client with an empty header would have this key. */
const hashOfNothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const hashFault = 'must be the SHA-256 of a key, 64 hex digits (ledgergate keys create makes both)';
const expiryFault = 'must be a time in UTC such as "2027-01-01T00:00:00Z"';

const key = z.strictObject({
  name,
  tenant: name.optional(),
  plan: planName,
  sha256: pattern(/^[\da-fA-F]{64}$/, hashFault).refine((text) => text.toLowerCase() !== hashOfNothing, {
    error: 'is the SHA-256 of an empty key',
  }),
  operations: operations.optional(),
  origins: origins.optional(),
  expires: z.iso.datetime({ error: expiryFault }).optional(),
});

const keysFileSchema = z.strictObject({ keys: z.array(key, { error: 'must be a list of keys' }) });

/** Above it keys belong in Redis: parsing blocks the event loop for some 75 µs a key. */
const mostKeysInFile = 5_000;

/** A warning for a file of too many keys, or an empty list. */
export function keysFileWarnings(file: string, keys: readonly FileKey[]): readonly string[] {
  if (keys.length <= mostKeysInFile) return [];
  return [
    `${file} has ${keys.length} keys: keep more than ${mostKeysInFile} in Redis (access.keys.redis), since requests wait while the file is parsed`,
  ];
}

/** Reads the keys file that the config names, if any. Returns warnings; throws ConfigError. */
export function checkKeysFile({ access }: Config): readonly string[] {
  const file = access?.keys.file;
  if (access === undefined || file === undefined) return [];
  return keysFileWarnings(file, parseKeysFile(readText(file), file, new Set(Object.keys(access.plans))));
}

/**
 * The keys of `text`. `file`: its name in problems. `plans`: valid plan names; absent: any. Throws ConfigError with all
 * problems.
 */
export function parseKeysFile(text: string, file: string, plans?: ReadonlySet<string>): readonly FileKey[] {
  const source = readYaml(text, file, {});
  const { positions } = source;
  if (source.value === undefined && source.problems.length > 0) throw new ConfigError(source.problems);
  const root = source.value ?? {};
  const further = problemsOf(root, positions, plans);
  return checkRoot(keysFileSchema, root, source, { further, isSecret: true }).keys.map(fileKey);
}

/**
 * One key from a field in Redis; `undefined` when it is invalid. `text`: JSON with the fields of the file, `sha256` is
 * optional.
 */
export function findKey(sha256: string, text: string): FileKey | undefined {
  try {
    const checked = key.safeParse({ ...(JSON.parse(text) as object), sha256 });
    return checked.success ? fileKey(checked.data) : undefined;
  } catch {
    return undefined;
  }
}

function fileKey({ name, tenant = name, plan, sha256, operations, origins, expires }: z.output<typeof key>) {
  const expiresAtMs = expires === undefined ? undefined : Date.parse(expires);
  return { name, tenant, plan, sha256: sha256.toLowerCase(), operations, origins, expiresAtMs };
}

/** Names and hashes given twice, and unknown plans. */
function problemsOf(root: unknown, positions: Positions, plans: ReadonlySet<string> | undefined): readonly Problem[] {
  const twice = [...repeated(root, 'name', positions), ...repeated(root, 'sha256', positions)];
  return plans === undefined ? twice : [...twice, ...unplanned(root, plans, positions)];
}

function repeated(root: unknown, word: 'name' | 'sha256', positions: Positions): readonly Problem[] {
  const first = new Map<string, number>();
  return keysOf(root).flatMap((entry, index) => {
    const value = findValue(entry, [word]);
    if (typeof value !== 'string') return [];
    const earlier = first.get(value.toLowerCase());
    first.set(value.toLowerCase(), earlier ?? index);
    const path = ['keys', index, word];
    const message = `is that of keys[${earlier}], too`;
    return earlier === undefined ? [] : [{ where: positions.ofValue(path), path, message }];
  });
}

function unplanned(root: unknown, plans: ReadonlySet<string>, positions: Positions): readonly Problem[] {
  return keysOf(root).flatMap((entry, index) => {
    const plan = findValue(entry, ['plan']);
    if (typeof plan !== 'string' || plans.has(plan)) return [];
    const path = ['keys', index, 'plan'];
    const message = `there is no such plan in access.plans${nearMissHint(plan, [...plans])}`;
    return [{ where: positions.ofValue(path), path, message }];
  });
}

function keysOf(root: unknown): readonly unknown[] {
  const keys = findValue(root, ['keys']);
  return Array.isArray(keys) ? keys : [];
}
