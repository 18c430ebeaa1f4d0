/**
 * Files of operators (config, keys, certificates): read whole, watched for changes; and files that hold one secret each, such
 * as those that Docker, systemd and Kubernetes mount.
 */
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, statSync, watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError } from './problem.ts';

interface Watch {
  /** Called once the files have other contents that no longer change. */
  readonly onChange: () => void;
  /** Called once when a file is missing for three looks in a row. Its return is a change, whatever it holds. */
  readonly onMissing: () => void;
  /** Interval of looks without a notification of the file system. Default 1,000. */
  readonly everyMs?: number;
}

/** Contents unchanged for this long are complete: writers take several steps, pairs of files two. */
const settleMs = 100;
/** A replaced file is missing for fewer looks. */
const looksUntilMissing = 3;

/**
 * Files whose contents, as they are when this is made, their owner reads; later contents are reported. The watch is on
 * their folders, because editors replace the file and Kubernetes swaps a link beside it, and reads at an interval, because
 * some file systems notify nothing. Only settled contents count: a half-written file may be valid with another meaning.
 * Secrets that these files refer to are watched as they were read; one that cannot be read is a change as well.
 */
export class WatchedFiles {
  readonly names: readonly string[];
  #watch: Watch | undefined;
  readonly #watchers = new Map<string, FSWatcher | undefined>();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  /** Digest of the contents that the owner has. */
  #known: string | undefined;
  /** Digests of the secrets that the owner has, by file. */
  readonly #secrets = new Map<string, string>();
  /** Other contents, which may still be changing. */
  #seen: string | undefined;
  #missing = 0;

  constructor(names: readonly string[]) {
    this.names = names;
    this.#known = digestOf(names);
  }

  /** The file as text. Throws ConfigError when it is unreadable. */
  static read(file: string): string {
    try {
      return readFileSync(file, 'utf8');
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
      const why = code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : code;
      throw new ConfigError([{ where: { kind: 'nowhere' }, path: [], message: `cannot read ${file}: ${why}` }]);
    }
  }

  watch(watch: Watch): void {
    this.#watch = watch;
    this.#timer = setInterval(() => this.#look(), watch.everyMs ?? 1_000).unref();
    for (const name of [...this.names, ...this.#secrets.keys()]) this.#watchFolder(dirname(name));
  }

  /** Reads a secret that the files refer to, and watches it from then on. Throws as `readSecretFile`. */
  readSecret(file: string): string {
    if (this.#watch !== undefined) this.#watchFolder(dirname(file));
    this.#secrets.set(file, unreadable);
    const secret = readSecretFile(file);
    this.#secrets.set(file, digestOfSecret(secret));
    return secret;
  }

  /** Ends the watch on secrets: the owner reads the files anew, and with them the secrets that they refer to now. */
  forgetSecrets(): void {
    this.#secrets.clear();
  }

  /** Takes the present contents as no change: the caller reads them. While one is unreadable, its return is a change. */
  note(): void {
    this.#known = digestOf(this.names);
  }

  /** Takes these contents of a single file as no change: the owner has them. */
  know(text: string): void {
    this.#known = createHash('sha256').update(text).digest('hex');
    this.#seen = undefined;
  }

  /** Takes the contents as a change whatever they are: the owner could not use them. */
  forget(): void {
    this.#known = undefined;
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    for (const watcher of this.#watchers.values()) watcher?.close();
  }

  /** Once. Without a watchable folder the interval remains. */
  #watchFolder(folder: string): void {
    if (this.#watchers.has(folder)) return;
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#lookSoon());
      this.#watchers.set(
        folder,
        watcher.on('error', () => watcher.close()),
      );
    } catch {
      this.#watchers.set(folder, undefined);
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
    const found = digestOf(this.names);
    if (found === undefined) {
      this.#missing += 1;
      if (this.#missing === looksUntilMissing) {
        this.forget();
        this.#watch?.onMissing();
      }
      return;
    }
    this.#missing = 0;
    const secrets = new Map([...this.#secrets.keys()].map((file) => [file, digestOfFile(file)]));
    const all = [found, ...secrets.values()].join();
    if (all === [this.#known, ...this.#secrets.values()].join()) {
      this.#seen = undefined;
    } else if (all === this.#seen) {
      this.#known = found;
      for (const [file, digest] of secrets) this.#secrets.set(file, digest);
      this.#seen = undefined;
      this.#watch?.onChange();
    } else {
      this.#seen = all;
      this.#lookSoon();
    }
  }
}

/** SHA-256 of the files' contents together, in hex; `undefined` when one is unreadable. */
function digestOf(names: readonly string[]): string | undefined {
  try {
    const digest = createHash('sha256');
    for (const name of names) digest.update(readFileSync(name));
    return digest.digest('hex');
  } catch {
    return undefined;
  }
}

/** In place of the digest of a secret. */
const unreadable = 'unreadable';

function digestOfFile(file: string): string {
  try {
    return digestOfSecret(readSecretFile(file));
  } catch {
    return unreadable;
  }
}

function digestOfSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/** Bytes of a secret: a larger file is another one by mistake. */
const mostBytes = 64 * 1024;

/** The text of the file without its final line break. Throws an Error that names the file, and quotes nothing of it. */
export function readSecretFile(file: string): string {
  const bytes = readBounded(file);
  if (bytes.length > mostBytes) throw new Error(`${file} has more than ${mostBytes / 1024} KiB`);
  return decode(bytes, file).replace(/\r?\n$/, '');
}

function readBounded(file: string): Buffer {
  try {
    // To open a pipe without a writer would block.
    if (!statSync(file).isFile()) throw new Error('it is no regular file');
    const opened = openSync(file, 'r');
    try {
      // The size that the file reports is no bound: it may grow, and files of some file systems report none.
      const bytes = Buffer.alloc(mostBytes + 1);
      let length = 0;
      for (let read = -1; read !== 0 && length < bytes.length; length += read)
        read = readSync(opened, bytes, length, bytes.length - length, null);
      return bytes.subarray(0, length);
    } finally {
      closeSync(opened);
    }
  } catch (error) {
    const { code, message: cause } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : (code ?? cause);
    throw new Error(`cannot read ${file}: ${why}`, { cause: error });
  }
}

function decode(bytes: Buffer, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new Error(`${file} is not text in UTF-8`, { cause: error });
  }
}
