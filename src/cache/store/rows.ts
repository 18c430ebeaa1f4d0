/** The rows of one file: as every process looks them up, and as the thread writes them. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { compressedRecord } from '../record.ts';
import type { ScopeMark } from '../purge.ts';
import {
  type FilePlace,
  isUnusable,
  logBound,
  logBytesOf,
  LogInUseError,
  numberOf,
  openForReads,
  openForWrites,
  OversizedFileError,
  pageBound,
  pageBytes,
} from './file.ts';

/** Bytes of a read's name. */
export const nameBytes = 16;

/** A condition: a purge covers the reference `r`. */
const isPurged = `exists (
  select 1 from purges p where p.upto >= r.id
    and (p.kind = 0 or (p.kind = 1 and p.mark = r.read) or (p.kind = 2 and p.mark = r.account))
)`;

/** The row of a read. */
export interface StoredRow {
  readonly id: number;
  readonly digest: string;
  readonly term: string;
  /** The reference's text behind the digest. */
  readonly rest: string;
  /** `null`: the answer was dropped. */
  readonly record: Uint8Array<ArrayBuffer> | null;
}

/** Looks up rows of one file without a wait; no method throws but the constructor. */
export class StoreReader {
  readonly #sql: ReturnType<typeof lookUpsOf>;

  /** Throws where the file cannot be opened. */
  constructor(place: FilePlace) {
    this.#sql = openForReads(place, lookUpsOf);
  }

  /** `unavailable`: the file was busy, or failed. `damaged`: no process can use it. */
  find(name: Uint8Array): StoredRow | 'absent' | 'damaged' | 'unavailable' {
    try {
      const row = this.#sql.find.get(name);
      return row === undefined ? 'absent' : (row as unknown as StoredRow);
    } catch (error) {
      return isUnusable(error) ? 'damaged' : 'unavailable';
    }
  }

  /** The epochs of a ledger as fields; `undefined`: the file gives no answer. */
  fields(ledger: string): Readonly<Record<string, string>> | undefined {
    const rows = all(this.#sql.fields, ledger);
    return rows && Object.fromEntries(rows.map(({ field, value }) => [String(field), String(value)]));
  }

  /** Processes of `run` that recorded the epoch since `sinceMs`, of the system's clock. */
  members(ledger: string, epoch: string, run: string, sinceMs: number): readonly number[] | undefined {
    return all(this.#sql.members, ledger, epoch, run, sinceMs)?.map(({ pid }) => Number(pid));
  }

  close(): void {
    this.#sql.file.close();
  }
}

function lookUpsOf(file: DatabaseSync) {
  return {
    file,
    find: file.prepare(
      `select r.id, r.digest, r.term, r.rest, a.record from refs r left join answers a on a.digest = r.digest
        where r.name = ? and not ${isPurged}`,
    ),
    fields: file.prepare('select field, value from terms where ledger = ?'),
    members: file.prepare('select pid from beats where ledger = ? and term = ? and run = ? and at_ms >= ?'),
  };
}

function all(statement: StatementSync, ...values: readonly (string | number)[]) {
  try {
    return statement.all(...values);
  } catch {
    // The caller's wait for an answer goes on; look-ups report the fault.
    return undefined;
  }
}

/** An answer in a batch, whose bytes have `nameBytes` of the read's name, then the record; and its read's reference. */
export interface StoredWrite {
  /** Offset of the name in the batch's bytes. */
  readonly at: number;
  /** Bytes of the record behind the name. */
  readonly length: number;
  readonly digest: string;
  /** The epoch in which the answer was read. */
  readonly term: string;
  /** The reference's text behind the digest. */
  readonly rest: string;
  /** Marks of the read, by which a purge finds it. */
  readonly read: number;
  readonly account: number;
  /** The present record is damaged. */
  readonly overwrite: boolean;
}

/** Answers that are written in one transaction. */
export interface WriteBatch {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly writes: readonly StoredWrite[];
  /** References that were used, whose rows move behind newer ones. */
  readonly renewals: readonly Renewal[];
}

/** A reference that was used while it was among the older half. */
export interface Renewal {
  readonly name: Uint8Array;
  /** The row's `id` when it was used. */
  readonly id: number;
}

/** A work for the thread. Each is answered once, in order. */
export type StoreWork =
  | { readonly kind: 'write'; readonly batch: WriteBatch }
  /** Hides the references with these marks. */
  | { readonly kind: 'purge'; readonly marks: readonly ScopeMark[] }
  /** Deletes one read's reference. */
  | { readonly kind: 'forget'; readonly name: Uint8Array }
  /** Writes or deletes fields of a ledger's epochs. */
  | { readonly kind: 'put field'; readonly ledger: string; readonly field: string; readonly value: string }
  | { readonly kind: 'delete fields'; readonly ledger: string; readonly fields: readonly string[] }
  /** Records this process as a member of the epoch. */
  | { readonly kind: 'beat'; readonly ledger: string; readonly epoch: string; readonly run: string };

/** The fill of the file. */
export interface StoreFill {
  /** Bytes of pages in use. */
  readonly bytes: number;
  /** References with a lower `id` are among the older half. */
  readonly middle: number;
}

/** Rows and bytes that one step drops: a write of another process waits for a step of a few milliseconds. */
const rowsAtOnce = 256;
const bytesAtOnce = 2 * 1024 * 1024;
/** Purges at most; further ones hide everything of before. */
const mostPurges = 64;

/** Beats of processes that are gone are deleted after this many ms. */
const oldestBeatMs = 3_600_000;

/** Longest wait in ms for another process's write. */
const busyMs = 5_000;
/** Longest wait for room in the log, and ms between two tries. */
const logWaitMs = 1_000;
const pauseMs = 5;
/** Transactions that give way to other processes, one after another. */
const mostTries = 16;
const pause = new Int32Array(new SharedArrayBuffer(4));
/** Ms after which a disk that was full is tried again. */
const roomMs = 60_000;
const leastRoomPages = 64;

/** Pages for which the disk has room, until it is tried again. */
export interface Room {
  readonly pages: number;
  /** On the clock of `performance.now()`. */
  readonly untilMs: number;
}

/** Writes one file, as its thread: every method blocks. Throws errors of SQLite; then nothing of the work is kept. */
export class StoreWriter {
  readonly #path: string;
  readonly #mostLogBytes: number;
  readonly #mostPages: number;
  /** The bound after the disk gave no more, until it is tried again. */
  #room: Room | undefined;
  readonly #file: DatabaseSync;
  readonly #sql: ReturnType<typeof statementsOf>;

  /** `room`: bytes for which the disk had room lately. Throws where the file cannot be opened, or is above its bound. */
  constructor(place: FilePlace, maxBytes: number, room?: Room) {
    this.#path = place.path;
    this.#mostLogBytes = logBound(maxBytes);
    this.#mostPages = pageBound(maxBytes);
    this.#room = room;
    this.#sql = openForWrites(place, busyMs, (file) => {
      if (numberOf(file, 'page_count') > this.#mostPages) throw new OversizedFileError('the file is above its bound');
      const checkpointPages = Math.min(1_000, Math.floor(this.#mostLogBytes / 4 / pageBytes));
      file.exec(`pragma max_page_count = ${this.#mostPages}; pragma wal_autocheckpoint = ${checkpointPages}`);
      return statementsOf(file);
    });
    this.#file = this.#sql.file;
  }

  close(): void {
    this.#file.close();
  }

  get fill(): StoreFill {
    return { bytes: this.#usedPages * pageBytes, middle: this.#middle };
  }

  /** Returns the fill afterwards. */
  do(work: StoreWork): StoreFill {
    if (work.kind === 'write') this.#makeRoom(work.batch);
    // A purge that was confirmed outlives a power cut.
    if (work.kind === 'purge' || work.kind === 'forget') this.#file.exec('pragma synchronous = full');
    try {
      this.#transact(() => this.#run(work), work.kind === 'write');
    } finally {
      this.#file.exec('pragma synchronous = normal');
    }
    return this.fill;
  }

  /**
   * The disk has no room for a page more: for a while the oldest rows make room. Returns whether they can: not where even
   * the log cannot be emptied.
   */
  boundHere(): boolean {
    try {
      this.#room = { pages: numberOf(this.#file, 'page_count'), untilMs: performance.now() + roomMs };
      this.#emptyLog();
      return true;
    } catch {
      return false;
    }
  }

  /** A bound for the next file, where this one took the whole disk; `undefined`: the next file finds its own. */
  get roomInHalf(): Room | undefined {
    try {
      const pages = Math.floor(numberOf(this.#file, 'page_count') / 2);
      return { pages: Math.max(leastRoomPages, pages), untilMs: performance.now() + roomMs };
    } catch {
      return undefined;
    }
  }

  /** Pages at most, now. */
  get #pageBound(): number {
    if (this.#room !== undefined && performance.now() > this.#room.untilMs) this.#room = undefined;
    return Math.min(this.#mostPages, this.#room?.pages ?? Infinity);
  }

  /**
   * Empties the log before it is too large. With several writers it may never be read to its end otherwise, and grows
   * without a bound. Another process may be emptying it.
   */
  #boundLog(): void {
    const endMs = performance.now() + logWaitMs;
    while (this.#isLogFull && !this.#emptyLog()) {
      if (performance.now() > endMs) throw new LogInUseError('the log is in use');
      Atomics.wait(pause, 0, 0, pauseMs);
    }
  }

  get #isLogFull(): boolean {
    return logBytesOf(this.#path) > this.#mostLogBytes / 2;
  }

  #emptyLog(): boolean {
    return this.#file.prepare('pragma wal_checkpoint(truncate)').get()?.['busy'] === 0;
  }

  #run(work: StoreWork): void {
    const sql = this.#sql;
    switch (work.kind) {
      case 'write':
        this.#write(work.batch);
        break;
      case 'purge':
        this.#purge(work.marks);
        break;
      case 'forget':
        sql.dropReference.run(work.name);
        break;
      case 'put field':
        sql.putField.run(work.ledger, work.field, work.value);
        break;
      case 'delete fields':
        for (const field of work.fields) sql.dropField.run(work.ledger, field);
        break;
      case 'beat':
        sql.dropBeats.run(Date.now() - oldestBeatMs);
        sql.beat.run(work.ledger, work.epoch, work.run, process.pid, Date.now());
    }
  }

  #write({ bytes, writes, renewals }: WriteBatch): void {
    const middle = this.#middle;
    let id = this.#newest;
    for (const renewal of renewals) this.#renew(renewal, (id += 1), middle);
    for (const write of writes) {
      const end = write.at + nameBytes;
      this.#writeAnswer(write, bytes.subarray(end, end + write.length), (id += 1), middle);
      const name = bytes.subarray(write.at, end);
      this.#sql.dropReference.run(name);
      this.#sql.addReference.run(id, name, write.digest, write.term, write.rest, write.read, write.account);
    }
  }

  #writeAnswer({ digest, overwrite }: StoredWrite, record: Uint8Array, id: number, middle: number): void {
    const sql = this.#sql;
    const held = overwrite ? undefined : sql.findAnswer.get(digest)?.['id'];
    if (held === undefined) {
      sql.dropAnswer.run(digest);
      sql.addAnswer.run(id, digest, compressedRecord(Buffer.from(record.buffer, record.byteOffset, record.length)));
    } else if (Number(held) < middle) sql.moveAnswer.run(id, digest);
  }

  /** A row that was replaced or purged meanwhile stays as it is. */
  #renew({ name, id: before }: Renewal, id: number, middle: number): void {
    const digest = this.#sql.findReference.get(name, before)?.['digest'];
    if (digest === undefined) return;
    this.#sql.moveReference.run(id, before);
    const held = this.#sql.findAnswer.get(digest)?.['id'];
    if (held !== undefined && Number(held) < middle) this.#sql.moveAnswer.run(id, digest);
  }

  #purge(marks: readonly ScopeMark[]): void {
    const upto = this.#newest;
    for (const { kind, mark } of marks) this.#sql.purge.run(kind, mark, upto);
    const isMany = Number(this.#sql.countPurges.get()?.['count']) > mostPurges;
    if (isMany || marks.some(({ kind }) => kind === 0)) {
      this.#file.exec('delete from purges');
      this.#sql.purge.run(0, 0, upto);
    }
  }

  /** Drops the rows of the lowest `id` until the batch fits, in steps. */
  #makeRoom({ bytes, writes }: WriteBatch): void {
    // A record spoils at most a page of its own, and each row a part of some pages of the indices.
    const needed = Math.ceil(bytes.length / pageBytes) + writes.length + 16;
    for (let steps = 0; this.#usedPages + needed > this.#pageBound && steps < 1_000; steps += 1) {
      const upTo = this.#sql.lastOfStep.get({ rows: rowsAtOnce, bytes: bytesAtOnce })?.['id'] ?? null;
      if (upTo === null) return;
      this.#transact(() => {
        this.#sql.dropReferences.run(upTo);
        this.#sql.dropAnswers.run(upTo);
        this.#sql.dropPurges.run(upTo);
      });
    }
  }

  /** `isBounded`: waits for room in the log, which this transaction alone may exceed. */
  #transact(change: () => void, isBounded = true): void {
    if (isBounded) this.#beginBounded();
    else this.#file.exec('begin immediate');
    try {
      change();
      this.#file.exec('commit');
    } catch (error) {
      if (this.#file.isTransaction) this.#file.exec('rollback');
      throw error;
    }
  }

  #beginBounded(): void {
    for (let tries = 0; tries < mostTries; tries += 1) {
      this.#boundLog();
      this.#file.exec('begin immediate');
      if (!this.#isLogFull) return;
      // Other writers have been faster.
      this.#file.exec('rollback');
    }
    throw new LogInUseError('other processes fill the log');
  }

  get #usedPages(): number {
    return numberOf(this.#file, 'page_count') - numberOf(this.#file, 'freelist_count');
  }

  get #oldest(): number {
    return Number(this.#sql.oldest.get()?.['id'] ?? 1);
  }

  get #newest(): number {
    return Number(this.#sql.newest.get()?.['id'] ?? 0);
  }

  get #middle(): number {
    return Math.floor((this.#oldest + this.#newest) / 2);
  }
}

function statementsOf(file: DatabaseSync) {
  const sql = (text: string): StatementSync => file.prepare(text);
  return {
    file,
    addReference: sql('insert into refs (id, name, digest, term, rest, read, account) values (?, ?, ?, ?, ?, ?, ?)'),
    dropReference: sql('delete from refs where name = ?'),
    findReference: sql(`select r.digest from refs r where r.name = ? and r.id = ? and not ${isPurged}`),
    moveReference: sql('update refs set id = ? where id = ?'),
    dropReferences: sql('delete from refs where id <= ?'),
    addAnswer: sql('insert into answers (id, digest, record) values (?, ?, ?)'),
    dropAnswer: sql('delete from answers where digest = ?'),
    findAnswer: sql('select id from answers where digest = ?'),
    moveAnswer: sql('update answers set id = ? where digest = ?'),
    dropAnswers: sql('delete from answers where id <= ?'),
    purge: sql('insert into purges (kind, mark, upto) values (?, ?, ?) on conflict do update set upto = excluded.upto'),
    countPurges: sql('select count(*) as count from purges'),
    dropPurges: sql('delete from purges where upto <= ?'),
    /** The last `id` that one step drops, whatever gaps there are. */
    lastOfStep: sql(
      `select min(id) as id from (
        select max(id) as id from (select id from refs order by id limit :rows)
        union all select max(id) from (
          select id, sum(bytes) over (order by id) - bytes as earlier
            from (select id, length(record) as bytes from answers order by id limit :rows)
        ) where earlier < :bytes
      )`,
    ),
    putField: sql(
      'insert into terms (ledger, field, value) values (?, ?, ?) on conflict do update set value = excluded.value',
    ),
    dropField: sql('delete from terms where ledger = ? and field = ?'),
    beat: sql(
      `insert into beats (ledger, term, run, pid, at_ms) values (?, ?, ?, ?, ?)
        on conflict do update set at_ms = excluded.at_ms`,
    ),
    dropBeats: sql('delete from beats where at_ms < ?'),
    oldest: sql('select min(id) as id from (select min(id) as id from refs union all select min(id) from answers)'),
    // No row may get an `id` that a purge has hidden.
    newest: sql(
      `select max(id) as id from (select max(id) as id from refs union all select max(id) from answers
        union all select max(upto) from purges)`,
    ),
  };
}
