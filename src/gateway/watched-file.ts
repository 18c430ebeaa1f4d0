/**
 * A file that is read again when it changes. Its folder is watched, because editors and tools put another file in its
 * place; and it is looked at every second as well, because a link may lead to it (Kubernetes swaps one for a whole folder),
 * and because some file systems tell nothing.
 */
import { readFile, stat } from 'node:fs/promises';
import { watch, type FSWatcher } from 'node:fs';
import { dirname } from 'node:path';

/** Whoever writes in several steps has done so by then. */
const settleMs = 50;
const pollMs = 1_000;

export interface WatchedFileEvents {
  /** The file holds something else than when it was last read; once per text. */
  onText(text: string): void;
  /** It cannot be read; once per reason. */
  onFailure(reason: string): void;
}

export class WatchedFile {
  readonly #file: string;
  readonly #events: WatchedFileEvents;
  readonly #watcher: FSWatcher | undefined;
  readonly #poll: NodeJS.Timeout;
  #soon: NodeJS.Timeout | undefined;
  #text: string;
  #stamp = '';
  #failure: string | undefined;
  #isReading = false;
  #isClosed = false;

  /** `text`: what was read of it last. */
  constructor(file: string, text: string, events: WatchedFileEvents) {
    this.#file = file;
    this.#text = text;
    this.#events = events;
    this.#watcher = watchFolder(dirname(file), () => this.#look(settleMs));
    this.#poll = setInterval(() => this.#look(0), pollMs);
    this.#poll.unref();
  }

  close(): void {
    this.#isClosed = true;
    this.#watcher?.close();
    clearInterval(this.#poll);
    clearTimeout(this.#soon);
  }

  /** A bound on how often it is read, not only a wait: changes that come meanwhile are in the same reading. */
  #look(afterMs: number): void {
    if (this.#soon !== undefined || this.#isClosed) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      void this.#read();
    }, afterMs);
    this.#soon.unref();
  }

  async #read(): Promise<void> {
    if (this.#isReading) return this.#look(settleMs);
    this.#isReading = true;
    try {
      const { ino, size, ctimeNs, mtimeNs } = await stat(this.#file, { bigint: true });
      const stamp = `${ino} ${size} ${ctimeNs} ${mtimeNs}`;
      if (stamp !== this.#stamp) this.#take(await readFile(this.#file, 'utf8'), stamp);
    } catch (error) {
      this.#stamp = '';
      this.#fail((error as NodeJS.ErrnoException).code ?? String(error));
    } finally {
      this.#isReading = false;
    }
  }

  #take(text: string, stamp: string): void {
    this.#stamp = stamp;
    this.#failure = undefined;
    if (text === this.#text || this.#isClosed) return;
    this.#text = text;
    this.#events.onText(text);
  }

  #fail(reason: string): void {
    if (reason === this.#failure || this.#isClosed) return;
    this.#failure = reason;
    this.#events.onFailure(reason);
  }
}

/** No watcher is no reason to fail: there is the look every second. */
function watchFolder(folder: string, onChange: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, { persistent: false }, onChange);
    return watcher.on('error', () => watcher.close());
  } catch {
    return undefined;
  }
}
