/** The thread that writes the store: no write, checkpoint or lock delays the event loop of the gateway. */
import { parentPort, workerData } from 'node:worker_threads';
import { Claim } from './claim.ts';
import { deleteOlder, faultOf, identityOf, isFull, isUnusable, newestFile, openForWrites, pathOf } from './file.ts';
import type { FromThread, StoreFill, StoreWork, ThreadSetup, ToThread } from './link.ts';
import { StoreWriter, type Room } from './writer.ts';
import type { DatabaseSync } from 'node:sqlite';

/** Longest wait in ms for another process's write. */
const busyMs = 5_000;
/** Ms between two looks at the file's place, and between two tries to open one. */
const lookMs = 1_000;

/** An open file, and its identity at the time. */
interface OpenFile {
  readonly number: number;
  readonly identity: string | undefined;
  readonly file: DatabaseSync;
  readonly writer: StoreWriter;
}

/** Opens the store, writes to it, and replaces a file that is damaged. Reports each change of its state. */
class StoreThread {
  readonly #setup: ThreadSetup;
  readonly #post: (message: FromThread) => void;
  readonly #claim: Claim;
  #open: OpenFile | undefined;
  /** Files before this one were given up. */
  #least = 1;
  /** The bound of the next file, after one that was given up on a full disk. */
  #room: Room | undefined;
  #reported = '';

  constructor(setup: ThreadSetup, post: (message: FromThread) => void) {
    this.#setup = setup;
    this.#post = post;
    this.#claim = new Claim(setup.folder, setup.run);
  }

  /** Opens the newest file, unless it is open. A file that is not where it was opened is given up. */
  look(): void {
    const { folder } = this.#setup;
    try {
      const number = Math.max(this.#least, newestFile(folder));
      if (!this.#claim.take()) {
        this.#close('another gateway uses its folder');
        return this.#report('another gateway uses its folder');
      }
      const open = this.#open;
      if (open === undefined || open.number < number) this.#use(number);
      else if (open.identity !== identityOf(pathOf(folder, open.number))) {
        this.#close('its file was deleted or exchanged, and is replaced');
        this.#replace(open.number);
      }
    } catch (error) {
      // Nothing that is written now would be found again.
      this.#close(faultOf(error));
      this.#fail(error);
    }
  }

  receive(message: ToThread): void {
    if (message.kind === 'work') this.#work(message.id, message.work);
    else if (message.kind === 'close') this.#end();
    else if (message.number === this.#open?.number) this.#replace(message.number);
  }

  #work(id: number, work: StoreWork): void {
    const isPurge = work.kind === 'purge' || work.kind === 'forget';
    // Other workers may use a newer file.
    if (isPurge) this.look();
    // A purge fails with the file alone, which the first try may replace.
    const isDone = this.#try(work) || (isPurge && this.#try(work));
    if (isDone && work.kind === 'write') this.#report(undefined);
    this.#post({ kind: 'done', id, isDone, fill: this.#fill() });
  }

  #try(work: StoreWork): boolean {
    try {
      this.#open?.writer.do(work);
      return this.#open !== undefined;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  #fill(): StoreFill | undefined {
    try {
      return this.#open?.writer.fill;
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
  }

  #fail(error: unknown): void {
    this.#report(faultOf(error));
    const open = this.#open;
    if (open === undefined) return;
    if (isUnusable(error)) this.#replace(open.number);
    else if (isFull(error) && !open.writer.boundHere()) this.#startSmaller(open);
  }

  /** Gives up a file whose log cannot be emptied, because the disk is full. */
  #startSmaller({ number, writer }: OpenFile): void {
    try {
      this.#room = writer.roomInHalf;
    } catch {
      // The next file finds its bound itself.
    }
    this.#close();
    this.#deleteBelow(number + 1);
    this.#replace(number);
  }

  /** Begins the next file in place of this one. */
  #replace(number: number): void {
    this.#close();
    this.#least = number + 1;
    try {
      this.#use(Math.max(newestFile(this.#setup.folder), this.#least));
    } catch (error) {
      this.#report(faultOf(error));
      // It may be what fills the disk.
      if (isFull(error)) this.#deleteBelow(this.#least);
    }
  }

  /** Opens this file, or the next one where it is damaged. */
  #use(number: number, isRetry = false): void {
    const { folder, maxBytes, isShared } = this.#setup;
    this.#close();
    const path = pathOf(folder, number);
    let file: DatabaseSync | undefined;
    try {
      file = openForWrites({ path, isShared }, busyMs);
      const writer = new StoreWriter(file, path, maxBytes, this.#room);
      this.#open = { number, identity: identityOf(path), file, writer };
    } catch (error) {
      file?.close();
      if (isRetry || !isUnusable(error)) throw error;
      this.#report(faultOf(error));
      this.#least = number + 1;
      return this.#use(Math.max(newestFile(folder), this.#least), true);
    }
    this.#report(undefined);
    this.#deleteBelow(number);
  }

  #deleteBelow(number: number): void {
    try {
      deleteOlder(this.#setup.folder, number);
    } catch {
      // The next file that is opened deletes what is left.
    }
  }

  #end(): void {
    this.#closeFile();
    this.#claim.release();
  }

  #close(fault = 'its file was replaced'): void {
    if (this.#open === undefined) return;
    this.#closeFile();
    this.#report(fault);
  }

  #closeFile(): void {
    const open = this.#open;
    this.#open = undefined;
    try {
      open?.file.close();
    } catch {
      // A damaged file fails to close as well; nothing of it is used any more.
    }
  }

  #report(fault: string | undefined): void {
    const number = this.#open?.number;
    const state = `${number} ${fault}`;
    if (this.#reported === state) return;
    this.#reported = state;
    this.#post({ kind: 'file', number, fault });
  }
}

if (parentPort !== null) {
  const port = parentPort;
  const thread = new StoreThread(workerData as ThreadSetup, (message) => port.postMessage(message));
  thread.look();
  const timer = setInterval(() => thread.look(), lookMs);
  port.on('message', (message: ToThread) => {
    thread.receive(message);
    if (message.kind !== 'close') return;
    clearInterval(timer);
    port.close();
  });
}
