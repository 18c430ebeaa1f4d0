/**
 * Measured costs of single steps: the only place of these figures. A row is taken from one table, which it names.
 * Absolute figures are of one machine (two cores of an AMD EPYC, Node 24, other work beside); what counts are the ratios.
 */

export interface Measured {
  readonly value: number;
  readonly unit: string;
  readonly where: string;
}

const redisTable = 'bench/RESULTS.md, Redis';
const hitsTable = 'bench/RESULTS.md, cached hits: 400 B, 10,000 keys, 64 connections';

export const measured = {
  hit: { value: 106.4, unit: 'µs of a core', where: `${hitsTable}, without the fast path` },
  redisHit: { value: 167.2, unit: 'µs of a core', where: `${redisTable}: 20,000 keys by turns, Redis` },
  miss: { value: 233.0, unit: 'µs of a core', where: `${redisTable}: 20,000 keys by turns, no Redis` },
  share: {
    value: 60,
    unit: 'µs of a core',
    where: 'bench/RESULTS.md, answers on their way to Redis: encoding; four commands at 13 µs (ioredis, 32 in flight)',
  },
  passed: { value: 212.3, unit: 'µs of a core', where: 'bench/RESULTS.md, reads of latest: each to a node' },
  newsReceived: {
    value: 3.6,
    unit: 'µs of a core, for each message that a replica receives',
    where:
      'ioredis 6 subscriber, redis-server 7.0.15, 100 subscribers, 2026-11-21; without what the gateway does with it',
  },
  redisCommand: {
    value: 2.5,
    unit: 'µs of a Redis core',
    where: 'redis-server 7.0.15, HGET, GET, SET of 438 B, pipelined 32 deep over one connection, 2026-11-21',
  },
  redisPublish: {
    value: 2.6,
    unit: 'µs of a Redis core, before any delivery',
    where: 'PUBLISH to 1, 20 and 100 subscribers: 3.0, 9.0, 37.5 µs, 2026-11-21',
  },
  redisDelivery: { value: 0.35, unit: 'µs of a Redis core, for each subscriber', where: 'the same' },
  process: { value: 192, unit: 'MB', where: 'bench/RESULTS.md, connections: RSS of a gateway without a crowd' },
  connection: { value: 0.035, unit: 'MB', where: 'bench/RESULTS.md, connections' },
  headBytes: { value: 750, unit: 'B', where: 'the head of an answer: seven ledger headers and what belongs to reads' },
} as const satisfies Readonly<Record<string, Measured>>;

/** Bytes of an answer's record in Redis, compressed from 8 kB on; bench/RESULTS.md, answers on their way to Redis. */
const stored: readonly (readonly [body: number, record: number])[] = [
  [0, 38],
  [400, 438],
  [8_191, 8_229],
  [8_192, 1_751],
  [15_576, 4_576],
  [58_726, 12_615],
];

/** Bytes of the record of a body, between the measured sizes in proportion. */
export function storedBytes(body: number): number {
  const after = stored.findIndex(([bytes]) => bytes >= body);
  const [low, high] = [stored[Math.max(0, after - 1)], stored[after]];
  if (low === undefined || high === undefined) return Math.round(body * 0.215);
  const part = high[0] === low[0] ? 0 : (body - low[0]) / (high[0] - low[0]);
  return Math.round(low[1] + Math.max(0, part) * (high[1] - low[1]));
}

/** Assumptions about parts that are not this project's. */
export const assumed = {
  /** Reads a second that a full node and an archival one answer. */
  fullReads: 2_000,
  archivalReads: 500,
  /** Share of a core, a Redis server or a node that is used when all is well. */
  load: 0.6,
} as const;
