/**
 * Tells when a file has other contents. Only contents count, and only when they have stopped changing: a file that is
 * half written may be a valid config of another meaning.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { FolderWatch } from './folder-watch.ts';

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
  readonly #folder: FolderWatch;
  #known: string | undefined;
  /** Other contents, which may still be changing. */
  #seen: string | undefined;
  #missing = 0;

  constructor(file: string, options: FileWatchOptions) {
    this.#file = file;
    this.#options = options;
    this.#known = options.digest;
    const { everyMs = 1_000 } = options;
    this.#folder = new FolderWatch([file], { settleMs, everyMs, onLook: () => this.#look() });
  }

  /** What is there now is known: somebody else is reading it. */
  note(): void {
    this.#known = digestOf(this.#file) ?? this.#known;
  }

  close(): void {
    this.#folder.close();
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
      this.#folder.lookSoon();
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
