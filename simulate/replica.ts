/**
 * One replica in simulated time. Keys, the memory tier with its bounds and the storing policy are the product's own;
 * reads in flight and the time of nodes are simulated.
 */
import { cacheKey, keyText } from '../src/cache/key.ts';
import { MemoryCache } from '../src/cache/memory/memory.ts';
import { answerTo, epochOf } from './answer.ts';
import { HotReads } from './hot.ts';
import type { Latest, Opening } from './latest.ts';
import { chainId, type SimulatedLedger } from './ledger.ts';
import { exponential, type Random } from './random.ts';
import type { Server, Tally } from './tally.ts';
import { boundOf, type Shape } from './shape.ts';
import type { Route } from './shapes.ts';
import type { SharedRedis } from './shared-redis.ts';
import { type Arrival, blockOf, type Subject } from './traffic.ts';

export interface ReplicaParts {
  readonly shape: Shape;
  readonly ledger: SimulatedLedger;
  readonly latest: Latest;
  readonly tally: Tally;
  readonly redis: SharedRedis | undefined;
  readonly random: Random;
}

/** Routes whose answers are transactions of a page. */
const pageRoutes: ReadonlySet<Route> = new Set(['byHash', 'waitByHash', 'byVersion']);

/** An archive takes longer for a read. */
const archivalTimes = 2;

export class Replica {
  readonly memory: MemoryCache;
  readonly #parts: ReplicaParts;
  /** Ends of the reads in flight. Memory holds their answers from the beginning, a few milliseconds early. */
  readonly #flights = new Map<string, number>();

  /** Begin of the follower's last page. */
  #pageMs = 0;
  readonly #hot: HotReads | undefined;
  /** The block of the shared state whose hot reads are counted. */
  #counted = -1;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.#hot = parts.shape.hot && new HotReads(parts.shape.hot);
    this.memory = new MemoryCache(parts.shape.memoryBytes);
  }

  /** Serves a request, after every earlier one. */
  serve(arrival: Arrival): Server {
    const server = this.#serve(arrival);
    this.#parts.tally.serve(arrival.atMs, arrival.shape.route, server);
    return server;
  }

  #serve({ atMs, shape, subject, block, isLatest, minBlock = -1, shows = -1, sender }: Arrival): Server {
    const { subjects } = shape;
    const { latest } = this.#parts;
    latest.recordShown(sender, shows);
    this.#follow(atMs);
    if (subjects.kind === 'local') return 'local';
    if (subjects.kind === 'shared') return this.#readShared(atMs, shape.route, subjects.forMs);
    if (subject === undefined) {
      this.#parts.tally.call(atMs, subjects.kind === 'submit' ? 'submit' : 'full');
      return 'upstream';
    }
    if (isLatest !== true) {
      return this.#isInPage(atMs, shape.route, subject) ? 'memory' : this.#read(atMs, subject, block);
    }
    const boundMs = boundOf(this.#parts.shape, shape.route, subject.text);
    const state = latest.choose(atMs, { sender, boundMs, minBlock });
    if (this.#hot !== undefined && state.isShared) this.#recordHot(this.#hot, subject, state);
    return this.#read(atMs, subject, state.block);
  }

  /** Reads the pages that were due since the last request. */
  #follow(atMs: number): void {
    const { shape, tally } = this.#parts;
    if (shape.follow === undefined) return;
    for (; this.#pageMs + shape.follow.everyMs <= atMs; this.#pageMs += shape.follow.everyMs) {
      tally.call(this.#pageMs, 'full');
    }
  }

  /** Whether the answer is a transaction of a page that the follower has read, with the block it is of. */
  #isInPage(atMs: number, route: Route, subject: Subject): boolean {
    const { shape, ledger } = this.#parts;
    if (shape.follow === undefined || !pageRoutes.has(route)) return false;
    const committedMs = ledger.committedMs(blockOf(subject));
    return committedMs + shape.nodes.lagMs <= this.#pageMs && atMs - committedMs <= shape.follow.keptMs;
  }

  #recordHot(hot: HotReads, subject: Subject, { atMs, block }: Opening): void {
    if (block > this.#counted) {
      this.#counted = block;
      for (const read of hot.end()) this.#load(atMs, read, block);
    }
    hot.record(subject);
  }

  /** One answer for all clients of this replica. */
  #readShared(atMs: number, route: Route, forMs: number): Server {
    if ((this.#flights.get(route) ?? 0) > atMs) return 'memory';
    this.#flights.set(route, atMs + forMs);
    this.#parts.tally.call(atMs, 'full');
    return 'upstream';
  }

  #read(atMs: number, subject: Subject, block: number | undefined): Server {
    const { tally } = this.#parts;
    if (tally.counts(atMs)) tally.sentBytes += subject.bytes;
    const { server, readyMs } = this.#load(atMs, subject, block);
    tally.wait(atMs, readyMs - atMs);
    return server;
  }

  #load(
    atMs: number,
    subject: Subject,
    block: number | undefined,
  ): { readonly server: Server; readonly readyMs: number } {
    const { ledger, shape, redis } = this.#parts;
    const version = block === undefined ? undefined : ledger.versionOf(block);
    const key = cacheKey({ chainId, operation: subject.operation, subject: subject.text, version, form: 'json' });
    const name = keyText(key);
    const inFlightMs = this.#flights.get(name) ?? 0;
    if (inFlightMs > atMs) return { server: 'flight', readyMs: inFlightMs };
    this.#flights.delete(name);
    if (this.memory.find(key) !== undefined) return { server: 'memory', readyMs: atMs };
    const epoch = block === undefined ? '' : epochOf(subject, block, ledger, shape.ledger);
    const answer = answerTo(subject, version, epoch, ledger.infoAt(block ?? ledger.blockAt(atMs), 0));
    const isHeld = answer !== undefined && this.memory.findAnswer(answer.digest) !== undefined;
    if (answer !== undefined) this.memory.store(key, answer);
    const read = { name, subject, block };
    const turn = redis?.take(read, atMs, isHeld);
    if (turn !== undefined && turn.kind !== 'lead') {
      this.#flights.set(name, turn.readyMs);
      return { server: turn.kind === 'found' ? 'redis' : 'followed', readyMs: turn.readyMs };
    }
    const endMs = this.#ask(turn?.readyMs ?? atMs, block);
    if (answer !== undefined) redis?.store(read, answer, endMs);
    this.#flights.set(name, endMs);
    return { server: 'upstream', readyMs: endMs };
  }

  /** Asks a node that holds the block; the end of its answer. */
  #ask(atMs: number, block: number | undefined): number {
    const { ledger, shape, tally, random } = this.#parts;
    const { readMs, lagMs } = shape.nodes;
    const isHeld = block === undefined || block >= ledger.oldestOf(ledger.blockAt(atMs - lagMs));
    tally.call(atMs, isHeld ? 'full' : 'archival');
    const half = (readMs * (isHeld ? 1 : archivalTimes)) / 2;
    return Math.max(atMs, ledger.committedMs(block ?? 0) + lagMs) + half + exponential(random()) * half;
  }
}
