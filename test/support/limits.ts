/** Limits as replicas build them, without the rest of a gateway. */
import type { TestContext } from 'node:test';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { createAccessMetrics } from '../../src/access/access-metrics.ts';
import * as principals from '../../src/access/keys/principals.ts';
import type { AccessOperation, Plan, Principal } from '../../src/access/keys/principals.ts';
import type { Settled } from '../../src/access/limits/cost.ts';
import type { Quota } from '../../src/access/limits/counter.ts';
import { AdmittedRequest, type LimitsConfig, PlanLimits } from '../../src/access/limits/limits.ts';
import type { GatewayCounts, PrimaryPeers } from '../../src/access/limits/primary-counter.ts';
import { redisConnections } from '../../src/cache/redis/redis-link.ts';
import type { RedisTargetConfig } from '../../src/config/config.ts';
import type { GatewayError } from '../../src/ledger/errors.ts';
import { Journal } from '../../src/metrics/journal.ts';
import type { LogLine } from './gateway.ts';
import { planConfig } from './keys.ts';
import { sampleIn } from './metric-counts.ts';

export const usualCosts: LimitsConfig['costs'] = {
  hit: 1,
  miss: 2,
  upstreamMs: 0.1,
  gasUnit: 0.01,
  encode: 1,
  encodeKiB: 1,
  submit: 10,
  pass: 2,
};

/** The decision on a request; `undefined`: its client left. */
export type Ticket = AdmittedRequest | GatewayError | undefined;

export interface Replica {
  readonly limits: PlanLimits;
  readonly log: readonly LogLine[];
  /** Lets a request in, or not. */
  ask(principal: Principal, operation?: AccessOperation, signal?: AbortSignal, address?: string): Promise<Ticket>;
  /** A sample of its metrics; 0 where there is none yet. */
  metric(sample: string): Promise<number>;
}

interface ReplicaOptions {
  readonly target?: RedisTargetConfig;
  readonly timeoutMs?: number;
  readonly config?: Partial<LimitsConfig>;
  readonly metricsByKey?: boolean;
  readonly processes?: number;
  readonly peers?: PrimaryPeers;
  readonly folder?: string;
  /** Unix time in ms. */
  readonly now?: () => number;
}

/** The primary as a worker has it, over messages that are structured clones. */
export function peersOf(counts: GatewayCounts, worker: number): PrimaryPeers {
  const { take, settle, countAlone, standings } = counts.handlersFor(worker);
  return {
    limitService: {
      take: async (request) => structuredClone(take(structuredClone(request))),
      settle,
      countAlone: (counted) => countAlone(structuredClone(counted)),
      standings: async (charge) => structuredClone(standings(structuredClone(charge))),
    },
    usageStore: counts.usage,
  };
}

/** One that has its connection, and is closed after the test. */
export async function replica(t: TestContext, options: ReplicaOptions = {}): Promise<Replica> {
  // Long enough that a busy machine is not taken for a Redis that is away.
  const { target, timeoutMs = 2_000, config, metricsByKey = false, processes = 1, peers, folder, now } = options;
  const registry = new Registry();
  const log: LogLine[] = [];
  const limits: PlanLimits = new PlanLimits(
    { costs: usualCosts, whenRedisIsDown: 'local', ...config },
    {
      redis: target && redisConnections({ target, keyPrefix: 'lg', timeoutMs }, { timeoutMs }),
      metrics: createAccessMetrics(registry, metricsByKey, {
        keys: () => 0,
        plans: () => [],
        waiting: () => limits.waiting,
        isShared: () => limits.isShared,
      }),
      journal: new Journal(pino({ level: 'trace' }, { write: (line) => void log.push(JSON.parse(line) as LogLine) })),
      processes,
      peers,
      folder,
      now,
    },
  );
  t.after(() => limits.close());
  await limits.started;
  return {
    limits,
    log,
    ask: async (principal, operation = 'read', signal = new AbortController().signal, address) =>
      limits.admit(principal, operation, signal, address),
    metric: async (sample) => sampleIn(await registry.metrics(), sample) ?? 0,
  };
}

/** Replicas that share the Redis at `url`, each with a connection of its own. */
export async function sharing(
  t: TestContext,
  { url }: { readonly url: string },
  count: number,
  options: ReplicaOptions = {},
) {
  const all: Replica[] = [];
  while (all.length < count) all.push(await replica(t, { target: { kind: 'single', url }, ...options }));
  return all as [Replica, Replica, ...Replica[]];
}

export function planOf(bounds: Parameters<typeof planConfig>[0]): Plan {
  return principals.planOf('free', planConfig(bounds));
}

export function principalOf(plan: Plan, name = 'wallet-a', tenant = 'acme'): Principal {
  return principals.principalOf(plan, name, tenant);
}

/** Without a key: `address` is counted for itself. */
export function anonymousOf(plan: Plan, address: string): Principal {
  return principals.principalOf(plan, undefined, address);
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

export function isAdmitted(ticket: Ticket): ticket is AdmittedRequest {
  return ticket instanceof AdmittedRequest;
}

const outcomes = { hit: 'memory', miss: 'miss', collapsed: 'collapsed', local: 'local', error: 'failed' } as const;

/** Ends a request as its exchange does. Throws for one that was not admitted. */
export function settle(ticket: Ticket, result: Partial<Settled> = {}): void {
  if (!isAdmitted(ticket)) throw new Error('a request that was not admitted has no end');
  const { outcome, status, ...facts } = { ...hit, ...result };
  ticket.follow({ ...facts, outcome: outcomes[outcome] });
  ticket.settle({ headersSent: true, statusCode: status });
}

/** A wall clock that stands until a test moves it. */
export function clockAt(text: string) {
  let ms = Date.parse(text);
  return {
    now: () => ms,
    set: (next: string) => void (ms = Date.parse(next)),
    advance: (by: number) => void (ms += by),
  };
}

export function withQuota(quota: Partial<Quota>, tenant = 'acme'): Principal {
  return principalOf(planOf({ quota: { unit: 'requests', ...quota } }), 'wallet-a', tenant);
}

/** Asks all at once, in turns at each replica, and ends what is admitted; gives how many were. */
export async function admittedOf(all: readonly Replica[], principal: Principal, asked: number): Promise<number> {
  const tickets = await Promise.all(
    [...Array(asked).keys()].map((at) => (all[at % all.length] as Replica).ask(principal)),
  );
  const admitted = tickets.filter(isAdmitted);
  for (const ticket of admitted) settle(ticket);
  return admitted.length;
}
