/**
 * Callers that wait for a transaction's commit. While the tail grows, its pages answer them, and a node is asked once for
 * each hash; else they share a long poll of a node.
 */
import { LRUCache } from 'lru-cache';
import type { Registry } from 'prom-client';
import { CancelToken, JsonBody, setPatientTimeout } from '../../../ledger/index.ts';
import { Counter } from '../../../metrics/index.ts';
import type { Freshness } from '../freshness.ts';
import type { Caller, DemandingCaller, Read, ReadResult } from '../read.ts';
import type { Reader } from '../reader.ts';
import type { Follower } from './follower.ts';
import type { Page } from './page.ts';
import type { Tail } from './tail.ts';

/** A node waits as long (protocol 1, row 19). */
const waitMs = 1_000;
/** The time in which a wait ends with a node's pending answer, while no page has the transaction. */
const pendingWaitMs = 5_000;
/** The time in which a look-up gets it. */
const pendingLookUpMs = 1_000;
/** Hashes whose waits are no need of the follower: it asks nodes ten times a second. */
const mostPolled = 4;
/** Hashes that nodes are asked for at once: more would crowd out other reads. The rest wait for a page, too. */
const mostAsked = 32;
/** In bytes: some 10,000 transactions of wallets. */
const pendingBytes = 16 * 1024 * 1024;
/** In bytes. A larger body is not kept, nor read. */
const largestPending = 64 * 1024;
/** In bytes, beside the body: a hash, an entry, and the facts of its node. */
const pendingOverhead = 600;

type AnsweredBy = 'follower' | 'pending' | 'node';

/** A pending answer. */
interface Pending {
  readonly served: ReadResult;
  /** Time of its request, in ms of the clock. */
  readonly atMs: number;
  /** See `Reader.purges`. */
  readonly purges: number;
}

/** One caller of `wait_by_hash`. */
class Waiter {
  readonly read: Read;
  readonly caller: Caller;
  readonly answer = Promise.withResolvers<ReadResult>();
  isOpen = true;
  isAsking = false;
  /** The next answer of a node ends the wait, pending or not. */
  isLast = false;
  timer: NodeJS.Timeout | undefined;
  onAbort: () => void = () => undefined;

  constructor(read: Read, caller: Caller) {
    this.read = read;
    this.caller = caller;
  }
}

/** The waits of one process, by hash, and the transactions that are known to be pending. */
export class Waits {
  readonly #reader: Reader;
  readonly #freshness: Pick<Freshness, 'suffices'>;
  readonly #tail: Tail;
  readonly #answered: ReturnType<typeof createWaitMetrics>;
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #pending = new LRUCache<string, Pending>({
    maxSize: pendingBytes,
    sizeCalculation: ({ served }) => served.entry.body.length + pendingOverhead,
  });
  /** Hashes that a node is to be asked for, in the order of arrival. */
  readonly #unasked = new Set<string>();
  #asked = 0;
  /** Hashes in the last page whose waits it did not end. */
  readonly #late: string[] = [];

  constructor(
    reader: Reader,
    freshness: Pick<Freshness, 'suffices'>,
    tail: Tail,
    follower: Pick<Follower, 'needs'>,
    registry: Registry,
  ) {
    this.#reader = reader;
    this.#freshness = freshness;
    this.#tail = tail;
    this.#answered = createWaitMetrics(registry);
    follower.needs.add(() => this.#waiters.size > mostPolled);
    tail.listeners.add({
      onPage: (page) => this.#onPage(page),
      onRollback: () => this.#forget(),
      onDistrusted: () => this.#forget(),
    });
  }

  /** Answers at the commit, or after a second with the pending transaction, as a node's long poll does. */
  join(read: Read, caller: Caller): Promise<ReadResult> {
    const waiter = new Waiter(read, caller);
    const isFollowed = read.form === 'json' && this.#tail.isCurrent;
    this.#add(waiter);
    if (waiter.isOpen) this.#begin(waiter, isFollowed);
    return waiter.answer.promise;
  }

  #begin(waiter: Waiter, isFollowed: boolean): void {
    const { read } = waiter;
    if (!isFollowed) {
      waiter.isLast = true;
      void this.#ask(waiter, read);
      return;
    }
    waiter.timer = setPatientTimeout(() => this.#expire(waiter), waitMs);
    // The waiter is recorded already: a commit from here on is in a page.
    this.#unasked.add(read.subject);
    this.#askNext();
  }

  /** Looks up a transaction that memory has not. One that is known to be pending is answered without a node. */
  lookUp(read: Read, caller: DemandingCaller): Promise<ReadResult> {
    const { next, isCurrent } = this.#tail;
    if (next === undefined || !isCurrent || read.form !== 'json') return this.#reader.load(read, caller);
    const known = this.#findPending(read.subject, pendingLookUpMs);
    if (known !== undefined && this.#freshness.suffices(caller, next)) return Promise.resolve(known);
    const atMs = performance.now();
    return this.#reader.load(read, caller).then((served) => {
      this.#record(read, served, atMs);
      return served;
    });
  }

  #add(waiter: Waiter): void {
    const { read, caller } = waiter;
    const { subject } = read;
    const others = this.#waiters.get(subject);
    if (others === undefined) this.#waiters.set(subject, new Set([waiter]));
    else others.add(waiter);
    waiter.onAbort = () => this.#fail(waiter, CancelToken.reasonOf(caller.signal));
    caller.signal.addEventListener('abort', waiter.onAbort, { once: true });
    if (caller.signal.aborted) waiter.onAbort();
  }

  #onPage({ hashes }: Page): void {
    if (this.#waiters.size === 0 && this.#pending.size === 0) return;
    const late = this.#late.splice(0);
    for (const hash of hashes) {
      this.#pending.delete(hash);
      // In a worker that does not know of the new head yet.
      if (!this.#answerAll(hash)) this.#late.push(hash);
    }
    for (const hash of late) if (!this.#answerAll(hash)) this.#askForAll(hash);
  }

  /** Returns whether no caller waits for it any more. */
  #answerAll(hash: string): boolean {
    let found: ReadResult | undefined;
    for (const waiter of this.#waiters.get(hash) ?? []) {
      const { read } = waiter;
      if (read.form !== 'json') continue;
      if (found !== undefined) this.#reader.hitsOf(read).inc();
      found ??= this.#reader.find(read);
      if (found === undefined) return false;
      this.#settle(waiter, found, 'follower');
    }
    return true;
  }

  #askNext(): void {
    for (const hash of this.#unasked) {
      if (this.#asked >= mostAsked) return;
      this.#unasked.delete(hash);
      if (this.#findPending(hash, pendingWaitMs) !== undefined) continue;
      const work = [...(this.#waiters.get(hash) ?? [])].flatMap((waiter) => this.#askAtOnce(waiter) ?? []);
      if (work.length === 0) continue;
      this.#asked += 1;
      void Promise.all(work).then(() => {
        this.#asked -= 1;
        this.#askNext();
      });
    }
  }

  /** The page is no answer: the transaction may be too large for that. */
  #askForAll(hash: string): void {
    for (const waiter of this.#waiters.get(hash) ?? []) void this.#askAtOnce(waiter);
  }

  /** Settles when a node has answered. `undefined`: it is asked already. Callers of one hash share one read. */
  #askAtOnce(waiter: Waiter): Promise<void> | undefined {
    const { read } = waiter;
    const { atOnce } = read;
    if (waiter.isAsking) return undefined;
    return this.#ask(waiter, atOnce === undefined ? read : { ...read, wire: atOnce, atOnce: undefined });
  }

  #ask(waiter: Waiter, read: Read): Promise<void> {
    const atMs = performance.now();
    waiter.isAsking = true;
    return this.#reader.load(read, waiter.caller).then(
      (served) => {
        waiter.isAsking = false;
        const isPending = this.#record(read, served, atMs);
        if (!waiter.isOpen || (isPending && !waiter.isLast)) return;
        // The node may be behind: what another read found committed meanwhile is the newer answer.
        const isFinal = served.entry.lifetimeMs > 0;
        this.#settle(waiter, isFinal ? served : (this.#reader.find(read) ?? served), 'node');
      },
      (error: unknown) => this.#fail(waiter, error),
    );
  }

  #expire(waiter: Waiter): void {
    if (!waiter.isOpen) return;
    waiter.isLast = true;
    if (waiter.isAsking) return;
    const known = this.#findPending(waiter.read.subject, pendingWaitMs);
    if (known === undefined) void this.#askAtOnce(waiter);
    else this.#settle(waiter, known, 'pending');
  }

  /** Records the answer if it is a pending transaction, and returns whether it is. */
  #record(read: Read, served: ReadResult, atMs: number): boolean {
    const { status, body, lifetimeMs, committedAt } = served.entry;
    if (read.form !== 'json' || status !== 200 || lifetimeMs > 0 || committedAt !== undefined) return false;
    if (body.length > largestPending) return true;
    if (new JsonBody(body).members['type'] !== 'pending_transaction') return false;
    // Only the first caller of a flight knows when it began. A page may be ahead of the node.
    if (typeof served.source === 'object' && !served.isCollapsed && !this.#tail.has(read.subject)) {
      const shared = { ...served, isCollapsed: true };
      this.#pending.set(read.subject, { served: shared, atMs, purges: this.#reader.purges });
    }
    return true;
  }

  /** The pending answer of a node since whose request no page has the transaction. */
  #findPending(hash: string, longestMs: number): ReadResult | undefined {
    const known = this.#pending.get(hash);
    if (known === undefined || !this.#tail.isCurrent) return undefined;
    const { served, atMs, purges } = known;
    if (atMs < this.#tail.sinceMs || performance.now() - atMs > longestMs) return undefined;
    return purges === this.#reader.purges ? served : undefined;
  }

  #forget(): void {
    this.#pending.clear();
    this.#late.length = 0;
  }

  #settle(waiter: Waiter, served: ReadResult, by: AnsweredBy): void {
    this.#leave(waiter);
    this.#answered.inc({ by });
    waiter.answer.resolve(served);
  }

  #fail(waiter: Waiter, error: unknown): void {
    if (!waiter.isOpen) return;
    this.#leave(waiter);
    waiter.answer.reject(error);
  }

  #leave(waiter: Waiter): void {
    const { read, caller, timer, onAbort } = waiter;
    waiter.isOpen = false;
    clearTimeout(timer);
    caller.signal.removeEventListener('abort', onAbort);
    const waiters = this.#waiters.get(read.subject);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiters.delete(read.subject);
  }
}

/** Registers the family of waits. */
export function createWaitMetrics(registry: Registry) {
  return new Counter(registry, {
    name: 'ledgergate_waits_answered_total',
    help: 'Answers to wait_by_hash that memory did not have when the request came: of the follower when it saw the commit, of a pending transaction that was known, of a node.',
    labels: { by: ['follower', 'pending', 'node'] },
  });
}
