import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isPurged, isUnusable, openForReads, type FilePlace } from './file.ts';

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

/** The outcome of a look-up. `unavailable`: the file was busy, or failed. */
export type RowLookup = StoredRow | 'absent' | 'damaged' | 'unavailable';

/** Looks up rows of one file without a wait; no method throws but the constructor. */
export class StoreReader {
  readonly #file: DatabaseSync;
  readonly #find: StatementSync;
  readonly #terms: StatementSync;
  readonly #members: StatementSync;

  /** Throws where the file cannot be opened. */
  constructor(place: FilePlace) {
    this.#file = openForReads(place);
    try {
      this.#find = this.#file.prepare(
        `select r.id, r.digest, r.term, r.rest, a.record from refs r left join answers a on a.digest = r.digest
          where r.name = ? and not ${isPurged}`,
      );
      this.#terms = this.#file.prepare('select field, value from terms where ledger = ?');
      this.#members = this.#file.prepare(
        'select pid from beats where ledger = ? and term = ? and run = ? and at_ms >= ?',
      );
    } catch (error) {
      this.#file.close();
      throw error;
    }
  }

  find(name: Uint8Array): RowLookup {
    try {
      const row = this.#find.get(name);
      return row === undefined ? 'absent' : (row as unknown as StoredRow);
    } catch (error) {
      return isUnusable(error) ? 'damaged' : 'unavailable';
    }
  }

  /** The terms of a ledger as fields; `undefined`: the file gives no answer. */
  terms(ledger: string): Readonly<Record<string, string>> | undefined {
    const rows = this.#all(this.#terms, ledger);
    return rows && Object.fromEntries(rows.map(({ field, value }) => [String(field), String(value)]));
  }

  /** Processes of `run` that recorded the term since `sinceMs`, of the system's clock. */
  members(ledger: string, term: string, run: string, sinceMs: number): readonly number[] | undefined {
    return this.#all(this.#members, ledger, term, run, sinceMs)?.map(({ pid }) => Number(pid));
  }

  close(): void {
    this.#file.close();
  }

  #all(statement: StatementSync, ...values: readonly (string | number)[]) {
    try {
      return statement.all(...values);
    } catch {
      // The caller's wait for an answer goes on; look-ups report the fault.
      return undefined;
    }
  }
}
