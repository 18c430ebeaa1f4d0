import { ConfigError, WatchedFiles } from '../../config/index.ts';
import { type KeysFile, keysFileWarnings, readKeysFile } from './keys-file.ts';
import type { KeysContext } from './redis-keys.ts';

/** The keys file as the workers of a gateway share it. */
export interface KeysPeers {
  /** The keys file that another worker has in force; `undefined` before the first. */
  readonly lastKeys: string | undefined;
  publishKeys(text: string): void;
}

interface ReadFile extends KeysFile {
  readonly text: string;
}

/** A damaged file may have a problem in each of its lines. */
const mostReported = 20;

/** Watches the keys file. One without a list of keys, or a missing one, changes nothing; a faulty entry is refused alone. */
export class FileKeys {
  readonly #file: string;
  readonly #context: KeysContext;
  readonly #peers: KeysPeers | undefined;
  readonly #watched: WatchedFiles;
  #inForce: ReadFile | undefined;

  /** Reads the file at once. Throws ConfigError when it has no list of keys and no peer has one. */
  constructor(file: string, context: KeysContext, peers: KeysPeers | undefined) {
    this.#file = file;
    this.#context = context;
    this.#peers = peers;
    // While the file has no list of keys, a restarted worker takes the keys of the other workers.
    this.#watched = new WatchedFiles([file]);
    const present = this.#findPresent();
    this.#putInForce(present ?? this.#parse(peers?.lastKeys ?? WatchedFiles.read(file)));
    const read = (): void => this.#read();
    // The next look at such a file reports it.
    if (present === undefined) this.#watched.forget();
    this.#watched.watch({ onChange: read, onMissing: read });
  }

  /** Throws ConfigError when a key in force would lose its plan, unless the present file has none without a plan. */
  check(plans: ReadonlyMap<string, unknown>): void {
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

  /** Throws ConfigError. Reuses the keys in force for the same text: parsing blocks requests. */
  #parse(text: string, plans: ReadonlyMap<string, unknown> = this.#context.principals.plans): ReadFile {
    const inForce = this.#inForce;
    if (inForce?.text === text && inForce.problems.length === 0 && hasPlans(inForce, plans)) return inForce;
    return { text, ...readKeysFile(text, this.#file, new Set(plans.keys())) };
  }

  /** The present file; `undefined` without a list of keys. */
  #findPresent(plans?: ReadonlyMap<string, unknown>): ReadFile | undefined {
    try {
      return this.#parse(WatchedFiles.read(this.#file), plans);
    } catch (error) {
      if (error instanceof ConfigError) return undefined;
      throw error;
    }
  }

  #putInForce(next: ReadFile): void {
    const { principals, metrics, journal } = this.#context;
    principals.setKeys('file', next.keys, next.refused);
    this.#inForce = next;
    this.#peers?.publishKeys(next.text);
    if (next.problems.length === 0) return;
    metrics.reloaded('file', 'failed');
    const why = {
      file: this.#file,
      problems: next.problems.slice(0, mostReported).map((problem) => ConfigError.format(problem)),
    };
    journal.record('keys refused', why, 'keys of the file are refused, because their entries are wrong');
  }

  #take(next: ReadFile): void {
    const { principals, metrics, journal } = this.#context;
    this.#putInForce(next);
    if (next.problems.length === 0) metrics.reloaded('file', 'ok');
    const [warning] = keysFileWarnings(this.#file, next);
    journal.record('keys read', { file: this.#file, keys: principals.size, warning }, 'keys file reloaded');
  }

  #read(): void {
    try {
      this.#take(this.#parse(WatchedFiles.read(this.#file)));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const { metrics, journal } = this.#context;
      metrics.reloaded('file', 'failed');
      const why = { file: this.#file, problems: error.message.split('\n', mostReported) };
      journal.record('keys refused', why, 'keys file refused: the keys in force stay');
    }
  }
}

function hasPlans({ keys }: KeysFile, plans: ReadonlyMap<string, unknown>): boolean {
  return keys.every(({ plan }) => plans.has(plan));
}
