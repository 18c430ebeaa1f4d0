/** The store: answers on the machine's disk, and the epochs that they belong to. */
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import type { Config } from '../../config/index.ts';
import { Gauge } from '../../metrics/index.ts';
import { admits, epochAt } from '../epoch/epoch.ts';
import {
  type CurrentEpoch,
  type EpochFields,
  type EpochRegistry,
  type TierEpoch,
  unverified,
} from '../epoch/registry.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import type { MemoryCache } from '../memory/memory.ts';
import { marksOf, type PurgeMark, type PurgeScope, type ScopeMark, scopeMarks } from '../purge.ts';
import {
  bodyOffsetOf,
  type CachedResponse,
  encodeReference,
  type FindAnswer,
  type Lookup,
  lookUp,
  type Miss,
  mutableTtlMs,
  outcomeOf,
  referenceTo,
  writeHead,
} from '../record.ts';
import { type CacheProcess, createTierCounters, type ReadFlights } from '../tiers.ts';
import { type QueuedWrite, WriteBehind, type WriteOptions, type WriteOutcome } from '../write-behind.ts';
import { faultOf, isUnusable, pathOf } from './file.ts';
import { StoreLink, type ThreadSetup } from './link.ts';
import { nameBytes, type Renewal, StoreReader, type StoredRow, type StoredWrite } from './rows.ts';

interface StoreUser {
  /** The present ledger and epoch; without them nothing is looked up or stored. */
  readonly place: () => CurrentEpoch | undefined;
  readonly findAnswer: FindAnswer;
  /** Counts look-ups by outcome. */
  readonly onLookup: (outcome: 'hit' | Miss) => void;
  readonly onWritten: (outcome: WriteOutcome, answers: number) => void;
  /** Called when the fault changes; `fault`: in words for an operator, `undefined`: none. */
  readonly onFault: (fault: string | undefined) => void;
  /** Reads of other workers, with the longest wait for one in ms; absent in a single process. */
  readonly flights?: ReadFlights | undefined;
  readonly followMs?: () => number;
}

/** An answer to write; `bytes`: those of its record. */
interface StoreWrite extends QueuedWrite {
  /** The row's name, of `nameBytes`. */
  readonly name: Buffer;
  readonly answer: CachedResponse;
  readonly columns: Omit<StoredWrite, 'at' | 'length'>;
}

/** One batch: its copy takes less than a millisecond. */
const batch = { writes: 256, bytes: 1024 * 1024 };
const mostRenewals = 1_024;
/** While a batch is on its way, the next one gathers. A killed process loses these answers. */
const gatherMs = 2;
/** Part of the store's bytes that one answer may take, and its most bytes. */
const largestShare = 1 / 64;
const mostAnswerBytes = 8 * 1024 * 1024;
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
export class AnswerStore extends WriteBehind<StoreWrite> {
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
  /** Rows that were used, to be moved behind newer ones with the next batch. */
  readonly #renewals = new Map<number, Renewal>();
  #isRenewing = false;

  constructor(setup: ThreadSetup, user: StoreUser) {
    const largest = Math.min(mostAnswerBytes, Math.floor(setup.maxBytes * largestShare));
    super({ writes: 4_096, bytes: 16 * 1024 * 1024, largest, batch, concurrent: 1, gatherMs }, user.onWritten);
    this.#setup = setup;
    this.#user = user;
    this.link = new StoreLink(setup, (number, fault) => this.#use(number, fault));
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
  get disk(): { readonly bytes: number; readonly maxBytes: number } {
    return { bytes: this.link.fill.bytes, maxBytes: this.#setup.maxBytes };
  }

  /** Looks the read up, whose row stays longer for it. */
  async find(key: CacheKey): Promise<Lookup> {
    const found = await this.#find(key, true);
    this.#user.onLookup(outcomeOf(found));
    return found;
  }

  /** Looks the read up for an operator. */
  inspect(key: CacheKey): Promise<Lookup> {
    return this.#find(key, false);
  }

  /** Waits for another worker's read: see `ReadFlights.enter`. `undefined`: no other worker is there. */
  enter(name: string): Promise<'lead' | 'look'> | undefined {
    return this.#user.flights?.enter(name, this.#user.followMs?.() ?? 0);
  }

  /** Ends a read of this worker that `enter` let lead. */
  leave(name: string): void {
    this.#user.flights?.leave(name);
  }

  /** A reference is proved by its checksum and its epoch, an answer by its digest. */
  async #find(key: CacheKey, isUse: boolean): Promise<Lookup> {
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
    if (isUse && id < this.link.fill.middle) this.#renew({ name, id });
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
    const bytes = (bodyOffsetOf(answer) ?? Infinity) + answer.body.length;
    this.add({ key, bytes, name: nameOf(place.ledger, key), answer, columns, onDone });
  }

  protected override async send(batch: readonly StoreWrite[]): Promise<WriteOutcome> {
    const renewals = [...this.#renewals.values()];
    this.#renewals.clear();
    const bytes = Buffer.allocUnsafeSlow(batch.reduce((sum, { bytes: length }) => sum + nameBytes + length, 0));
    let end = 0;
    const writes = batch.map(({ name, answer, bytes: length, columns }): StoredWrite => {
      const at = end;
      name.copy(bytes, at);
      writeHead(bytes, at + nameBytes, answer);
      end += nameBytes + length;
      answer.body.copy(bytes, end - answer.body.length);
      return { at, length, ...columns };
    });
    const isDone = await this.link.do({ kind: 'write', batch: { bytes, writes, renewals } }, [bytes.buffer]);
    return isDone ? 'written' : 'failed';
  }

  /** Writes those that no batch has taken along meanwhile. */
  async #sendRenewals(): Promise<void> {
    this.#isRenewing = true;
    do {
      await sleep(gatherMs, undefined, { ref: false });
      if (this.#renewals.size > 0) await this.send([]);
    } while (this.#renewals.size > 0);
    this.#isRenewing = false;
  }

  #renew(renewal: Renewal): void {
    if (this.#renewals.size < mostRenewals) this.#renewals.set(renewal.id, renewal);
    if (!this.#isRenewing) void this.#sendRenewals();
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
  override async close(): Promise<void> {
    clearTimeout(this.#retry);
    await super.close();
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

/** The store in use, with the epochs that its answers belong to. Opens in the background. */
export function createStoredCache(
  config: NonNullable<Config['cache']['store']>,
  { registry, journal, run, peers, processes, settings }: CacheProcess,
  memory: MemoryCache,
  epochs: EpochRegistry,
) {
  const trouble = (): string | undefined => store.fault ?? (epoch.current === undefined ? unverified : undefined);
  const metrics = createStoreMetrics(registry, () => ({ ...store.disk, isUp: trouble() === undefined }));
  const started = Promise.withResolvers<void>();
  let fault: string | undefined;
  const setup = { folder: config.path, maxBytes: config.maxBytes, isShared: processes > 1, run };
  const store: AnswerStore = new AnswerStore(setup, {
    place: () => epoch.current,
    findAnswer: (digest) => memory.findAnswer(digest),
    onLookup: metrics.lookedUp,
    onWritten: metrics.wrote,
    flights: peers?.flights,
    followMs: () => settings.sender.timeoutMs,
    onFault: (next) => {
      started.resolve();
      if (next === fault) return;
      fault = next;
      if (next === undefined) {
        journal.record('store back', {}, 'the store is in use');
        void epochs.check();
      } else journal.record('store away', { reason: next }, 'the store is not in full use: answers go on without it');
    },
  });
  const epoch: TierEpoch = epochs.join(epochsIn(store, run));
  return {
    store,
    /** Resolves when the file is open, or its absence is certain. */
    started: started.promise,
    /** The mark of the newest purge of a ledger's replicas, among the store's fields. */
    purgeMark: (ledger: string): PurgeMark => ({
      read: () => store.reader?.fields(`purges ${ledger}`)?.['newest'],
      record: (value) => {
        // Without it the next start hides everything.
        if (store.isClear)
          void store.link.do({ kind: 'put field', ledger: `purges ${ledger}`, field: 'newest', value });
      },
    }),
    /** The present fault, without its path. */
    trouble,
    close: () => store.close(),
  };
}

/** Epochs in the store's file: read by the process's own connection, written by the thread. */
function epochsIn(store: AnswerStore, run: string): EpochFields {
  const { link } = store;
  return {
    read: async (ledger) => store.reader?.fields(ledger),
    put: (ledger, field, value) => link.do({ kind: 'put field', ledger, field, value }),
    delete: (ledger, fields) => link.do({ kind: 'delete fields', ledger, fields }),
    beat: (ledger, epoch) => link.do({ kind: 'beat', ledger, epoch, run }),
    // A process that was killed is no member: it may not have noticed a rollback of its last moments. Nor is one of an
    // earlier start of the gateway.
    hasMembers: async (ledger, epoch, beatMs) =>
      store.reader
        ?.members(ledger, epoch, run, Date.now() - beatMs)
        ?.some((pid) => pid !== process.pid && isRunning(pid)),
  };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

interface StoreGauges {
  readonly isUp: boolean;
  readonly bytes: number;
  readonly maxBytes: number;
}

/** Registers the families of the store; `read` is called at each scrape. */
export function createStoreMetrics(registry: Registry, read: () => StoreGauges) {
  new Gauge(registry, {
    name: 'ledgergate_store_up',
    help: 'Whether the store is used: 0 while it has a fault, or nodes have not confirmed the history that it holds; 0 when that is so for any worker.',
    join: 'min',
    read: () => Number(read().isUp),
  });
  new Gauge(registry, {
    name: 'ledgergate_store_bytes',
    help: 'Bytes of the store in use, as of the last write.',
    join: 'max',
    read: () => read().bytes,
  });
  new Gauge(registry, {
    name: 'ledgergate_store_max_bytes',
    help: 'Bytes that the store may take on the disk (cache.store.maxBytes).',
    join: 'max',
    read: () => read().maxBytes,
  });
  return createTierCounters(registry, 'store', 'the store');
}
