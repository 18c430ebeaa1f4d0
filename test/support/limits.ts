/** Limits as replicas build them, without the rest of a gateway. */
import type { TestContext } from 'node:test';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { AccessOperation, Plan, Principal } from '../../src/access/keys/principal.ts';
import type { Settled, Ticket } from '../../src/access/limits/ticket.ts';
import type { Costs } from '../../src/access/limits/cost.ts';
import type { RedisTargetConfig } from '../../src/config/config.ts';
import { PlanLimits, type LimitsConfig } from '../../src/access/limits/limits.ts';
import { redisConnections } from '../../src/cache/redis/connections.ts';
import { Journal } from '../../src/metrics/journal.ts';
import type { LogLine } from './gateway.ts';

export const usualCosts: Costs = {
  hit: 1,
  miss: 2,
  upstreamMs: 0.1,
  gasUnit: 0.01,
  encode: 1,
  encodeKiB: 1,
  submit: 10,
  pass: 2,
};

export interface Replica {
  readonly limits: PlanLimits;
  readonly log: readonly LogLine[];
  /** Lets a request in, or not. */
  ask(principal: Principal, operation?: AccessOperation, signal?: AbortSignal): Promise<Ticket>;
  /** A sample of its metrics; 0 where there is none yet. */
  metric(sample: string): Promise<number>;
}

export interface ReplicaOptions {
  readonly target?: RedisTargetConfig;
  readonly timeoutMs?: number;
  readonly config?: Partial<LimitsConfig>;
  readonly processes?: number;
}

/** One that has its connection, and is closed after the test. */
export async function replica(t: TestContext, options: ReplicaOptions): Promise<Replica> {
  // Long enough that a busy machine is not taken for a Redis that is away.
  const { target, timeoutMs = 2_000, config, processes = 1 } = options;
  const registry = new Registry();
  const log: LogLine[] = [];
  const limits = new PlanLimits(
    { costs: usualCosts, whenRedisIsDown: 'local', usage: { metricsByKey: false }, ...config },
    {
      redis: target && redisConnections({ target, keyPrefix: 'lg', timeoutMs, ttlMs: 60_000 }, { timeoutMs }),
      registry,
      journal: new Journal(pino({ level: 'trace' }, { write: (line) => void log.push(JSON.parse(line) as LogLine) })),
      processes,
      limitService: undefined,
      plans: () => [],
    },
  );
  t.after(() => limits.close());
  await limits.started;
  return {
    limits,
    log,
    ask: async (principal, operation = 'read', signal = new AbortController().signal) =>
      limits.admit(principal, operation, signal),
    async metric(sample) {
      const line = (await registry.metrics()).split('\n').find((candidate) => candidate.startsWith(`${sample} `));
      return line === undefined ? 0 : Number(line.slice(sample.length + 1));
    },
  };
}

const all: ReadonlySet<AccessOperation> = new Set(['read', 'view', 'encode', 'submit', 'pass']);

export function planOf(bounds: Partial<Plan>): Plan {
  return { name: 'free', windowMs: 10_000, waitMs: 0, operations: all, ...bounds };
}

export function principalOf(plan: Plan, name: string | undefined = 'wallet-a', tenant = 'acme'): Principal {
  return { name, tenant, plan, operations: all, origins: undefined };
}

/** Without a key: `address` is counted for itself. */
export function anonymousOf(plan: Plan, address: string): Principal {
  return { name: undefined, tenant: address, plan, operations: all, origins: undefined };
}

export const hit: Settled = {
  operation: 'read',
  outcome: 'hit',
  status: 200,
  upstreamMs: 0,
  gasUsed: undefined,
  bytes: 100,
  bodyBytes: 0,
};

export function isAdmitted(ticket: Ticket): ticket is Ticket & { kind: 'admitted' } {
  return ticket.kind === 'admitted';
}
