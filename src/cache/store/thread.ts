/** The thread that writes the store: the event loop of the gateway never waits for the disk. */
import { parentPort, workerData } from 'node:worker_threads';
import { Claim } from './claim.ts';
import { deleteOlder, faultOf, identityOf, isFull, isUnusable, newestFile, openForWrites, pathOf } from './file.ts';
import type { FromThread, StoreFill, StoreWork, ThreadSetup, ToThread } from './protocol.ts';
import { StoreWriter } from './writer.ts';
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
  #reported = '';

  constructor(setup: ThreadSetup, post: (message: FromThread) => void) {
    this.#setup = setup;
    this.#post = post;
    this.#claim = new Claim(setup.folder, setup.run);
  }

  /** Opens the newest file, unless it is open; closes one in whose place another file stands, or none. */
  look(): void {
    const { folder, maxBytes } = this.#setup;
    try {
      const number = Math.max(1, newestFile(folder));
      const path = pathOf(folder, number);
      if (this.#open !== undefined && this.#open.identity === identityOf(path)) return;
      this.#close();
      if (!this.#claim.take()) return this.#report('another gateway uses its folder');
      const file = openForWrites(path, busyMs);
      this.#open = { number, identity: identityOf(path), file, writer: new StoreWriter(file, maxBytes) };
      deleteOlder(folder, number);
      this.#report(undefined);
    } catch (error) {
      this.#fail(error);
    }
  }

  receive(message: ToThread): void {
    if (message.kind === 'work') this.#work(message.id, message.work);
    else if (message.kind === 'close') {
      this.#close();
      this.#post({ kind: 'closed' });
    } else if (message.number === this.#open?.number) this.#replace(message.number);
  }

  #work(id: number, work: StoreWork): void {
    let isDone = false;
    let fill: StoreFill | undefined;
    try {
      this.#open?.writer.do(work);
      fill = this.#open?.writer.fill;
      isDone = fill !== undefined;
      if (isDone && work.kind === 'write') this.#report(undefined);
    } catch (error) {
      this.#fail(error);
    }
    this.#post({ kind: 'done', id, isDone, fill });
  }

  #fail(error: unknown): void {
    this.#report(faultOf(error));
    if (isFull(error)) this.#open?.writer.boundHere();
    if (isUnusable(error)) this.#replace(this.#open?.number ?? newestFile(this.#setup.folder));
  }

  /** Begins the next file in place of a damaged one. */
  #replace(number: number): void {
    this.#close();
    const { folder } = this.#setup;
    try {
      if (newestFile(folder) <= number) openForWrites(pathOf(folder, number + 1), busyMs).close();
    } catch (error) {
      this.#report(faultOf(error));
      return;
    }
    this.look();
  }

  #close(): void {
    const open = this.#open;
    this.#open = undefined;
    this.#claim.release();
    if (open === undefined) return;
    this.#report('its file was replaced');
    try {
      open.file.close();
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
