import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type CachedResponse,
  encodeReference,
  type FindAnswer,
  lookUp,
  type Lookup,
  mutableTtlMs,
  referenceTo,
} from '../record.ts';
import { admits, epochAt } from '../epoch/epoch.ts';
import type { CurrentEpoch } from '../epoch/registry.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import { marksOf, scopeMarks, type PurgeScope, type ScopeMark } from '../purge/purge-scope.ts';
import type { WriteOptions, WriteOutcome } from '../write-behind.ts';
import { faultOf, isUnusable, pathOf } from './file.ts';
import { recordBytes, StoreLink, type ThreadSetup } from './link.ts';
import { nameBytes, StoreReader, type StoredRow } from './rows.ts';

/** The process as its store knows it. */
interface StoreUser {
  /** The present ledger and epoch; without them nothing is looked up or stored. */
  readonly place: () => CurrentEpoch | undefined;
  readonly findAnswer: FindAnswer;
  readonly onWritten: (outcome: WriteOutcome, answers: number) => void;
  /** Called when the fault changes; `fault`: in words for an operator, `undefined`: none. */
  readonly onFault: (fault: string | undefined) => void;
}

/** Ms before a file that could not be opened for look-ups is tried again. */
const retryMs = 1_000;
/** Longest wait in ms for the record of a purge. */
const hideMs = 10_000;
/** A look-up blocks the event loop: after one of more ms, none follows for so many times as long. */
const slowMs = 5;
const restFactor = 10;

/**
 * The tier between memory and Redis: answers on the machine's disk, for all its workers, and after a restart. Look-ups
 * read the file at once; a thread writes it, in batches. It is only speed: no method rejects, and a fault is a miss.
 */
export class AnswerStore {
  readonly #setup: ThreadSetup;
  readonly #user: StoreUser;
  /** The thread that writes. */
  readonly link: StoreLink;
  #open: { readonly number: number; readonly reader: StoreReader } | undefined;
  #fault: string | undefined = 'its file is not open yet';
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** A purge was not written: rows that it covers may be there. */
  #isOwing = false;
  /** After a slow look-up the disk is left alone until then, of `performance.now()`. */
  #restUntilMs = 0;

  constructor(setup: ThreadSetup, user: StoreUser) {
    this.#setup = setup;
    this.#user = user;
    this.link = new StoreLink(setup, (number, fault) => this.#use(number, fault), user.onWritten);
  }

  /** The connection for look-ups; `undefined` while no file is open. */
  get reader(): StoreReader | undefined {
    return this.#open?.reader;
  }

  get fault(): string | undefined {
    return this.#fault ?? (this.#isOwing ? 'a purge is not written yet' : undefined);
  }

  /** Whether every purge so far is written. */
  get isClear(): boolean {
    return !this.#isOwing;
  }

  /** Bytes of the file's pages in use, as of the last write, and their bound. */
  get size(): { readonly bytes: number; readonly maxBytes: number } {
    return { bytes: this.link.fill.bytes, maxBytes: this.#setup.maxBytes };
  }

  /**
   * Looks the read up. A reference is proved by its checksum and its epoch, an answer by its digest. `isUse`: the row
   * stays longer for it.
   */
  async find(key: CacheKey, { isUse = true } = {}): Promise<Lookup> {
    const place = this.#user.place();
    const startedMs = performance.now();
    if (this.#open === undefined || place === undefined || this.#isOwing || startedMs < this.#restUntilMs)
      return { miss: 'unavailable' };
    const { number, reader } = this.#open;
    const name = nameOf(place.ledger, key);
    const row = reader.find(name);
    const tookMs = performance.now() - startedMs;
    if (tookMs > slowMs) this.#restUntilMs = startedMs + tookMs * restFactor;
    if (row === 'damaged') this.link.reportDamage(number);
    if (typeof row === 'string') return { miss: row };
    if (!isRow(row)) return { miss: 'damaged' };
    const { id, record } = row;
    const found = await lookUp(key, `${row.digest}.${row.rest}`, this.#user.findAnswer, () =>
      record === null ? 'absent' : Buffer.from(record.buffer, record.byteOffset, record.length),
    );
    if ('miss' in found) return found;
    const { answer, ttlMs = 0 } = found;
    // A clock that was set back has made its lifetime longer.
    const isLate = ttlMs > mutableTtlMs + 1_000;
    if (isLate || row.term !== epochAt(place.epoch, versionOf(key) ?? answer.committedAt)) return { miss: 'absent' };
    if (isUse && id < this.link.fill.middle) this.link.renew({ name, id });
    return found;
  }

  /** Writes an answer in the background. */
  store(key: CacheKey, answer: CachedResponse, { head, overwrite = false, onDone = () => {} }: WriteOptions): void {
    const place = this.#user.place();
    if (this.#open === undefined || place === undefined || this.#isOwing || !admits(place.epoch, head))
      return onDone(false);
    const { digest } = answer;
    const rest = encodeReference(key, referenceTo(answer)).slice(digest.length + 1);
    const term = epochAt(place.epoch, versionOf(key) ?? answer.committedAt);
    const { read, account } = marksOf(key.page);
    const columns = { digest, term, rest, read, account, overwrite };
    this.link.add({ key, bytes: recordBytes(answer), name: nameOf(place.ledger, key), answer, columns, onDone });
  }

  /** Cancels waiting writes whose key `covers`. A batch on its way is written ahead of every later work. */
  drop(covers: (key: CacheKey) => boolean): void {
    void this.link.drop(covers);
  }

  /**
   * Hides the scope from every worker, for ever. Resolves to whether that is written; if not, this process uses the store
   * no more until everything is hidden.
   */
  async clear(scope: PurgeScope): Promise<boolean> {
    const isClear = await this.#hide(scope);
    if (!isClear) void this.#hideEverything();
    return isClear;
  }

  async #hideEverything(): Promise<void> {
    if (this.#isOwing) return;
    this.#isOwing = true;
    while (!this.#isClosed && !(await this.#hide({ kind: 'everything' })))
      await sleep(retryMs, undefined, { ref: false });
    this.#isOwing = this.#isClosed;
  }

  async #hide(scope: PurgeScope): Promise<boolean> {
    const place = this.#user.place();
    const done = this.link.do(
      scope.kind === 'read' && place !== undefined
        ? { kind: 'forget', name: nameOf(place.ledger, scope.key) }
        : { kind: 'purge', marks: marksOfScope(scope) },
    );
    const late = new AbortController();
    const isDone = await Promise.race([done, sleep(hideMs, false, { ref: false, signal: late.signal })]);
    late.abort();
    return isDone;
  }

  /** Writes what waits, and closes the file. */
  async close(): Promise<void> {
    clearTimeout(this.#retry);
    await this.link.close();
    // Before the thread's connection: the last one that can write empties the log.
    this.#closeReader();
    this.#isClosed = true;
    await this.link.end();
  }

  #use(number: number | undefined, fault: string | undefined): void {
    if (this.#isClosed) return;
    clearTimeout(this.#retry);
    this.#fault = fault;
    if (number !== this.#open?.number) {
      this.#closeReader();
      if (number !== undefined) this.#openFile(number);
    }
    this.#user.onFault(this.#fault);
  }

  #closeReader(): void {
    this.#open?.reader.close();
    this.#open = undefined;
  }

  #openFile(number: number): void {
    const { folder, isShared } = this.#setup;
    try {
      this.#open = { number, reader: new StoreReader({ path: pathOf(folder, number), isShared }) };
    } catch (error) {
      this.#fault = faultOf(error);
      if (isUnusable(error)) this.link.reportDamage(number);
      // The thread reports changes alone.
      else this.#retry = setTimeout(() => this.#use(number, undefined), retryMs).unref();
    }
  }
}

/** Whether the values of a row have the types that were written: a flipped bit can make a text of bytes. */
function isRow({ digest, term, rest, record }: StoredRow): boolean {
  const isText = [digest, term, rest].every((value) => typeof value === 'string');
  return isText && (record === null || record instanceof Uint8Array);
}

function marksOfScope(scope: PurgeScope): readonly ScopeMark[] {
  return scope.kind === 'read' ? [{ kind: 1, mark: marksOf(scope.key.page).read }] : scopeMarks(scope);
}

/** The name of a read's row: a digest, because views are long. */
function nameOf(ledger: string, key: CacheKey): Buffer {
  return hash('sha256', `${ledger}:${keyText(key)}`, 'buffer').subarray(0, nameBytes);
}
