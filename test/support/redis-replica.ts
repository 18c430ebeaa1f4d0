/** Gateways that share a Redis, and what a test asks of them while that is in trouble. */
import assert from 'node:assert/strict';
import type { RedisConfig } from '../../src/config/config.ts';
import { until } from './eventually.ts';
import {
  fetchReply,
  patient,
  testGateway,
  type LogLine,
  type NodeAddress,
  type Reply,
  type TestGateway,
} from './gateway.ts';
import { watchStalls, type Stalls } from './stalls.ts';
import type { Ending } from './temporary-folder.ts';

/** Most that Redis may add to a read in these tests: far above what a busy machine adds by itself. */
const redisTimeoutMs = 200;

export interface ReplicaOptions extends Partial<RedisConfig> {
  readonly nodes: readonly NodeAddress[];
}

export interface Replica extends TestGateway {
  /** Log lines about Redis so far, in order. */
  readonly redisLog: readonly string[];
  readonly stalls: Stalls;
  /** What `/readyz` says, with its status. */
  readiness(): Promise<{ readonly status: number; readonly redis: { readonly state: string; reason?: string } }>;
}

/** `where`: the address of a single server, or another target. */
export async function replica(
  t: Ending,
  where: string | RedisConfig['target'],
  { nodes, ...changes }: ReplicaOptions,
): Promise<Replica> {
  const target = typeof where === 'string' ? ({ kind: 'single', url: where } as const) : where;
  const redis = { target, keyPrefix: 'lg', timeoutMs: redisTimeoutMs, ttlMs: 60_000, ...changes };
  const redisLog: string[] = [];
  const onLog = ({ msg }: LogLine): void => {
    if (typeof msg === 'string' && msg.startsWith('Redis')) redisLog.push(msg);
  };
  // Redis is what fails here: hundreds of clients beside nodes in one process do not end a read.
  const gateway = await testGateway(t, { full: nodes, config: { upstream: patient, cache: { redis } }, onLog });
  return {
    ...gateway,
    redisLog,
    stalls: watchStalls(t),
    async readiness() {
      const { status, text } = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
      return { ...(JSON.parse(text) as Awaited<ReturnType<Replica['readiness']>>), status };
    },
  };
}

/** Two replicas; resolves when both use Redis. */
export async function pair(t: Ending, ...where: [where: string | RedisConfig['target'], options: ReplicaOptions]) {
  const both = [await replica(t, ...where), await replica(t, ...where)] as const;
  await Promise.all(both.map((gateway) => untilUp(gateway)));
  return both;
}

/** Resolves when the gateway has written `count` answers to Redis. */
export function written(gateway: TestGateway, count: number): Promise<void> {
  const sample = 'ledgergate_redis_writes_total{outcome="written"}';
  return until(async () => (await gateway.metric(sample)) >= count);
}

/** Resolves when the gateway uses Redis, or when it has left it alone. */
export function untilUp(gateway: TestGateway, isUp = true): Promise<void> {
  return until(async () => (await gateway.metric('ledgergate_redis_up')) === (isUp ? 1 : 0));
}

/** `count` versions from `first` on. */
export function versions(first: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}

/** Reads the sample resource at a version; the body must be the one of that version and address. */
export async function readProbe(gateway: TestGateway, version: number, address = '0x1'): Promise<Reply> {
  const type = '0x1::ledgergate_sample::Probe';
  const reply = await gateway.get(`/accounts/${address}/resource/${type}?ledger_version=${version}`);
  const expected = JSON.stringify({ type, data: { address, ledger_version: String(version) } });
  assert.deepEqual({ status: reply.status, text: reply.text }, { status: 200, text: expected });
  return reply;
}

/** Where an answer came from: `memory`, `redis`, or `node`. */
export function sourceOf({ headers }: Reply): string {
  const status = headers['cache-status'] ?? '';
  return /hit; detail=(\w+)/.exec(status)?.[1] ?? (status.includes('fwd=') ? 'node' : status);
}

/** Sources of the answers for these versions, read one after another. */
export async function sourcesOf(gateway: TestGateway, range: readonly number[]): Promise<ReadonlySet<string>> {
  const sources = new Set<string>();
  for (const version of range) sources.add(sourceOf(await readProbe(gateway, version)));
  return sources;
}

/**
 * Reads at these versions, one after another, from a gateway whose Redis has just failed: all answers are right, at
 * most one waited for Redis, and that not longer than the timeout.
 */
export async function readsThroughFault(gateway: Replica, range: readonly number[]): Promise<void> {
  const took: number[] = [];
  for (const version of range) {
    const start = performance.now();
    await readProbe(gateway, version);
    took.push(performance.now() - start);
  }
  const slow = took.filter((ms) => ms >= redisTimeoutMs);
  gateway.stalls.judge(slow.length <= 1, `reads that waited for Redis: ${slow.map(Math.round).join(', ')} ms`);
  gateway.stalls.judge(
    Math.max(...took) < redisTimeoutMs + 300,
    `the slowest took ${Math.round(Math.max(...took))} ms`,
  );
}
