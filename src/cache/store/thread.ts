/** The thread that writes the store: no write, checkpoint or lock delays the event loop of the gateway. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import {
  deleteOlder,
  faultOf,
  identityOf,
  isBusy,
  isFull,
  isUnusable,
  newestFile,
  openDatabase,
  pathOf,
} from './file.ts';
import type { FromThread, ThreadSetup, ToThread } from './link.ts';
import { type Room, type StoreFill, type StoreWork, StoreWriter } from './rows.ts';

/** Ms between two looks at the file's place, and between two tries to open one. */
const lookMs = 1_000;

interface OpenFile {
  readonly number: number;
  readonly writer: StoreWriter;
  identity: string | undefined;
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
      if (!this.#claim.take()) return this.#close('another gateway uses its folder');
      const open = this.#open;
      if (open === undefined || open.number < number) this.#use(number);
      else if (open.identity !== identityOf(pathOf(folder, open.number)))
        this.#replace(open.number, 'its file was deleted or exchanged, and is replaced');
    } catch (error) {
      // Nothing that is written now would be found again.
      this.#close(faultOf(error));
    }
  }

  receive(message: ToThread): void {
    if (message.kind === 'work') this.#work(message.id, message.work);
    else if (message.kind === 'close') {
      this.#closeFile();
      this.#claim.release();
    } else if (message.number === this.#open?.number)
      this.#replace(message.number, 'its file is damaged, and is replaced');
  }

  #work(id: number, work: StoreWork): void {
    const isPurge = work.kind === 'purge' || work.kind === 'forget';
    // Other workers may use a newer file.
    if (isPurge) this.look();
    // A purge fails with the file alone, which the first try may replace.
    const fill = this.#try(work) ?? (isPurge ? this.#try(work) : undefined);
    if (fill !== undefined && work.kind === 'write') this.#report(undefined);
    this.#post({ kind: 'done', id, fill });
  }

  #try(work: StoreWork): StoreFill | undefined {
    try {
      return this.#open?.writer.do(work);
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
  }

  #fail(error: unknown): void {
    const [open, fault] = [this.#open, faultOf(error)];
    if (open !== undefined && isUnusable(error)) return this.#replace(open.number, fault);
    this.#report(fault);
    if (open === undefined || !isFull(error) || open.writer.boundHere()) return;
    // Not even its log can be emptied: the file makes room for a smaller one.
    this.#room = open.writer.roomInHalf;
    this.#close(fault);
    deleteOlder(this.#setup.folder, open.number + 1);
    this.#replace(open.number, fault);
  }

  /** Begins the next file in place of this one. */
  #replace(number: number, fault: string): void {
    const { folder } = this.#setup;
    this.#close(fault);
    this.#least = number + 1;
    try {
      this.#use(Math.max(newestFile(folder), this.#least));
    } catch (error) {
      this.#close(faultOf(error));
      // It may be what fills the disk.
      if (isFull(error)) deleteOlder(folder, this.#least);
    }
  }

  /** Opens this file, or the next one where it is damaged. */
  #use(number: number, isRetry = false): void {
    const { folder, maxBytes, isShared } = this.#setup;
    this.#closeFile();
    const path = pathOf(folder, number);
    try {
      const writer = new StoreWriter({ path, isShared }, maxBytes, this.#room);
      this.#open = { number, writer, identity: undefined };
      this.#open.identity = identityOf(path);
    } catch (error) {
      if (isRetry || !isUnusable(error)) throw error;
      this.#report(faultOf(error));
      this.#least = number + 1;
      return this.#use(Math.max(newestFile(folder), this.#least), true);
    }
    this.#report(undefined);
    deleteOlder(folder, number);
  }

  #close(fault: string): void {
    this.#closeFile();
    this.#report(fault);
  }

  #closeFile(): void {
    const open = this.#open;
    this.#open = undefined;
    try {
      open?.writer.close();
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

/**
 * The claim of one gateway, all its workers included, on the store's folder: two gateways would not notice each other's
 * rollbacks and purges. A shared lock on a small file, which the kernel drops with its process.
 */
export class Claim {
  readonly #path: string;
  readonly #run: string;
  #lock: DatabaseSync | undefined;
  /** The file with the lock. */
  #identity: string | undefined;

  /** `run`: the name of this start of the gateway, which its processes share. */
  constructor(folder: string, run: string) {
    this.#path = join(folder, 'claim.db');
    this.#run = run;
  }

  /** Whether the folder is this gateway's. Throws where the folder cannot be used. */
  take(): boolean {
    // Another gateway would lock another file in its place.
    if (this.#lock !== undefined && this.#identity === identityOf(this.#path)) return true;
    this.release();
    const lock = openDatabase(this.#path, { timeout: 100 });
    try {
      if (this.#isTaken(lock)) this.#lock = lock;
      this.#identity = identityOf(this.#path);
    } catch (error) {
      // Nothing in it is worth a repair.
      if (isUnusable(error)) rmSync(this.#path, { force: true });
      if (!isBusy(error) && !isUnusable(error)) throw error;
    } finally {
      if (this.#lock === undefined) lock.close();
    }
    return this.#lock !== undefined;
  }

  release(): void {
    this.#lock?.close();
    this.#lock = undefined;
  }

  #isTaken(lock: DatabaseSync): boolean {
    // With a log of writes, readers would not keep other gateways out.
    lock.exec('pragma journal_mode = delete; create table if not exists claim (run text not null)');
    if (this.#isOurs(lock)) return true;
    try {
      // Busy while a process of another gateway, or a faster one of this, holds the shared lock.
      lock.exec('begin exclusive');
      lock.exec('delete from claim');
      lock.prepare('insert into claim (run) values (?)').run(this.#run);
      lock.exec('commit');
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    return this.#isOurs(lock);
  }

  /** Leaves the shared lock in place where the claim is ours. */
  #isOurs(lock: DatabaseSync): boolean {
    lock.exec('begin');
    if (lock.prepare('select run from claim').get()?.['run'] === this.#run) return true;
    lock.exec('rollback');
    return false;
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
