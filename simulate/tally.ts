/** Counts of a simulated run. */
import type { Route } from './shapes.ts';

/** `flight`: joined a read of the same replica. `followed`: waited for another replica's read. */
export type Server = 'memory' | 'flight' | 'redis' | 'followed' | 'upstream' | 'local';

/** Calls of nodes. */
export type Call = 'full' | 'archival' | 'look' | 'submit';

/** Counts of the measured part. */
export class Tally {
  readonly #fromMs: number;
  /** Requests of each route by server. */
  readonly routes = new Map<Route, Map<Server, number>>();
  readonly calls = new Map<Call, number>();
  /** Commands and bytes of each server of the Redis. */
  readonly shardCommands: number[];
  readonly shardBytes: number[];
  /** Bytes that are added to Redis. */
  storedBytes = 0;
  /** Bodies that are sent to clients. */
  sentBytes = 0;
  /** Keyed reads that waited for a node or Redis, and their time together. */
  waits = 0;
  waitedMs = 0;

  constructor(fromMs: number, shards = 1) {
    this.#fromMs = fromMs;
    this.shardCommands = Array.from({ length: shards }, () => 0);
    this.shardBytes = Array.from({ length: shards }, () => 0);
  }

  counts(atMs: number): boolean {
    return atMs >= this.#fromMs;
  }

  serve(atMs: number, route: Route, server: Server): void {
    if (!this.counts(atMs)) return;
    let byServer = this.routes.get(route);
    if (byServer === undefined) this.routes.set(route, (byServer = new Map()));
    add(byServer, server);
  }

  call(atMs: number, call: Call): void {
    if (this.counts(atMs)) add(this.calls, call);
  }

  wait(atMs: number, forMs: number): void {
    if (forMs <= 0 || !this.counts(atMs)) return;
    this.waits += 1;
    this.waitedMs += forMs;
  }

  command(atMs: number, shard: number, bytes: number): void {
    if (!this.counts(atMs)) return;
    this.shardCommands[shard] = (this.shardCommands[shard] ?? 0) + 1;
    this.shardBytes[shard] = (this.shardBytes[shard] ?? 0) + bytes;
  }
}

/** Adds one to the count of `name`. */
export function add<Name>(counts: Map<Name, number>, name: Name): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
