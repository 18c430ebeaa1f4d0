/** A file of text that is read again when it changes, and tells why where it cannot be read. */
import { readFile, stat } from 'node:fs/promises';
import { FolderWatch } from '../config/folder-watch.ts';

/** Whoever writes in several steps has done so by then. */
const settleMs = 50;
const everyMs = 1_000;

export interface WatchedFileEvents {
  /** The file holds something else than when it was last read; once per text. */
  onText(text: string): void;
  /** It cannot be read; once per reason. */
  onFailure(reason: string): void;
}

export class WatchedFile {
  readonly #file: string;
  readonly #events: WatchedFileEvents;
  readonly #folder: FolderWatch;
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
    this.#folder = new FolderWatch([file], { settleMs, everyMs, onLook: () => void this.#read() });
  }

  close(): void {
    this.#isClosed = true;
    this.#folder.close();
  }

  async #read(): Promise<void> {
    if (this.#isClosed) return;
    if (this.#isReading) return this.#folder.lookSoon();
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
