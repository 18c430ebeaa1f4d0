/** What is counted while a shape runs, in the measured part of it. */
import type { Kind } from './traffic.ts';

/** Who answered. `flight`: joined a read of the same replica; `followed`: waited for another replica's. */
export type Server = 'cdn' | 'memory' | 'flight' | 'redis' | 'followed' | 'upstream' | 'local';

/** What nodes were asked for. */
export type Call = 'full' | 'archival' | 'look' | 'module' | 'submit';

export class Tally {
  /** Only what happens from then on counts. */
  readonly #fromMs: number;
  readonly served = new Map<Server, number>();
  readonly kinds = new Map<Kind, Map<Server, number>>();
  readonly calls = new Map<Call, number>();
  /** Redis commands, by name. */
  readonly commands = new Map<string, number>();
  /** Of each server of the Redis. */
  readonly shardCommands: number[];
  readonly shardBytes: number[];
  /** Bytes that are added to Redis. */
  storedBytes = 0;
  /** Versions that the simulated replicas have told the others. */
  told = 0;
  /** Bodies that are sent to clients or the CDN. */
  sentBytes = 0;
  /** Of reads of "latest", in ms: how long what they were given had been overtaken, and how long they waited for it. */
  readonly overtakenMs: number[] = [];
  readonly snapshotAgeMs: number[] = [];
  readonly waitedMs: number[] = [];

  constructor(fromMs: number, shards: number) {
    this.#fromMs = fromMs;
    this.shardCommands = Array.from({ length: shards }, () => 0);
    this.shardBytes = Array.from({ length: shards }, () => 0);
  }

  counts(atMs: number): boolean {
    return atMs >= this.#fromMs;
  }

  serve(atMs: number, kind: Kind, server: Server): void {
    if (!this.counts(atMs)) return;
    add(this.served, server, 1);
    let byServer = this.kinds.get(kind);
    if (byServer === undefined) this.kinds.set(kind, (byServer = new Map()));
    add(byServer, server, 1);
  }

  call(atMs: number, call: Call, times = 1): void {
    if (this.counts(atMs)) add(this.calls, call, times);
  }

  command(atMs: number, { command, shard, bytes }: Command): void {
    if (!this.counts(atMs)) return;
    add(this.commands, command, 1);
    this.shardCommands[shard] = (this.shardCommands[shard] ?? 0) + 1;
    this.shardBytes[shard] = (this.shardBytes[shard] ?? 0) + bytes;
  }

  /** A read of "latest" was given a state. */
  latest(atMs: number, { overtakenMs, ageMs, waitedMs }: LatestTimes): void {
    if (!this.counts(atMs)) return;
    this.overtakenMs.push(overtakenMs);
    this.snapshotAgeMs.push(ageMs);
    this.waitedMs.push(waitedMs);
  }
}

export interface Command {
  readonly command: string;
  readonly shard: number;
  readonly bytes: number;
}

export interface LatestTimes {
  readonly overtakenMs: number;
  readonly ageMs: number;
  readonly waitedMs: number;
}

export function add<Name>(counts: Map<Name, number>, name: Name, times: number): void {
  counts.set(name, (counts.get(name) ?? 0) + times);
}

/** The value below which `share` of them are; 0 of none. Sorts in place. */
export function quantile(values: number[], share: number): number {
  values.sort((a, b) => a - b);
  return values[Math.min(values.length - 1, Math.floor(share * values.length))] ?? 0;
}
