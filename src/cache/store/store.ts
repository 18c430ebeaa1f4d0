import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { mutableTtlMs, type CachedResponse } from '../entry.ts';
import { segmentAt, type Term } from '../history/terms.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import { marksOf, scopeMarks, type PurgeScope, type ScopeMark } from '../purge/purge-scope.ts';
import { decodeRecord, decodeReference, encodeReference } from '../record.ts';
import type { Lookup } from '../redis/shared-tier.ts';
import type { WriteOutcome } from '../write-behind.ts';
import { faultOf, isUnusable, pathOf } from './file.ts';
import { StoreLink, type ThreadSetup } from './link.ts';
import { recordBytes, StoreWrites } from './store-writes.ts';
import { StoreReader, type StoredRow } from './reader.ts';
import { nameBytes } from './writer.ts';

/** Ms before a file that could not be opened for look-ups is tried again. */
const retryMs = 1_000;

/** The ledger (chain id and first transaction) whose answers are kept, and the term of its history. */
export interface StorePlace {
  readonly ledger: string;
  readonly term: Term;
}

interface StoreParts extends ThreadSetup {
  /** The present ledger and term; without them nothing is looked up or stored. */
  readonly place: () => StorePlace | undefined;
  /** Looks in memory by digest, to save the proof of the record. */
  readonly findAnswer: (digest: string) => CachedResponse | undefined;
  readonly onWritten: (outcome: WriteOutcome, answers: number) => void;
  /** Called when the fault changes; `fault`: in words for an operator, `undefined`: none. */
  readonly onFault: (fault: string | undefined) => void;
}

interface StoreWriteOptions {
  /** The head of the node's own ledger when it answered; without one, the answer is not stored. */
  readonly head: bigint | undefined;
  /** The present row is damaged. */
  readonly overwrite?: boolean;
  /** Called once: when the answer is readable by every worker, or will not be. */
  readonly onDone?: (isReadable: boolean) => void;
}

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
  readonly #parts: StoreParts;
  readonly #writes: StoreWrites;
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

  constructor(parts: StoreParts) {
    const { folder, maxBytes, isShared, run, onWritten } = parts;
    this.#parts = parts;
    const setup = { folder, maxBytes, isShared, run };
    this.link = new StoreLink(setup, (number, fault) => this.#use(number, fault));
    this.#writes = new StoreWrites(this.link, maxBytes, onWritten);
  }

  /** The connection for look-ups; `undefined` while no file is open. */
  get reader(): StoreReader | undefined {
    return this.#open?.reader;
  }

  get fault(): string | undefined {
    return this.#fault ?? (this.#isOwing ? 'a purge is not written yet' : undefined);
  }

  /** Bytes of the file's pages in use, as of the last write, and their bound. */
  get size(): { readonly bytes: number; readonly maxBytes: number } {
    return { bytes: this.link.fill.bytes, maxBytes: this.#parts.maxBytes };
  }

  /**
   * Looks the read up. A reference is proved by its checksum and its term, an answer by its digest. `isUse`: the row
   * stays longer for it.
   */
  async find(key: CacheKey, { isUse = true } = {}): Promise<Lookup> {
    const place = this.#parts.place();
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
    const reference = decodeReference(key, `${row.digest}.${row.rest}`);
    if (reference === undefined) return { miss: 'damaged' };
    const ttlMs = reference.expiresAt === undefined ? undefined : reference.expiresAt * 1000 - Date.now();
    if (row.record === null || !isAlive(ttlMs)) return { miss: 'absent' };
    const bytes = Buffer.from(row.record.buffer, row.record.byteOffset, row.record.length);
    const answer = this.#parts.findAnswer(row.digest) ?? (await decodeRecord(bytes, row.digest));
    if (answer === undefined) return { miss: 'damaged' };
    if (row.term !== segmentAt(place.term, versionOf(key) ?? answer.committedAt)) return { miss: 'absent' };
    if (isUse && row.id < this.link.fill.middle) this.#writes.renew({ name, id: row.id });
    return { answer, ttlMs };
  }

  /** Writes an answer in the background. */
  store(key: CacheKey, answer: CachedResponse, options: StoreWriteOptions): void {
    const { head, overwrite = false, onDone = () => {} } = options;
    const place = this.#parts.place();
    // Below the checkpoint the node may be on another history.
    const isAdmitted = head !== undefined && place !== undefined && head >= place.term.checkpoint.version;
    if (this.#open === undefined || place === undefined || this.#isOwing || !isAdmitted) return onDone(false);
    const { digest, lifetimeMs } = answer;
    const expiresAt = lifetimeMs === Infinity ? undefined : Math.ceil((Date.now() + lifetimeMs) / 1000);
    const rest = encodeReference(key, { digest, expiresAt }).slice(digest.length + 1);
    const { read, account } = marksOf(key.page);
    const term = segmentAt(place.term, versionOf(key) ?? answer.committedAt);
    const name = nameOf(place.ledger, key);
    this.#writes.add({
      key,
      bytes: recordBytes(answer),
      name,
      answer,
      digest,
      term,
      rest,
      read,
      account,
      overwrite,
      onDone,
    });
  }

  /** Cancels waiting writes whose key `covers`. A batch on its way is written ahead of every later work. */
  drop(covers: (key: CacheKey) => boolean): void {
    void this.#writes.drop(covers);
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

  /** Whether every purge so far is written. */
  get isClear(): boolean {
    return !this.#isOwing;
  }

  async #hideEverything(): Promise<void> {
    if (this.#isOwing) return;
    this.#isOwing = true;
    while (!this.#isClosed && !(await this.#hide({ kind: 'everything' })))
      await sleep(retryMs, undefined, { ref: false });
    this.#isOwing = this.#isClosed;
  }

  async #hide(scope: PurgeScope): Promise<boolean> {
    const place = this.#parts.place();
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
    await this.#writes.close();
    // Before the thread's connection: the last one that can write empties the log.
    this.#closeReader();
    this.#isClosed = true;
    await this.link.close();
  }

  #use(number: number | undefined, fault: string | undefined): void {
    if (this.#isClosed) return;
    clearTimeout(this.#retry);
    this.#fault = fault;
    if (number !== this.#open?.number) {
      this.#closeReader();
      if (number !== undefined) this.#openFile(number);
    }
    this.#parts.onFault(this.#fault);
  }

  #closeReader(): void {
    this.#open?.reader.close();
    this.#open = undefined;
  }

  #openFile(number: number): void {
    const { folder, isShared } = this.#parts;
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

/** Whether a lifetime has not ended, and is none that a clock set back has made longer. */
function isAlive(ttlMs: number | undefined): boolean {
  return ttlMs === undefined || (ttlMs > 0 && ttlMs <= mutableTtlMs + 1_000);
}

/** The name of a read's row: a digest, because views are long. */
function nameOf(ledger: string, key: CacheKey): Buffer {
  return hash('sha256', `${ledger}:${keyText(key)}`, 'buffer').subarray(0, nameBytes);
}
