/**
 * Tells when a file has other contents. The folder is watched, because editors and Kubernetes (whose mounted files are
 * links into a folder that is swapped as a whole) put another file in its place; what no watch tells, a look every
 * second does. Only contents count, and only when they have stopped changing: a file that is half written may be a
 * valid config of another meaning.
 */
import { hash } from 'node:crypto';
import { readFileSync, watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';

export interface FileWatchOptions {
  /** Of the contents that are known already. */
  readonly digest: string | undefined;
  readonly onChange: () => void;
  /** Called once when the file has been away for some seconds, until it is back. */
  readonly onMissing: () => void;
  /** Default 1,000. */
  readonly everyMs?: number;
}

/** Contents that stay the same for so long are whole. */
const settleMs = 60;
/** A file that is put in place anew is away for less than so many looks. */
const looksUntilMissing = 3;

export class FileWatch {
  readonly #file: string;
  readonly #options: FileWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #soon: NodeJS.Timeout | undefined;
  #known: string | undefined;
  /** Other contents, which may still be changing. */
  #seen: string | undefined;
  #missing = 0;

  constructor(file: string, options: FileWatchOptions) {
    this.#file = file;
    this.#options = options;
    this.#known = options.digest;
    this.#timer = setInterval(() => this.#look(), options.everyMs ?? 1_000);
    this.#timer.unref();
    this.#watch();
  }

  /** What is there now is known: somebody else is reading it. */
  note(): void {
    this.#known = digestOf(this.#file) ?? this.#known;
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    this.#watcher?.close();
  }

  /** Some file systems have no news of changes, and a folder may go: then the looks have to do. */
  #watch(): void {
    try {
      this.#watcher = watch(dirname(this.#file), { persistent: false }, () => this.#lookSoon());
      this.#watcher.on('error', () => this.#watcher?.close());
    } catch {
      this.#watcher = undefined;
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
    const found = digestOf(this.#file);
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

/** Of the contents; `undefined`: there is no file that can be read. */
export function digestOf(file: string): string | undefined {
  try {
    return hash('sha256', readFileSync(file), 'hex');
  } catch {
    return undefined;
  }
}
