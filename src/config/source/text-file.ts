/** Files of operators (config, keys, certificates): read whole, watched for changes. */
import { createHash } from 'node:crypto';
import { readFileSync, watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from './problem.ts';

/** The file as text. Throws ConfigError when it is unreadable. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : code;
    throw new ConfigError([{ where: { kind: 'nowhere' }, path: [], message: `cannot read ${file}: ${why}` }]);
  }
}

/** SHA-256 of the files' contents together, in hex; `undefined` when one is unreadable. */
export function digestOf(...files: readonly string[]): string | undefined {
  try {
    const digest = createHash('sha256');
    for (const file of files) digest.update(readFileSync(file));
    return digest.digest('hex');
  } catch {
    return undefined;
  }
}

interface FileWatchOptions {
  /** `digestOf` the files, computed before the caller read them. */
  readonly digest: string | undefined;
  /** Called once the files have other contents that no longer change. */
  readonly onChange: () => void;
  /** Called once when a file is missing for three looks in a row. */
  readonly onMissing: () => void;
  /** Interval of looks without a notification of the file system. Default 1,000. */
  readonly everyMs?: number;
}

/** Contents unchanged for this long are complete: writers take several steps, pairs of files two. */
const settleMs = 100;
/** A replaced file is missing for fewer looks. */
const looksUntilMissing = 3;

/**
 * Reports new contents of files. It watches their folders, because editors replace the file and Kubernetes swaps a link
 * beside it, and reads at an interval, because some file systems notify nothing. Only settled contents count: a
 * half-written file may be valid with another meaning.
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
    this.#timer = setInterval(() => this.#look(), options.everyMs ?? 1_000).unref();
    this.#watchers = [...new Set(files.map((file) => dirname(file)))].flatMap((folder) => this.#watch(folder));
  }

  /** Takes the present contents as no change: the caller reads them. */
  note(): void {
    this.#known = digestOf(...this.#files) ?? this.#known;
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    for (const watcher of this.#watchers) watcher.close();
  }

  /** Without a watchable folder the interval remains. */
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
    }, settleMs).unref();
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
