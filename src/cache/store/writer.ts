import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { compressedRecord } from '../record.ts';
import type { ScopeMark } from '../purge/purge-scope.ts';
import { isPurged, numberOf, pageBytes } from './file.ts';
import type { Renewal, StoredWrite, StoreFill, StoreWork, WriteBatch } from './protocol.ts';

/** Bytes of a read's name. */
export const nameBytes = 16;
/** The part of `maxBytes` for SQLite's log of writes, and its most bytes. */
const logShare = 1 / 8;
const mostLogBytes = 64 * 1024 * 1024;
/** Rows that one step drops: a write of another process waits for a step of a few milliseconds. */
const rowsAtOnce = 256;
/** Purges at most; further ones hide everything of before. */
const mostPurges = 64;

/** Beats of processes that are gone are deleted after this many ms. */
const oldestBeatMs = 3_600_000;

/** Bytes of pages at most, so that the file and its log stay below `maxBytes`. */
export function pageBound(maxBytes: number): number {
  return Math.floor((maxBytes - Math.min(mostLogBytes, maxBytes * logShare)) / pageBytes);
}

/** Writes to an open file, as its thread: every method blocks. Throws errors of SQLite; then nothing of the work is kept. */
export class StoreWriter {
  readonly #file: DatabaseSync;
  /** Lower than `pageBound` once the disk gave no more. */
  #mostPages: number;
  readonly #sql: ReturnType<typeof statementsOf>;

  constructor(file: DatabaseSync, maxBytes: number) {
    this.#file = file;
    this.#mostPages = pageBound(maxBytes);
    this.#sql = statementsOf(file);
    file.exec(`pragma max_page_count = ${this.#mostPages}`);
  }

  get fill(): StoreFill {
    return { bytes: this.#usedPages * pageBytes, middle: this.#middle };
  }

  do(work: StoreWork): void {
    if (work.kind === 'write') this.#makeRoom(work.batch);
    // A purge that was confirmed outlives a power cut.
    if (work.kind === 'purge' || work.kind === 'forget') this.#file.exec('pragma synchronous = full');
    try {
      this.#transact(() => this.#run(work));
    } finally {
      this.#file.exec('pragma synchronous = normal');
    }
  }

  /** The disk has no room for a page more: the oldest rows make room from now on. */
  boundHere(): void {
    this.#mostPages = Math.min(this.#mostPages, numberOf(this.#file, 'page_count'));
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
      case 'put terms':
        for (const [field, value] of Object.entries(work.fields)) sql.putTerm.run(work.ledger, field, value);
        break;
      case 'delete terms':
        for (const field of work.fields) sql.dropTerm.run(work.ledger, field);
        break;
      case 'beat':
        sql.dropBeats.run(Date.now() - oldestBeatMs);
        sql.beat.run(work.ledger, work.term, work.run, process.pid, Date.now());
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
    for (let steps = 0; this.#usedPages + needed > this.#mostPages && steps < 1_000; steps += 1) {
      const [oldest, newest] = [this.#oldest, this.#newest];
      if (oldest > newest) return;
      const upTo = oldest + rowsAtOnce;
      this.#transact(() => {
        this.#sql.dropReferences.run(upTo);
        this.#sql.dropAnswers.run(upTo);
        this.#sql.dropPurges.run(upTo);
      });
    }
  }

  #transact(change: () => void): void {
    this.#file.exec('begin immediate');
    try {
      change();
      this.#file.exec('commit');
    } catch (error) {
      if (this.#file.isTransaction) this.#file.exec('rollback');
      throw error;
    }
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
    putTerm: sql(
      'insert into terms (ledger, field, value) values (?, ?, ?) on conflict do update set value = excluded.value',
    ),
    dropTerm: sql('delete from terms where ledger = ? and field = ?'),
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
