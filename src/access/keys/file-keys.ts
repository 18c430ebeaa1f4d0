/** The keys file: strict like the config, watched, and reloaded when it changes. No message quotes a value. */
import { z } from 'zod';
import {
  ConfigError,
  explainFile,
  keySchema,
  type LoadedConfig,
  type Problem,
  WatchedFiles,
} from '../../config/index.ts';
import { nearMissHint } from '../../ledger/index.ts';
import type { Journal, SharedFiles } from '../../metrics/index.ts';
import type { AccessMetrics } from '../access-metrics.ts';
import { addition, change, editKeys, type KeysEdit, removal } from './edit-keys.ts';
import {
  type FieldChanges,
  type KeyFields,
  type KeysChange,
  KeysFault,
  type KeySource,
  type NewKeyFields,
} from './key-source.ts';
import { createKey, type KeyRecord, type Principals } from './principals.ts';
import { replaceFile } from './replace-file.ts';

/** The rest of the gateway, as sources of keys address it. */
export interface KeysContext {
  readonly principals: Principals;
  readonly metrics: AccessMetrics;
  readonly journal: Journal;
  /** Absent in a single process. */
  readonly files: SharedFiles | undefined;
}

/** A keys file: its valid keys, and its faulty entries. */
export interface KeysFile {
  readonly text: string;
  readonly keys: readonly KeyRecord[];
  /** SHA-256 of the keys of faulty entries, as far as they can be read: no other source may admit them. */
  readonly refused: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** A damaged file may have a problem in each of its lines. */
const mostReported = 20;

/** Watches the keys file. One without a list of keys, or a missing one, changes nothing; a faulty entry is refused alone. */
export class FileKeys implements KeySource {
  readonly #file: string;
  readonly #context: KeysContext;
  readonly #watched: WatchedFiles;
  #inForce: KeysFile | undefined;

  /** Reads the file at once. Throws ConfigError when it has no list of keys and no peer has one. */
  constructor(file: string, context: KeysContext) {
    this.#file = file;
    this.#context = context;
    // While the file has no list of keys, a restarted worker takes the keys of the other workers.
    this.#watched = new WatchedFiles([file]);
    const present = this.#findPresent();
    this.#putInForce(present ?? this.#parse(context.files?.find({ keys: file })?.keys ?? WatchedFiles.read(file)));
    const read = (): void => this.#attempt(() => this.#take(this.#parse(WatchedFiles.read(file))));
    // The next look at such a file reports it.
    if (present === undefined) this.#watched.forget();
    this.#watched.watch({ onChange: read, onMissing: read });
  }

  /** Throws ConfigError when a key in force would lose its plan, unless the present file has none without a plan. */
  check(plans: ReadonlySet<string>): void {
    const inForce = this.#inForce;
    if (inForce === undefined || hasPlans(inForce, plans)) return;
    if (this.#findPresent(plans)?.problems.length === 0) return;
    throw new ConfigError(this.#parse(inForce.text, plans).problems);
  }

  /** New plans may make refused keys valid. */
  reapplyPlans(): void {
    const next = this.#findPresent();
    if (next !== undefined && next !== this.#inForce) this.#take(next);
  }

  close(): void {
    this.#watched.close();
  }

  named(name: string): readonly KeyRecord[] {
    return this.#inForce?.keys.filter((key) => key.name === name) ?? [];
  }

  get found(): KeySource['found'] {
    const { keys = [], problems = [] } = this.#inForce ?? {};
    return { keys, problems: problems.map((problem) => ConfigError.format(problem)) };
  }

  add(fields: NewKeyFields): Promise<readonly KeysChange[]> {
    return this.#edit(addition(fields, this.#file));
  }

  change(name: string, changes: FieldChanges): Promise<readonly KeysChange[]> {
    return this.#edit(change(name, changes, this.#file));
  }

  remove(name: string): Promise<readonly KeysChange[]> {
    return this.#edit(removal(name, this.#file));
  }

  /** Reads the file at once, ahead of its watch. `edited`: reused while the file has its text. */
  readNow(edited?: KeysFile): void {
    this.#attempt(() => {
      const text = WatchedFiles.read(this.#file);
      const next = edited?.text === text ? edited : this.#parse(text);
      this.#watched.know(text);
      if (next !== this.#inForce) this.#take(next);
    });
  }

  async #edit(edit: KeysEdit): Promise<readonly KeysChange[]> {
    const { plans } = this.#context.principals;
    const edited = await editFile(this.#file, edit, { plans, check: requireOwn }).catch((error: unknown) => {
      if (!(error instanceof ConfigError)) throw error;
      throw new KeysFault('unavailable', `the keys file cannot be changed: ${error.message.split('\n', 1)[0]}`);
    });
    this.readNow(edited);
    return [{}];
  }

  /** Throws ConfigError. Reuses the keys in force for the same text: parsing blocks requests. */
  #parse(text: string, plans = this.#context.principals.plans): KeysFile {
    const inForce = this.#inForce;
    if (inForce?.text === text && inForce.problems.length === 0 && hasPlans(inForce, plans)) return inForce;
    return readKeysFile(text, this.#file, plans);
  }

  #findPresent(plans?: ReadonlySet<string>): KeysFile | undefined {
    try {
      return this.#parse(WatchedFiles.read(this.#file), plans);
    } catch (error) {
      if (error instanceof ConfigError) return undefined;
      throw error;
    }
  }

  #putInForce(next: KeysFile): void {
    const { principals, metrics, files } = this.#context;
    principals.setKeys('file', next.keys, next.refused);
    this.#inForce = next;
    files?.keep({ keys: this.#file }, { keys: next.text });
    if (next.problems.length === 0) return;
    metrics.reloaded('file', 'failed');
    const problems = next.problems.slice(0, mostReported).map((problem) => ConfigError.format(problem));
    this.#recordRefusal(problems, 'keys of the file are refused, because their entries are wrong');
  }

  #take(next: KeysFile): void {
    const { principals, metrics, journal } = this.#context;
    this.#putInForce(next);
    if (next.problems.length === 0) metrics.reloaded('file', 'ok');
    const [warning] = keysFileWarnings(this.#file, next);
    journal.record('keys read', { file: this.#file, keys: principals.size, warning }, 'keys file reloaded');
  }

  #attempt(read: () => void): void {
    try {
      read();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.#context.metrics.reloaded('file', 'failed');
      this.#recordRefusal(error.message.split('\n', mostReported), 'keys file refused: the keys in force stay');
    }
  }

  #recordRefusal(problems: readonly string[], message: string): void {
    this.#context.journal.record('keys refused', { file: this.#file, problems }, message);
  }
}

/** An edit must leave its own entry sound. */
const requireOwn: EditOptions['check'] = ({ problems }, index) => {
  const own = problems.filter(({ path }) => index !== undefined && path[1] === index);
  if (own.length === 0) return;
  const texts = own.map(({ path, message }) => `${ConfigError.formatPath(path.slice(2))}: ${message}`);
  throw new KeysFault('invalid', texts.join('; '));
};

interface EditOptions {
  /** Valid plan names; absent: any. */
  readonly plans?: ReadonlySet<string>;
  /** A missing file is made. */
  readonly isNew?: boolean;
  /** Throws for an edit that must not be made. `index`: of its entry in the list, if it leaves one. */
  readonly check: (edited: KeysFile, index: number | undefined) => void;
}

/** Edits the file under a lock. Rejects with `KeysFault`, with ConfigError for a file without a list of keys, and as `check` throws. */
async function editFile(file: string, edit: KeysEdit, { plans, isNew = false, check }: EditOptions): Promise<KeysFile> {
  let edited: KeysFile | undefined;
  await replaceFile(file, async (found) => {
    if (found === undefined && !isNew) throw new KeysFault('unavailable', `${file} is missing`);
    const before = found ?? '';
    const { text, index } = await editKeys(before, edit).catch((error: unknown) => {
      // The reason why there is no list.
      if (before.trim() !== '') readKeysFile(before, file);
      throw error;
    });
    edited = readKeysFile(text, file, plans);
    check(edited, index);
    return text;
  });
  if (edited === undefined) throw new TypeError('a file without a change');
  return edited;
}

/** Keys files as the command edits them, without a gateway. */
export const KeysFileEditor = {
  /** Throws ConfigError when there is no list of keys. */
  list: (file: string): KeysFile => readKeysFile(WatchedFiles.read(file), file),

  /** The new key, whose hash the file gets. Makes the file. Rejects with `KeysFault`, and with ConfigError for any faulty entry. */
  async create(file: string, fields: KeyFields & { readonly name: string }): Promise<string> {
    const { key, sha256 } = createKey();
    const { name, tenant, plan, ...rights } = fields;
    await editFile(file, addition({ name, tenant, plan, sha256, ...rights }, file), {
      isNew: true,
      check: ({ problems }) => {
        if (problems.length > 0) throw new ConfigError(problems);
      },
    });
    return key;
  },

  /** The file without the keys of the name. Rejects with `KeysFault`, and with ConfigError without a list of keys. */
  async revoke(file: string, name: string): Promise<KeysFile> {
    // A missing file has the message of a missing config.
    WatchedFiles.read(file);
    return editFile(file, removal(name, file), { check: () => undefined });
  },
} as const;

function hasPlans({ keys }: KeysFile, plans: ReadonlySet<string>): boolean {
  return keys.every(({ plan }) => plans.has(plan));
}

const keysFileSchema = z.strictObject({ keys: z.array(keySchema, { error: 'must be a list of keys' }) });

/** Above it keys belong in Redis: parsing blocks the event loop for some 75 µs a key. */
const mostKeysInFile = 5_000;

function keysFileWarnings(file: string, { keys }: KeysFile): readonly string[] {
  if (keys.length <= mostKeysInFile) return [];
  return [
    `${file} has ${keys.length} keys: keep more than ${mostKeysInFile} in Redis (access.keys.redis), since requests wait while the file is parsed`,
  ];
}

/** Problems and warnings of the keys file that the config names. Throws ConfigError when no key can be read. */
export function inspectKeysFile({ config: { access }, whereIs }: Pick<LoadedConfig, 'config' | 'whereIs'>): {
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
} {
  const file = access?.keys.file;
  if (access === undefined || file === undefined) return { problems: [], warnings: [] };
  let text: string;
  try {
    text = WatchedFiles.read(file);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const path = ['access', 'keys', 'file'];
    const message = `${error.message}; \`ledgergate keys create\` makes a file with its first key`;
    throw new ConfigError([{ where: whereIs(path), path, message }]);
  }
  const read = readKeysFile(text, file, new Set(Object.keys(access.plans)));
  return { problems: read.problems, warnings: keysFileWarnings(file, read) };
}

/**
 * The keys of `text`, entry by entry: a fault in one must not keep the others from being revoked. `file`: its name in
 * problems. `plans`: valid plan names; absent: any. Throws ConfigError with all problems when there is no list of keys.
 */
export function readKeysFile(text: string, file: string, plans?: ReadonlySet<string>): KeysFile {
  const { root, data, problems } = explainFile(keysFileSchema, text, file, (given, whereIs) => {
    const twice = [...repeated(given, 'name', whereIs), ...repeated(given, 'sha256', whereIs)];
    return plans === undefined ? twice : [...twice, ...unplanned(given, plans, whereIs)];
  });
  if (data !== undefined && problems.length === 0)
    return { text, keys: data.keys.map(recordOf), refused: new Set(), problems };
  // Its path leads to the list at most: the list is missing, is something else, or is there twice.
  if (problems.some(({ path }) => path.length === 0 || (path.length === 1 && path[0] === 'keys'))) {
    throw new ConfigError(problems);
  }
  const entries = keysOf(root);
  const faulty = new Set(problems.map(({ path }) => path[1]));
  const refused = new Set(
    entries.flatMap((entry, index) => (faulty.has(index) ? (textIn(entry, 'sha256')?.toLowerCase() ?? []) : [])),
  );
  const keys = entries.flatMap((entry, index) => {
    const checked = faulty.has(index) ? undefined : keySchema.safeParse(entry);
    // A hash that a faulty entry has, too: which rights the key has is uncertain.
    return checked?.success !== true || refused.has(checked.data.sha256.toLowerCase()) ? [] : [recordOf(checked.data)];
  });
  return { text, keys, refused, problems: new ConfigError(problems).problems };
}

/** One key from a field in Redis; `undefined` when it is invalid. `text`: JSON with the fields of the file, but `sha256`. */
export function findKey(sha256: string, text: string): KeyRecord | undefined {
  try {
    const checked = keySchema.safeParse({ ...(JSON.parse(text) as object), sha256 });
    return checked.success ? recordOf(checked.data) : undefined;
  } catch {
    return undefined;
  }
}

/** `tenant` defaults to the name. */
function recordOf({ tenant, sha256, expires, ...more }: z.output<typeof keySchema>): KeyRecord {
  const expiresAtMs = expires === undefined ? undefined : Date.parse(expires);
  return { ...more, tenant: tenant ?? more.name, sha256: sha256.toLowerCase(), expiresAtMs };
}

function repeated(root: unknown, word: 'name' | 'sha256', whereIs: LoadedConfig['whereIs']): readonly Problem[] {
  const first = new Map<string, number>();
  return keysOf(root).flatMap((entry, index) => {
    const value = textIn(entry, word)?.toLowerCase();
    if (value === undefined) return [];
    const earlier = first.get(value);
    first.set(value, earlier ?? index);
    const path = ['keys', index, word];
    return earlier === undefined ? [] : [{ where: whereIs(path), path, message: `is that of keys[${earlier}], too` }];
  });
}

function unplanned(root: unknown, plans: ReadonlySet<string>, whereIs: LoadedConfig['whereIs']): readonly Problem[] {
  return keysOf(root).flatMap((entry, index) => {
    const plan = textIn(entry, 'plan');
    if (plan === undefined || plans.has(plan)) return [];
    const path = ['keys', index, 'plan'];
    const message = `there is no such plan in access.plans${nearMissHint(plan, [...plans])}`;
    return [{ where: whereIs(path), path, message }];
  });
}

function keysOf(root: unknown): readonly unknown[] {
  const { keys } = Object(root) as { readonly keys?: unknown };
  return Array.isArray(keys) ? keys : [];
}

function textIn(entry: unknown, field: 'name' | 'plan' | 'sha256'): string | undefined {
  const { [field]: value } = Object(entry) as Partial<Record<typeof field, unknown>>;
  return typeof value === 'string' ? value : undefined;
}
