/**
 * A file of text that is read again when it has changed, and tells why where it cannot be read. What is there counts when
 * it has stopped changing: a file that is half written may be in order, with another meaning.
 */
import { readFile, stat } from 'node:fs/promises';
import { FolderWatch } from '../config/folder-watch.ts';

/** What stays the same for so long is whole. */
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
  /** Another text, which may still be changing. */
  #seen: string | undefined;
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
      if (stamp === this.#stamp) this.#take();
      else this.#look(await readFile(this.#file, 'utf8'), stamp);
    } catch (error) {
      this.#stamp = '';
      this.#seen = undefined;
      this.#fail((error as NodeJS.ErrnoException).code ?? String(error));
    } finally {
      this.#isReading = false;
    }
  }

  #look(text: string, stamp: string): void {
    this.#stamp = stamp;
    this.#failure = undefined;
    this.#seen = text === this.#text ? undefined : text;
    if (this.#seen !== undefined && !this.#isClosed) this.#folder.lookSoon();
  }

  #take(): void {
    const text = this.#seen;
    if (text === undefined || this.#isClosed) return;
    this.#seen = undefined;
    this.#text = text;
    this.#events.onText(text);
  }

  #fail(reason: string): void {
    if (reason === this.#failure || this.#isClosed) return;
    this.#failure = reason;
    this.#events.onFailure(reason);
  }
}
