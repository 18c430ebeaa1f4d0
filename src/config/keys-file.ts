/** The keys file: strict like the config, reloaded at run time. No message quotes a value. */
import { z } from 'zod';
import { operations, origins, planName } from './schema/access-schema.ts';
import { explainRoot } from './explain.ts';
import type { LoadedConfig } from './source/load.ts';
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

/** Problems and warnings of the keys file that the config names; none without one. Throws ConfigError when no key can be read. */
export function inspectKeysFile({ config, whereIs }: Pick<LoadedConfig, 'config' | 'whereIs'>): {
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
} {
  const { access } = config;
  const file = access?.keys.file;
  if (access === undefined || file === undefined) return { problems: [], warnings: [] };
  const { keys, problems } = readKeysFile(textOf(file, whereIs), file, new Set(Object.keys(access.plans)));
  return { problems, warnings: keysFileWarnings(file, keys) };
}

/** Throws ConfigError at the key of the config that names the file. */
function textOf(file: string, whereIs: LoadedConfig['whereIs']): string {
  try {
    return readText(file);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const path = ['access', 'keys', 'file'];
    const message = `${error.message}; \`ledgergate keys create\` makes a file with its first key`;
    throw new ConfigError([{ where: whereIs(path), path, message }]);
  }
}

/** A keys file: its valid keys, and its faulty entries. */
export interface KeysFile {
  readonly keys: readonly FileKey[];
  /** SHA-256 of the keys of faulty entries, as far as they can be read: no other source may admit them. */
  readonly refused: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/**
 * The keys of `text`, entry by entry: a fault in one must not keep the others from being revoked. `file`: its name in
 * problems. `plans`: valid plan names; absent: any. Throws ConfigError with all problems when there is no list of keys.
 */
export function readKeysFile(text: string, file: string, plans?: ReadonlySet<string>): KeysFile {
  const source = readYaml(text, file, {});
  if (source.value === undefined && source.problems.length > 0) throw new ConfigError(source.problems);
  const root = source.value ?? {};
  const further = problemsOf(root, source.positions, plans);
  const { data, problems } = explainRoot(keysFileSchema, root, source, { further, isSecret: true });
  if (data !== undefined && problems.length === 0)
    return { keys: data.keys.map(fileKey), refused: new Set(), problems };
  // Its path leads to the list at most: the list is missing, is something else, or is there twice.
  if (problems.some(({ path }) => path.length === 0 || (path.length === 1 && path[0] === 'keys'))) {
    throw new ConfigError(problems);
  }
  const entries = keysOf(root);
  const faulty = new Set(problems.map(({ path }) => path[1]));
  const refused = new Set(entries.flatMap((entry, index) => (faulty.has(index) ? hashOf(entry) : [])));
  const keys = entries.flatMap((entry, index) => {
    const checked = faulty.has(index) ? undefined : key.safeParse(entry);
    // A hash that a faulty entry has, too: which rights the key has is uncertain.
    return checked?.success !== true || refused.has(checked.data.sha256.toLowerCase()) ? [] : [fileKey(checked.data)];
  });
  return { keys, refused, problems: new ConfigError(problems).problems };
}

/** Reads as `readKeysFile`; throws ConfigError for any problem. */
export function parseKeysFile(text: string, file: string, plans?: ReadonlySet<string>): readonly FileKey[] {
  const { keys, problems } = readKeysFile(text, file, plans);
  if (problems.length > 0) throw new ConfigError(problems);
  return keys;
}

function hashOf(entry: unknown): readonly string[] {
  const sha256 = findValue(entry, ['sha256']);
  return typeof sha256 === 'string' ? [sha256.toLowerCase()] : [];
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
