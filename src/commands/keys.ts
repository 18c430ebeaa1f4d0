/**
 * `keys create|list|revoke` with `--file FILE`, or with `--config FILE` that names it: the keys of clients. Edits keep the other text of the file, comments included. A
 * running gateway reads the file again by itself.
 */
import { existsSync } from 'node:fs';
import { isMap, isSeq, parseDocument, type Document, type YAMLSeq } from 'yaml';
import { createKey, readKeysFile } from '../access/index.ts';
import { ConfigError, WatchedFiles } from '../config/index.ts';
import { nearMissHint } from '../ledger/index.ts';
import { type CommandCall, type ExitCode, RuntimeFailure, UsageError, formatTable } from './command.ts';
import type { FlagName } from './flags.ts';
import { type GivenConfig, loadGivenConfig } from './given-config.ts';
import { replaceFile } from './replace-file.ts';

type KeysFile = ReturnType<typeof readKeysFile>;

type Action = (call: CommandCall, file: string, config: GivenConfig | undefined) => ExitCode;

const actions: Readonly<Record<string, Action>> = { create, list, revoke };

/** Runs the action of the call. */
export async function keys(call: CommandCall): Promise<ExitCode> {
  const action = actions[call.operand ?? ''];
  if (action === undefined) throw new TypeError(`keys without the action ${call.operand}`);
  const config = call.given.has('config') ? loadGivenConfig('keys', { ...call, operand: undefined }) : undefined;
  return Promise.resolve(action(call, fileOf(call, config), config));
}

function fileOf(call: CommandCall, loaded: GivenConfig | undefined): string {
  const file = text(call, 'file') ?? loaded?.config.access?.keys.file;
  if (file !== undefined) return file;
  if (loaded !== undefined) throw new UsageError(`keys: ${loaded.file} has no access.keys.file: give --file FILE`);
  throw new UsageError(`keys ${call.operand}: --file or --config is needed; see ledgergate keys --help`);
}

/** Prints the key, the only time that it is there to be read. */
function create(call: CommandCall, file: string, loaded: GivenConfig | undefined): ExitCode {
  const name = required(call, 'name');
  const plan = required(call, 'plan');
  if (loaded !== undefined) checkPlan(plan, loaded);
  const { key, sha256 } = createKey();
  const entry = {
    name,
    tenant: text(call, 'tenant'),
    plan,
    sha256,
    // A faulty value is reported below, with its place in the file.
    operations: words(call, 'operations'),
    origins: words(call, 'origins'),
    addresses: words(call, 'addresses'),
    expires: text(call, 'expires'),
  };
  replaceFile(file, (target) => {
    const before = existsSync(target) ? WatchedFiles.read(target) : '';
    if (before.trim() !== '' && keysIn(before, file).some((known) => known.name === name)) {
      throw new RuntimeFailure(`${file} has a key named ${name} already`);
    }
    const after = withKey(before, entry);
    keysIn(after, file);
    return after;
  });
  if (loaded === undefined) call.terminal.error(`The plan is not checked without --config FILE.`);
  call.terminal.error(`The key of ${name}, shown this once; ${file} has its SHA-256 only:`);
  call.terminal.out(key);
  return 0;
}

/** Throws ConfigError for any faulty entry. */
function keysIn(text: string, file: string): KeysFile['keys'] {
  const { keys, problems } = readKeysFile(text, file);
  if (problems.length > 0) throw new ConfigError(problems);
  return keys;
}

/** A key of a missing plan admits no request. */
function checkPlan(plan: string, { config, file }: GivenConfig): void {
  const plans = Object.keys(config.access?.plans ?? {});
  if (plans.includes(plan)) return;
  const hint = nearMissHint(plan, plans) || (plans.length === 0 ? '' : `; it has ${plans.join(', ')}`);
  throw new UsageError(`--plan: access.plans of ${file} has no plan "${plan}"${hint}`);
}

/** 2: some entries are wrong. */
function list(call: CommandCall, file: string): ExitCode {
  const found = readKeysFile(WatchedFiles.read(file), file);
  if (text(call, 'format') === 'json') call.terminal.out(JSON.stringify(found.keys.map(fieldsOf), null, 2));
  else {
    const heads = ['NAME', 'TENANT', 'PLAN', 'OPERATIONS', 'ORIGINS', 'ADDRESSES', 'EXPIRES', 'SHA256'];
    for (const line of formatTable([heads, ...found.keys.map(rowOf)])) call.terminal.out(line);
  }
  return reportWrong(call, found);
}

function reportWrong({ terminal }: CommandCall, { problems }: KeysFile): ExitCode {
  for (const problem of problems) terminal.error(`${ConfigError.format(problem)}: this entry is refused`);
  return problems.length === 0 ? 0 : 2;
}

function rowOf({
  name,
  tenant,
  plan,
  operations,
  origins,
  addresses,
  expiresAtMs,
  sha256,
}: KeysFile['keys'][number]): readonly string[] {
  const rights = [operations?.join(',') ?? 'all', origins?.join(',') ?? 'any', addresses?.join(',') ?? 'any'];
  return [name, tenant, plan, ...rights, expiry(expiresAtMs), `${shortHash(sha256)}...`];
}

/** An absent field is null: programs find every field of every key. */
function fieldsOf({ expiresAtMs, sha256, ...key }: KeysFile['keys'][number]): object {
  const { name, tenant, plan, operations, origins, addresses } = key;
  const expires = expiresAtMs === undefined ? null : new Date(expiresAtMs).toISOString();
  const rights = { operations: operations ?? null, origins: origins ?? null, addresses: addresses ?? null };
  return { name, tenant, plan, ...rights, expires, sha256Prefix: shortHash(sha256) };
}

function shortHash(sha256: string): string {
  return sha256.slice(0, 8);
}

function revoke(call: CommandCall, file: string): ExitCode {
  const name = required(call, 'name');
  if (!existsSync(file)) WatchedFiles.read(file);
  let left: KeysFile | undefined;
  replaceFile(file, (target) => {
    const before = WatchedFiles.read(target);
    readKeysFile(before, file);
    const after = withoutKey(before, name, file);
    left = readKeysFile(after, file);
    return after;
  });
  call.terminal.out(`Revoked ${name}: a running gateway refuses it within a second or two.`);
  if (left !== undefined) reportWrong(call, left);
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
function withKey(text: string, key: Readonly<Record<string, unknown>>): string {
  const document = parseDocument(text.trim() === '' ? heading : text);
  const keys = keysOf(document);
  // Flow style would put all keys on one line.
  keys.flow = false;
  const given = Object.entries(key).filter(([, value]) => value !== undefined);
  keys.add(document.createNode(Object.fromEntries(given)));
  return document.toString({ lineWidth: 0 });
}

/** The text without the key `name`, in each of its entries. Throws RuntimeFailure when there is none. */
function withoutKey(text: string, name: string, file: string): string {
  // Entries with a key twice stay as they are.
  const document = parseDocument(text, { uniqueKeys: false });
  const keys = keysOf(document);
  const names = keys.items.map((item) => (isMap(item) ? String(item.get('name')) : ''));
  if (!names.includes(name)) throw new RuntimeFailure(`${file} has no key named ${name}${nearMissHint(name, names)}`);
  keys.items = keys.items.filter((_, index) => names[index] !== name);
  if (keys.items.length === 0) keys.flow = true;
  return document.toString({ lineWidth: 0 });
}

function keysOf(document: Document): YAMLSeq {
  const keys = document.get('keys');
  if (isSeq(keys)) return keys;
  throw new TypeError('a keys file without a list of keys');
}
