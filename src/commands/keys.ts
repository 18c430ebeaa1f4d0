/**
 * `keys create|list|revoke --file FILE`: the keys of clients. Edits keep the other text of the file, comments included. A
 * running gateway reads the file again by itself.
 */
import { existsSync } from 'node:fs';
import { isMap, isSeq, parseDocument, type Document, type YAMLSeq } from 'yaml';
import { createKey, hashKey } from '../access/keys/key-set.ts';
import { nearMissHint } from '../config/source/near-miss.ts';
import { parseKeysFile, type FileKey, type KeyInput } from '../config/keys-file.ts';
import { readText } from '../config/source/text-file.ts';
import { type CommandCall, type ExitCode, RuntimeFailure, UsageError, formatTable } from './command.ts';
import type { FlagName } from './flags.ts';
import { replaceFile } from './replace-file.ts';

const actions: Readonly<Record<string, (call: CommandCall, file: string) => ExitCode>> = { create, list, revoke };

/** Throws `UsageError` for an unknown action. */
export async function keys(call: CommandCall): Promise<ExitCode> {
  const { operand = '' } = call;
  const names = Object.keys(actions);
  const action = Object.hasOwn(actions, operand) ? actions[operand] : undefined;
  if (action === undefined) {
    const met = operand === '' ? '' : `, got "${operand}"${nearMissHint(operand, names)}`;
    throw new UsageError(`keys: expected ${names.join(', ').replace(/, (\w+)$/, ' or $1')}${met}`);
  }
  return Promise.resolve(action(call, required(call, 'file')));
}

/** Prints the key, the only time that it is there to be read. */
function create(call: CommandCall, file: string): ExitCode {
  const name = required(call, 'name');
  const key = createKey();
  const entry = {
    name,
    tenant: text(call, 'tenant'),
    plan: required(call, 'plan'),
    sha256: hashKey(key),
    // A faulty value is reported below, with its place in the file.
    operations: words(call, 'operations') as KeyInput['operations'],
    origins: words(call, 'origins'),
    expires: text(call, 'expires'),
  };
  replaceFile(file, (target) => {
    const before = existsSync(target) ? readText(target) : '';
    if (before.trim() !== '' && parseKeysFile(before, file).some((known) => known.name === name)) {
      throw new RuntimeFailure(`${file} has a key named ${name} already`);
    }
    const after = withKey(before, entry);
    parseKeysFile(after, file);
    return after;
  });
  call.terminal.error(`The key of ${name}, shown this once; ${file} has its SHA-256 only:`);
  call.terminal.out(key);
  return 0;
}

function list(call: CommandCall, file: string): ExitCode {
  const known = parseKeysFile(readText(file), file);
  const rows = known.map(rowOf);
  const heads = ['NAME', 'TENANT', 'PLAN', 'OPERATIONS', 'ORIGINS', 'EXPIRES', 'SHA256'];
  for (const line of formatTable([heads, ...rows])) call.terminal.out(line);
  return 0;
}

function rowOf({ name, tenant, plan, operations, origins, expiresAtMs, sha256 }: FileKey): readonly string[] {
  const rights = operations?.join(',') ?? 'all';
  return [name, tenant, plan, rights, origins?.join(',') ?? 'any', expiry(expiresAtMs), `${sha256.slice(0, 8)}...`];
}

function revoke(call: CommandCall, file: string): ExitCode {
  const name = required(call, 'name');
  if (!existsSync(file)) readText(file);
  replaceFile(file, (target) => {
    const before = readText(target);
    const names = parseKeysFile(before, file).map((known) => known.name);
    const after = withoutKey(before, name);
    if (after === undefined) throw new RuntimeFailure(`${file} has no key named ${name}${nearMissHint(name, names)}`);
    parseKeysFile(after, file);
    return after;
  });
  call.terminal.out(`Revoked ${name}: a running gateway refuses it within a second or two.`);
  return 0;
}

function expiry(atMs: number | undefined): string {
  if (atMs === undefined) return 'never';
  const time = new Date(atMs).toISOString().replace('.000Z', 'Z');
  return atMs <= Date.now() ? `${time} (past)` : time;
}

function text({ given }: CommandCall, flag: FlagName): string | undefined {
  return given.get(flag)?.values[0];
}

function required(call: CommandCall, flag: FlagName): string {
  const value = text(call, flag);
  if (value === undefined)
    throw new UsageError(`keys ${call.operand}: --${flag} is needed; see ledgergate keys --help`);
  return value;
}

/** Repeated, or separated by commas. */
function words({ given }: CommandCall, flag: FlagName): string[] | undefined {
  return given.get(flag)?.values.flatMap((value) => value.split(',').map((word) => word.trim()));
}

const heading = `# Keys of ledgergate: made by \`ledgergate keys create\`, stored as SHA-256 hashes only.\nkeys: []\n`;

/** The text with one more key; absent fields are left out. `text`: a valid keys file, or empty. */
function withKey(text: string, key: KeyInput): string {
  const document = parseDocument(text.trim() === '' ? heading : text);
  const keys = keysOf(document);
  // Flow style would put all keys on one line.
  keys.flow = false;
  const given = Object.entries(key).filter(([, value]) => value !== undefined);
  keys.add(document.createNode(Object.fromEntries(given)));
  return document.toString({ lineWidth: 0 });
}

/** The text without the key `name`; `undefined` when there is none. */
function withoutKey(text: string, name: string): string | undefined {
  const document = parseDocument(text);
  const keys = keysOf(document);
  const index = keys.items.findIndex((item) => isMap(item) && item.get('name') === name);
  if (index === -1) return undefined;
  keys.delete(index);
  if (keys.items.length === 0) keys.flow = true;
  return document.toString({ lineWidth: 0 });
}

function keysOf(document: Document): YAMLSeq {
  const keys = document.get('keys');
  if (isSeq(keys)) return keys;
  throw new TypeError('a keys file without a list of keys');
}
