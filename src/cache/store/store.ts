import { hash } from 'node:crypto';
import { mutableTtlMs, type CachedResponse } from '../entry.ts';
import { segmentAt, type Term } from '../history/terms.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import { marksOf, scopeMarks, type PurgeScope } from '../purge/purge-scope.ts';
import { decodeRecord, decodeReference, encodeReference } from '../record.ts';
import type { Lookup } from '../redis/shared-tier.ts';
import { faultOf, isUnusable, pathOf } from './file.ts';
import { StoreLink } from './link.ts';
import { StoreQueue, type StoredOutcome } from './queue.ts';
import { StoreReader, type StoredRow } from './reader.ts';
import { nameBytes } from './writer.ts';

/** Ms before a file that could not be opened for look-ups is tried again. */
const retryMs = 1_000;

/** The ledger (chain id and first transaction) whose answers are kept, and the term of its history. */
export interface StorePlace {
  readonly ledger: string;
  readonly term: Term;
}

interface StoreParts {
  readonly folder: string;
  /** Most bytes on the disk. */
  readonly maxBytes: number;
  /** The name of this start of the gateway. */
  readonly run: string;
  /** The present ledger and term; without them nothing is looked up or stored. */
  readonly place: () => StorePlace | undefined;
  /** Looks in memory by digest, to save the proof of the record. */
  readonly findAnswer: (digest: string) => CachedResponse | undefined;
  readonly onWritten: (outcome: StoredOutcome, answers: number) => void;
  /** Called when the fault changes; `fault`: in words for an operator, `undefined`: none. */
  readonly onFault: (fault: string | undefined) => void;
}

interface StoreWriteOptions {
  /** The head of the node's own ledger when it answered; `shared`: Redis had the answer, in a confirmed history. */
  readonly head: bigint | 'shared' | undefined;
  /** Remaining lifetime of a mutable answer. */
  readonly ttlMs?: number | undefined;
  /** The present row is damaged. */
  readonly overwrite?: boolean;
  /** Called once: when the answer is readable by every worker, or will not be. */
  readonly onDone?: (isReadable: boolean) => void;
}

/**
 * The tier between memory and Redis: answers on the machine's disk, for all its workers, and after a restart. Look-ups
 * read the file at once; a thread writes it, in batches. It is only speed: no method rejects, and a fault is a miss.
 */
export class AnswerStore {
  readonly #parts: StoreParts;
  readonly #queue: StoreQueue;
  /** The thread that writes. */
  readonly link: StoreLink;
  #open: { readonly number: number; readonly reader: StoreReader } | undefined;
  #fault: string | undefined = 'its file is not open yet';
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(parts: StoreParts) {
    const { folder, maxBytes, run, onWritten } = parts;
    this.#parts = parts;
    this.link = new StoreLink({ folder, maxBytes, run }, { onFile: (number, fault) => this.#use(number, fault) });
    this.#queue = new StoreQueue(this.link, maxBytes, onWritten);
  }

  /** The connection for look-ups; `undefined` while no file is open. */
  get reader(): StoreReader | undefined {
    return this.#open?.reader;
  }

  get fault(): string | undefined {
    return this.#fault;
  }

  /** Bytes of the file's pages in use, as of the last write, and their bound. */
  get size(): { readonly bytes: number; readonly maxBytes: number } {
    return { bytes: this.link.fill.bytes, maxBytes: this.#parts.maxBytes };
  }

  /** Looks the read up. A reference is proved by its checksum and its term, an answer by its digest. */
  async find(key: CacheKey): Promise<Lookup> {
    const place = this.#parts.place();
    if (this.#open === undefined || place === undefined) return { miss: 'unavailable' };
    const { number, reader } = this.#open;
    const name = nameOf(place.ledger, key);
    const row = reader.find(name);
    if (row === 'damaged') this.link.reportDamage(number);
    if (typeof row === 'string') return { miss: row };
    if (!isRow(row)) return { miss: 'damaged' };
    const reference = decodeReference(key, `${row.digest}.${row.rest}`);
    if (reference === undefined) return { miss: 'damaged' };
    const ttlMs = reference.expiresAt === undefined ? undefined : reference.expiresAt * 1000 - Date.now();
    if (row.record === null || (ttlMs !== undefined && ttlMs <= 0)) return { miss: 'absent' };
    const bytes = Buffer.from(row.record.buffer, row.record.byteOffset, row.record.length);
    const answer = this.#parts.findAnswer(row.digest) ?? (await decodeRecord(bytes, row.digest));
    if (answer === undefined) return { miss: 'damaged' };
    if (row.term !== segmentAt(place.term, versionOf(key) ?? answer.committedAt)) return { miss: 'absent' };
    if (row.id < this.link.fill.middle) this.#queue.renew({ name, id: row.id });
    return { answer, ttlMs };
  }

  /** Writes an answer in the background. */
  store(key: CacheKey, answer: CachedResponse, options: StoreWriteOptions): void {
    const { head, ttlMs = mutableTtlMs, overwrite = false, onDone = () => {} } = options;
    const place = this.#parts.place();
    // Below the checkpoint the node may be on another history.
    const isAdmitted = head === 'shared' || (head !== undefined && place && head >= place.term.checkpoint.version);
    if (this.#open === undefined || place === undefined || isAdmitted !== true) return onDone(false);
    const { digest } = answer;
    const expiresAt = answer.isImmutable ? undefined : Math.ceil((Date.now() + ttlMs) / 1000);
    const rest = encodeReference(key, { digest, expiresAt }).slice(digest.length + 1);
    const { read, account } = marksOf(key.page);
    const term = segmentAt(place.term, versionOf(key) ?? answer.committedAt);
    const name = nameOf(place.ledger, key);
    this.#queue.add({ key, name, answer, digest, term, rest, read, account, overwrite, onDone });
  }

  /** Cancels waiting writes whose key `covers`. */
  drop(covers: (key: CacheKey) => boolean): void {
    this.#queue.drop(covers);
  }

  /** Hides the scope from every worker, for ever. Resolves to whether that is written. */
  clear(scope: PurgeScope): Promise<boolean> {
    if (scope.kind !== 'read') return this.link.do({ kind: 'purge', marks: scopeMarks(scope) });
    const place = this.#parts.place();
    if (place !== undefined) return this.link.do({ kind: 'forget', name: nameOf(place.ledger, scope.key) });
    return this.link.do({ kind: 'purge', marks: [{ kind: 1, mark: marksOf(scope.key.page).read }] });
  }

  /** Writes what waits, and closes the file. */
  async close(): Promise<void> {
    clearTimeout(this.#retry);
    await this.#queue.close();
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
    try {
      this.#open = { number, reader: new StoreReader(pathOf(this.#parts.folder, number)) };
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

/** The name of a read's row: a digest, because views are long. */
function nameOf(ledger: string, key: CacheKey): Buffer {
  return hash('sha256', `${ledger}:${keyText(key)}`, 'buffer').subarray(0, nameBytes);
}
