/**
 * One replica in simulated time. Keys, the memory tier with its bounds and the storing policy are the product's own;
 * waiting for one another (`src/cache/coalesce.ts`, `read-through.ts`) is done in simulated time here.
 */
import type { CachedResponse } from '../src/cache/entry.ts';
import { cacheKey, keyText, type CacheKey } from '../src/cache/key.ts';
import { MemoryCache } from '../src/cache/memory.ts';
import { answerTo, epochOf } from './answer.ts';
import type { SimulatedFleet } from './fleet.ts';
import { chainId, type SimulatedLedger } from './ledger.ts';
import type { Shape } from './shape.ts';
import type { RedisRead, SharedRedis } from './shared-redis.ts';
import type { Snapshots } from './snapshots.ts';
import type { Server, Tally } from './tally.ts';
import { Timeline } from './timeline.ts';
import type { Arrival, Kind, Subject } from './traffic.ts';

export interface ReplicaParts {
  readonly shape: Shape;
  readonly ledger: SimulatedLedger;
  readonly fleet: SimulatedFleet;
  readonly snapshots: Snapshots;
  readonly tally: Tally;
  /** Its Redis, and how far that is, there and back. */
  readonly shared?: { readonly redis: SharedRedis; readonly rttMs: number } | undefined;
}

/** A module that is older is read anew, and from half of it on in the background (`src/proxy/module-source.ts`). */
const moduleMs = 1_000;

export class Replica {
  readonly memory: MemoryCache;
  readonly #parts: ReplicaParts;
  /** When reads that are under way will have an answer. */
  readonly #flights = new Map<string, number>();
  readonly #ends = new Timeline();
  readonly #modules = new Map<number, number>();
  /** Pushed out of memory so far. */
  evicted = 0;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.memory = new MemoryCache({
      maxBytes: parts.shape.memoryBytes,
      onEvict: (reads) => {
        this.evicted += reads;
      },
    });
  }

  /** Serves a request; everything before it must have been served. Returns who answered. */
  serve(arrival: Arrival): Server {
    const { atMs, kind } = arrival;
    this.#ends.runUntil(atMs);
    const server = this.#serve(arrival);
    this.#parts.tally.serve(atMs, kind, server);
    return server;
  }

  /** Lets everything end that is under way. */
  finish(): void {
    this.#ends.runUntil(Infinity);
  }

  #serve({ atMs, kind, subject, block, minBlock, module }: Arrival): Server {
    switch (kind) {
      case 'latest':
      case 'latestView':
        return this.#latest(atMs, kind, subject as Subject, minBlock);
      case 'head':
      case 'headView':
      case 'recent':
      case 'deep':
      case 'hash':
        return this.#read(atMs, kind, subject as Subject, block);
      case 'encode':
        return this.#encode(atMs, module ?? 0);
      case 'submit':
        this.#parts.tally.call(atMs, 'submit');
        return 'upstream';
      case 'pending':
      case 'passed':
        this.#parts.tally.call(atMs, 'full', this.#parts.fleet.ask(atMs).calls);
        return 'upstream';
    }
  }

  #latest(atMs: number, kind: Kind, subject: Subject, minBlock: number | undefined): Server {
    const { ledger, snapshots, tally } = this.#parts;
    const { block, asOfMs, readyMs } = snapshots.reach(atMs, minBlock);
    tally.latest(atMs, {
      overtakenMs: Math.max(0, readyMs - ledger.committedMs(block + 1)),
      ageMs: Math.max(0, atMs - asOfMs),
      waitedMs: readyMs - atMs,
    });
    return this.#read(readyMs, kind, subject, block);
  }

  #read(atMs: number, kind: Kind, subject: Subject, block: number | undefined): Server {
    const { ledger, tally } = this.#parts;
    const version = block === undefined ? undefined : ledger.versionOf(block);
    const key = cacheKey({ chainId, operation: subject.operation, subject: subject.text, version, form: 'json' });
    if (tally.counts(atMs)) tally.sentBytes += subject.bytes;
    if (this.memory.find(key) !== undefined) return 'memory';
    const name = keyText(key);
    const flightMs = this.#flights.get(name);
    if (flightMs !== undefined) return flightMs > atMs ? 'flight' : 'memory';
    return this.#miss(atMs, { kind, subject, block, key, name });
  }

  #miss(atMs: number, read: Missed): Server {
    const { shared, ledger, shape } = this.#parts;
    const { subject, block } = read;
    const epoch = block === undefined ? '' : epochOf(subject, block, ledger, shape.ledger);
    if (shared === undefined) return this.#ask(atMs, read, epoch);
    // What Redis holds is what any node would answer.
    const held = answerTo(subject, versionOf(ledger, block), epoch, ledger.infoAt(block ?? ledger.blockAt(atMs), 0));
    const redisRead: RedisRead = {
      kind: read.kind === 'deep' ? 'deep' : 'state',
      subject,
      block,
      name: read.name,
      key: read.key,
      bodyBytes: subject.bytes,
      digest: held?.digest ?? '',
    };
    const holds = (digest: string): boolean => this.memory.findAnswer(digest) !== undefined;
    const turn = shared.redis.take(redisRead, atMs, shared.rttMs, holds);
    if (turn.kind === 'alone') return this.#ask(turn.readyMs, read, epoch);
    if (turn.kind === 'lead') return this.#ask(turn.readyMs, read, epoch, redisRead);
    this.#begin(read, turn.readyMs, held);
    return turn.kind === 'found' ? 'redis' : 'followed';
  }

  #ask(atMs: number, read: Missed, epoch: string, toShare?: RedisRead): Server {
    const { fleet, ledger, tally, shared } = this.#parts;
    const asked = fleet.ask(atMs, read.block);
    tally.call(atMs, asked.tier, asked.calls);
    const answer = answerTo(read.subject, versionOf(ledger, read.block), epoch, asked.info);
    if (toShare !== undefined && shared !== undefined) {
      const { redis, rttMs } = shared;
      redis.expect(toShare, asked.endMs + 2 * rttMs);
      this.#ends.at(asked.endMs, () => {
        if (answer === undefined) redis.refuse(toShare);
        else redis.store(toShare, answer, asked.endMs, rttMs);
      });
    }
    this.#begin(read, asked.endMs, answer);
    return 'upstream';
  }

  #begin({ name, key }: Missed, endMs: number, answer: CachedResponse | undefined): void {
    this.#flights.set(name, endMs);
    this.#ends.at(endMs, () => {
      this.#flights.delete(name);
      if (answer !== undefined) this.memory.store(key, answer);
    });
  }

  #encode(atMs: number, module: number): Server {
    const ageMs = atMs - (this.#modules.get(module) ?? -Infinity);
    if (ageMs > moduleMs / 2) {
      this.#parts.tally.call(atMs, 'module');
      this.#modules.set(module, atMs);
    }
    return 'local';
  }
}

interface Missed {
  readonly kind: Kind;
  readonly subject: Subject;
  readonly block: number | undefined;
  readonly key: CacheKey;
  readonly name: string;
}

function versionOf(ledger: SimulatedLedger, block: number | undefined) {
  return block === undefined ? undefined : ledger.versionOf(block);
}
