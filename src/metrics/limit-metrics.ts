/** Metrics of plans and limits. By plan; by key only where that is wished, since there may be many. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface LimitMetrics {
  /** A request was served, or failed, and cost this much. `key`: the key's name, if it has one. */
  answered(of: { readonly plan: string; readonly key: string | undefined }, outcome: string, cost: number): void;
  /** A request was refused. `bound`: the one it is over, or `unavailable`: nobody could count it. */
  refused(of: { readonly plan: string; readonly key: string | undefined }, bound: string): void;
  /** A request was decided on without Redis. */
  fellBack(choice: 'local' | 'refuse' | 'allow'): void;
  /** What a request came to will not be known in Redis. */
  lost(of: 'settlement' | 'usage'): void;
}

export interface LimitMetricsOptions {
  readonly byKey: boolean;
  /** Requests that wait for their turn now. */
  readonly waiting: () => number;
}

export function createLimitMetrics(registry: Registry, { byKey, waiting }: LimitMetricsOptions): LimitMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: 'ledgergate_access_requests_total',
    help: 'Requests by plan and outcome: hit, miss, collapsed (another request was read for), local, error, refused.',
    labelNames: ['plan', 'outcome'] as const,
    registers,
  });
  const cost = new Counter({
    name: 'ledgergate_access_cost_total',
    help: 'What requests cost, by plan.',
    labelNames: ['plan'] as const,
    registers,
  });
  const refusals = new Counter({
    name: 'ledgergate_limits_refusals_total',
    help: 'Requests over a limit, by plan and bound: requests, cost, burst, concurrency, unavailable (nobody counts).',
    labelNames: ['plan', 'bound'] as const,
    registers,
  });
  const fallback = new Counter({
    name: 'ledgergate_limits_fallback_total',
    help: 'Requests that Redis did not count, by what was done: local, refuse, allow.',
    labelNames: ['choice'] as const,
    registers,
  });
  const lost = new Counter({
    name: 'ledgergate_limits_lost_total',
    help: 'Reports that did not get to Redis: settlement (what a request came to), usage (of an hour).',
    labelNames: ['what'] as const,
    registers,
  });
  new Gauge({
    name: 'ledgergate_limits_waiting',
    help: 'Requests over a limit that wait for their turn.',
    registers,
    collect() {
      this.set(waiting());
    },
  });
  const keys = byKey ? createKeyMetrics(registry) : undefined;
  return {
    answered: ({ plan, key }, outcome, amount) => {
      requests.inc({ plan, outcome });
      cost.inc({ plan }, amount);
      if (key === undefined) return;
      keys?.requests.inc({ key, outcome });
      keys?.cost.inc({ key }, amount);
    },
    refused: ({ plan, key }, bound) => {
      requests.inc({ plan, outcome: 'refused' });
      refusals.inc({ plan, bound });
      if (key !== undefined) keys?.requests.inc({ key, outcome: 'refused' });
    },
    fellBack: (choice) => fallback.inc({ choice }),
    lost: (what) => lost.inc({ what }),
  };
}

function createKeyMetrics(registry: Registry) {
  return {
    requests: new Counter({
      name: 'ledgergate_access_key_requests_total',
      help: 'Requests by key and outcome (usage.metricsByKey).',
      labelNames: ['key', 'outcome'] as const,
      registers: [registry],
    }),
    cost: new Counter({
      name: 'ledgergate_access_key_cost_total',
      help: 'What requests cost, by key (usage.metricsByKey).',
      labelNames: ['key'] as const,
      registers: [registry],
    }),
  };
}
