import { setTimeout } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { type CancelSignal, doneOrStopped } from '../../ledger/index.ts';
import { type Span, within } from '../../metrics/index.ts';
import {
  answerBytes,
  type CachedResponse,
  decodeReference,
  encodeRecord,
  encodeReference,
  type FindAnswer,
  type FoundAnswer,
  lookUp,
  type Lookup,
  type Miss,
  outcomeOf,
  referenceTo,
} from '../record.ts';
import { admits } from '../epoch/epoch.ts';
import type { CacheKey } from '../key.ts';
import type { SharedTierTimes } from '../tiers.ts';
import { WriteBehind, type QueuedWrite, type WriteOptions, type WriteOutcome } from '../write-behind.ts';
import type { RedisClient } from './redis-source.ts';
import type { AnswerNames } from './redis-keys.ts';
import type { CommandOptions, RedisLink, RedisOutcome } from './redis-link.ts';

interface SharedTierCounts {
  readonly wrote: (outcome: WriteOutcome, answers: number) => void;
  readonly lookedUp: (outcome: 'hit' | Miss, seconds: number) => void;
  readonly turned: (turn: 'lead' | 'alone' | 'followed') => void;
}

/** `readable`: Redis has the answer. `nothing`: there is none to share. `abandoned`: the load was aborted. */
export type LeaseEnd = 'readable' | 'nothing' | 'abandoned';

/** The turn of a read among replicas. */
interface ReadTurn {
  /** Ends the lease, with which it reads for all. To be called once. `undefined`: it reads without coordination. */
  readonly release: ((end: LeaseEnd) => void) | undefined;
  /** Redis holds a damaged entry of the read. */
  readonly isDamaged: boolean;
}

/** An answer to write, with the entry of its read. */
interface RedisWrite extends QueuedWrite {
  readonly answer: CachedResponse;
  readonly entry: string;
  /** Names in Redis of the page and of the answer. */
  readonly page: string;
  readonly name: string;
  readonly ttlMs: number;
  readonly overwrite: boolean;
}

/** A read's entry in Redis, for an operator. */
interface EntryInspection {
  readonly reference: 'found' | Miss;
  readonly digest?: string | undefined;
  /** End of a mutable answer, in seconds since 1970. */
  readonly expiresAt?: number | undefined;
  /** Remaining TTL of the page. */
  readonly ttlMs?: number | undefined;
  readonly answer?: 'found' | Miss;
  /** Length of the uncompressed body. */
  readonly bytes?: number | undefined;
}

/** Answers on their way at most, with their bytes; enough are in flight to fill a pipeline. */
const bounds = {
  writes: 1_024,
  bytes: 32 * 1024 * 1024,
  batch: { writes: 1, bytes: Infinity },
  concurrent: 32,
  gatherMs: 0,
};
/** Keys that one SCAN of a purge visits: well under a millisecond of the server's time. */
const stepKeys = 500;
const stepMs = 2_000;
/** Bound of a purge, enough for a hundred million keys. */
const longestPurgeMs = 300_000;
/** Smaller answers are rewritten without a check for presence: one command instead of one or two. */
const smallBytes = 1_024;

/** Lifetime of a lease in ms without a renewal. */
const leaseMs = 1_000;
/** Without the holder's name: a replica that ends another's lease by mistake costs one more read. */
const held = 'held';
/** Replaces the lease briefly after a read with nothing to share: followers read at once, without the lease. */
const nothing = 'nothing';
const nothingMs = 500;
/** Pauses in ms between polls for another replica's answer: the first, their growth, the longest. */
const firstPollMs = 4;
const pollGrowth = 1.5;
const longestPollMs = 40;
/** Lease holders that one read waits for, one after another. */
const mostFollowed = 3;

/**
 * The second tier: answers in Redis, for all replicas, and one reader for each key among them: the lease's holder asks a
 * node, the others poll for its answer. A lease is short and renewed during the load, so that a dead holder delays others
 * only briefly. All of it is only speed: every wait is bounded, no method rejects, and in doubt a replica reads on its own.
 */
export class SharedTier extends WriteBehind<RedisWrite> {
  readonly #link: RedisLink;
  readonly #times: SharedTierTimes;
  readonly #names: () => AnswerNames | undefined;
  readonly #findAnswer: FindAnswer;
  readonly #counts: SharedTierCounts;

  /** `names`: of the current ledger and epoch; without them nothing is looked up or stored. */
  constructor(
    link: RedisLink,
    times: SharedTierTimes,
    names: () => AnswerNames | undefined,
    findAnswer: FindAnswer,
    counts: SharedTierCounts,
  ) {
    super(bounds, counts.wrote);
    this.#link = link;
    this.#times = times;
    this.#names = names;
    this.#findAnswer = findAnswer;
    this.#counts = counts;
  }

  get timeoutMs(): number {
    return this.#times.timeoutMs;
  }

  /** Looks the read up. Waits at most until `untilMs`, of `performance.now()`. `span`: the look-up's. */
  async find(key: CacheKey, untilMs: number, span?: Span): Promise<Lookup> {
    const names = this.#names();
    if (names === undefined) return { miss: 'unavailable' };
    const options = { untilMs, span };
    const found = await this.#findEntry(names.page(key), key, options);
    if ('miss' in found) return found;
    const readRecord = (digest: string) => this.#readRecord(names.answer(digest), options);
    return lookUp(key, found.entry, this.#findAnswer, readRecord);
  }

  /** Like `find`, counted, and as a span within `span`. */
  async lookUp(key: CacheKey, untilMs: number, span: Span | undefined): Promise<Lookup> {
    const startedMs = performance.now();
    const lookup = await within(span, 'lookup', async (part) => {
      const found = await this.find(key, untilMs, part);
      part?.note({ 'ledgergate.redis.outcome': outcomeOf(found) });
      return found;
    });
    this.#counts.lookedUp(outcomeOf(lookup), (performance.now() - startedMs) / 1000);
    return lookup;
  }

  /**
   * The turn of a read that Redis does not have, after following at most `mostFollowed` holders, or the answer that one of
   * them stored. The first attempt at the lease ends by `untilMs`. Counted, and a span within `span`.
   */
  takeTurn(
    key: CacheKey,
    untilMs: number,
    signal: CancelSignal,
    span: Span | undefined,
  ): Promise<ReadTurn | FoundAnswer> {
    return within(span, 'lease', async (part) => {
      const turn = await this.#turn(key, untilMs, signal, part);
      const kind = 'answer' in turn ? 'followed' : turn.release === undefined ? 'alone' : 'lead';
      part?.note({ 'ledgergate.lease.turn': kind });
      this.#counts.turned(kind);
      return turn;
    });
  }

  /** Stores an answer in the background. `onDone` is called once it is readable by other replicas, or will not be. */
  store(key: CacheKey, answer: CachedResponse, { head, overwrite = false, onDone = () => {} }: WriteOptions): void {
    const names = this.#names();
    if (names === undefined || !admits(names.epoch, head)) return onDone(false);
    const ttlMs = Math.min(answer.lifetimeMs, this.#times.ttlMs);
    const entry = encodeReference(key, referenceTo(answer, ttlMs));
    const [page, name] = [names.page(key), names.answer(answer.digest)];
    this.add({ key, bytes: answerBytes(answer), answer, entry, page, name, ttlMs, overwrite, onDone });
  }

  /** The name of the read's page in Redis; `undefined` without names. */
  nameOf(key: CacheKey): string | undefined {
    return this.#names()?.page(key);
  }

  /** Inspects the read's entry for an operator. */
  async inspect(key: CacheKey): Promise<EntryInspection> {
    const names = this.#names();
    if (names === undefined) return { reference: 'unavailable' };
    const page = names.page(key);
    const found = await this.#findEntry(page, key);
    if ('miss' in found) return { reference: found.miss };
    const reference = decodeReference(key, found.entry);
    if (reference === undefined) return { reference: 'damaged' };
    const left = await this.#link.read(page, (client) => client.pttl(page));
    const readRecord = (digest: string) => this.#readRecord(names.answer(digest));
    const lookup = await lookUp(key, found.entry, () => undefined, readRecord);
    return {
      reference: 'found',
      ...reference,
      ttlMs: 'value' in left ? left.value : undefined,
      answer: 'answer' in lookup ? 'found' : lookup.miss,
      bytes: 'answer' in lookup ? lookup.answer.body.length : undefined,
    };
  }

  /** Removes the read's entry from these pages; the number of entries, or `undefined` where one may be left. */
  async clearRead({ slot }: CacheKey, pages: readonly string[]): Promise<number | undefined> {
    let cleared = 0;
    for (const page of pages) {
      const outcome = await this.#link.write(page, (client) => client.hdel(page, String(slot)));
      const isForeign = 'failure' in outcome && outcome.failure === 'wrong type';
      const deleted = isForeign ? await this.#link.write(page, (client) => client.unlink(page)) : outcome;
      if (!('value' in deleted)) return undefined;
      cleared += deleted.value;
    }
    return cleared;
  }

  /**
   * Deletes the names of these SCAN patterns, in small steps, between which the server runs other commands. The number
   * of keys, or `undefined` when a part of Redis was not cleared. Answers without references stay until their TTL ends:
   * no read finds them.
   */
  async clear(patterns: readonly string[]): Promise<number | undefined> {
    const servers = this.#link.servers('master');
    // A server behind an open circuit would not be cleared.
    if (servers.length === 0 || this.#link.trouble('circuit open') !== undefined) return undefined;
    const untilMs = performance.now() + longestPurgeMs;
    let cleared = 0;
    for (const pattern of patterns) {
      for (const server of servers) {
        const deleted = await this.#clearPattern(server, pattern, untilMs);
        if (deleted === undefined) return undefined;
        cleared += deleted;
      }
    }
    return cleared;
  }

  async #turn(
    key: CacheKey,
    untilMs: number,
    signal: CancelSignal,
    span: Span | undefined,
  ): Promise<ReadTurn | FoundAnswer> {
    let isDamaged = false;
    let lease = await this.#takeLease(key, untilMs, span);
    for (let round = 0; round < mostFollowed && lease === 'taken'; round += 1) {
      const followed = await this.#follow(key, signal);
      if (followed === undefined) break;
      if ('answer' in followed) return followed;
      isDamaged ||= followed.miss === 'damaged';
      // The holder died or gave up: the next one to take the lease reads for the rest.
      lease = await this.#takeLease(key, performance.now() + this.timeoutMs, span);
    }
    return { release: lease === 'taken' ? undefined : lease, isDamaged };
  }

  /** Resolves to the release of the lease; `taken`: another replica has it; `undefined`: no answer. */
  async #takeLease(key: CacheKey, untilMs: number, span: Span | undefined): Promise<ReadTurn['release'] | 'taken'> {
    const name = this.#names()?.lease(key);
    if (name === undefined) return undefined;
    const take = (client: RedisClient) => client.set(name, held, 'PX', leaseMs, 'NX');
    const taken = await this.#link.write(name, take, { untilMs, span, name: 'SET' });
    if (!('value' in taken)) return undefined;
    return taken.value === null ? 'taken' : this.#hold(name);
  }

  #hold(name: string): NonNullable<ReadTurn['release']> {
    const renew = (): void => {
      void this.#link.write(name, (client) => client.set(name, held, 'PX', leaseMs, 'XX'));
    };
    const timer = setInterval(renew, leaseMs / 3).unref();
    return (end) => {
      clearInterval(timer);
      if (end === 'nothing') void this.#link.write(name, (client) => client.set(name, nothing, 'PX', nothingMs));
      // A `read`: Redis allows UNLINK where it refuses writes, such as out of memory.
      else void this.#link.read(name, (client) => client.unlink(name));
    };
  }

  /**
   * Waits for another replica's answer; `undefined` when none will come; a miss when its lease ended without one. Polls
   * with growing pauses: messages could be lost, and one poll per key and replica costs next to nothing.
   */
  async #follow(key: CacheKey, signal: CancelSignal): Promise<Lookup | undefined> {
    const name = this.#names()?.lease(key);
    if (name === undefined) return undefined;
    const untilMs = performance.now() + this.#times.followMs;
    let pauseMs = firstPollMs;
    while (performance.now() < untilMs && !signal.aborted) {
      await doneOrStopped(setTimeout(pauseMs, undefined, { ref: false }), signal);
      // The lease first: its holder writes the answer before it releases the lease.
      const lease = await this.#link.read(name, (client) => client.get(name));
      const lookup = await this.find(key, performance.now() + this.timeoutMs);
      if ('answer' in lookup) return lookup;
      if (!('value' in lease) || lookup.miss === 'unavailable' || lease.value === nothing) return undefined;
      if (lease.value === null) return lookup;
      pauseMs = Math.min(pauseMs * pollGrowth, longestPollMs);
    }
    return undefined;
  }

  async #clearPattern(server: Redis, pattern: string, untilMs: number): Promise<number | undefined> {
    let cursor = '0';
    let cleared = 0;
    do {
      const scan = () => server.scan(cursor, 'MATCH', pattern, 'COUNT', stepKeys);
      const scanned = await this.#link.runFor(stepMs, scan);
      if (!('value' in scanned) || performance.now() > untilMs) return undefined;
      const [next, found] = scanned.value;
      // One command per key: in a cluster, the keys of one command must share a slot.
      const deleted = await this.#link.runFor(stepMs, () => Promise.all(found.map((name) => server.unlink(name))));
      if (!('value' in deleted)) return undefined;
      cleared += deleted.value.reduce((sum, count) => sum + count, 0);
      cursor = next;
    } while (cursor !== '0');
    return cleared;
  }

  async #findEntry(
    page: string,
    key: CacheKey,
    options: CommandOptions = {},
  ): Promise<{ readonly entry: string } | { readonly miss: Miss }> {
    const get = (client: RedisClient) => client.hget(page, String(key.slot));
    const found = await this.#link.read(page, get, { ...options, name: 'HGET' });
    if (!('value' in found)) return { miss: missOf(found) };
    return found.value === null ? { miss: 'absent' } : { entry: found.value };
  }

  async #readRecord(name: string, options: CommandOptions = {}): Promise<Buffer | Miss> {
    const get = (client: RedisClient) => (client as Redis).getBuffer(name);
    const found = await this.#link.read(name, get, { ...options, name: 'GET' });
    // References outlive answers: Redis evicts keys, and a page's TTL is that of its youngest reference.
    return 'value' in found ? (found.value ?? 'absent') : missOf(found);
  }

  /** The answer before its reference: no reader finds a reference without an answer. */
  protected override async send([write]: readonly [RedisWrite]): Promise<WriteOutcome> {
    const outcome = await this.#writeAnswer(write);
    if (outcome !== 'written') return outcome;
    return !this.isUnwanted(write) && (await this.#writeEntry(write)) ? 'written' : 'failed';
  }

  async #writeAnswer({ answer, name, ttlMs, overwrite }: RedisWrite): Promise<WriteOutcome> {
    if (!overwrite && answer.body.length > smallBytes) {
      const renewed = await this.#link.write(name, (client) => client.pexpire(name, ttlMs));
      if (!('value' in renewed)) return 'failed';
      if (renewed.value === 1) return 'written';
    }
    if (this.#link.isClosed(name)) return 'failed';
    const record = await encodeRecord(answer);
    if (record === undefined || record.length > this.#link.longestValue) return 'dropped';
    const set = await this.#link.write(name, (client) => client.set(name, record, 'PX', ttlMs));
    return 'value' in set ? 'written' : 'failed';
  }

  async #writeEntry({ key, entry, page, ttlMs, overwrite }: RedisWrite): Promise<boolean> {
    // Both at once: only a connection or primary lost between the two leaves a page without a TTL, until its next
    // reference.
    const set = () =>
      this.#link.write(page, (client) =>
        Promise.all([client.hset(page, String(key.slot), entry), client.pexpire(page, ttlMs)]),
      );
    let outcome = await set();
    if ('failure' in outcome && outcome.failure === 'wrong type' && overwrite) {
      await this.#link.write(page, (client) => client.unlink(page));
      outcome = await set();
    }
    return 'value' in outcome;
  }
}

function missOf(outcome: Extract<RedisOutcome<unknown>, { failure: unknown }>): Miss {
  return outcome.failure === 'wrong type' ? 'damaged' : 'unavailable';
}
