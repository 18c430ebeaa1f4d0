/** Files that operators write: config, keys, certificates. They are read whole, and watched for changes. */
import { createHash } from 'node:crypto';
import { readFileSync, watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from './problem.ts';

/** The file as text. Throws ConfigError when it cannot be read. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : code;
    throw new ConfigError([{ where: { kind: 'nowhere' }, path: [], message: `cannot read ${file}: ${why}` }]);
  }
}

/** SHA-256 over the contents of the files, in hex; `undefined` when one cannot be read. */
export function digestOf(...files: readonly string[]): string | undefined {
  try {
    const digest = createHash('sha256');
    for (const file of files) digest.update(readFileSync(file));
    return digest.digest('hex');
  } catch {
    return undefined;
  }
}

/** Start and callbacks of a watch. */
export interface FileWatchOptions {
  /** `digestOf` the contents in force, taken before they were read. */
  readonly digest: string | undefined;
  /** The files have other contents, and have stopped changing. */
  readonly onChange: () => void;
  /** Called once when a file has been away for some seconds, until it is back. */
  readonly onMissing: () => void;
  /** How often the files are read where no change was announced. Default 1,000. */
  readonly everyMs?: number;
}

/** Contents that stay the same for so long are whole: writers take several steps, and pairs of files two. */
const settleMs = 100;
/** A file that is put in place anew is away for fewer looks than this. */
const looksUntilMissing = 3;

/**
 * Reports when files have other contents. Their folders are watched and not they themselves, because editors and tools
 * put another file in a file's place, and Kubernetes swaps a link beside it; some file systems announce nothing, so the
 * files are also read at an interval. A half-written file may be valid with another meaning, so only contents that have
 * settled count.
 */
export class FileWatch {
  readonly #files: readonly string[];
  readonly #options: FileWatchOptions;
  readonly #watchers: readonly FSWatcher[];
  readonly #timer: NodeJS.Timeout;
  #soon: NodeJS.Timeout | undefined;
  #known: string | undefined;
  /** Other contents, which may still be changing. */
  #seen: string | undefined;
  #missing = 0;

  constructor(files: readonly string[], options: FileWatchOptions) {
    this.#files = files;
    this.#options = options;
    this.#known = options.digest;
    this.#timer = setInterval(() => this.#look(), options.everyMs ?? 1_000);
    this.#timer.unref();
    this.#watchers = [...new Set(files.map((file) => dirname(file)))].flatMap((folder) => this.#watch(folder));
  }

  /** The contents of the moment are no change: the caller reads them. */
  note(): void {
    this.#known = digestOf(...this.#files) ?? this.#known;
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    for (const watcher of this.#watchers) watcher.close();
  }

  /** A folder that cannot be watched, or goes, is no reason to fail: the interval has to do then. */
  #watch(folder: string): readonly FSWatcher[] {
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#lookSoon());
      return [watcher.on('error', () => watcher.close())];
    } catch {
      return [];
    }
  }

  #lookSoon(): void {
    if (this.#soon !== undefined) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      this.#look();
    }, settleMs);
    this.#soon.unref();
  }

  #look(): void {
    const found = digestOf(...this.#files);
    if (found === undefined) {
      this.#missing += 1;
      if (this.#missing === looksUntilMissing) this.#options.onMissing();
      return;
    }
    this.#missing = 0;
    if (found === this.#known) {
      this.#seen = undefined;
    } else if (found === this.#seen) {
      this.#known = found;
      this.#seen = undefined;
      this.#options.onChange();
    } else {
      this.#seen = found;
      this.#lookSoon();
    }
  }
}
