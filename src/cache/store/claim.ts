import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { identityOf, isBusy, isUnusable, openDatabase } from './file.ts';

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
