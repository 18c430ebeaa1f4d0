/** Metrics of plans and limits: by plan, and by key where the config asks for it, since keys may be many. */
import type { Registry } from 'prom-client';
import { combinations, type Count, Counter, Gauge, labelSources } from '../../metrics/index.ts';

/** Charged outcomes; `refused` is free. */
const chargedOutcomes = ['hit', 'miss', 'collapsed', 'local', 'error', 'refused'] as const;
type ChargedOutcome = (typeof chargedOutcomes)[number];
/** Exceeded limits; `unavailable`: no part could count the request. */
const limitBounds = ['requests', 'cost', 'burst', 'concurrency', 'unavailable'] as const;

/** Plan of a client, and the name of its key, if any. */
interface ChargedClient {
  readonly plan: string;
  readonly key: string | undefined;
}

/** Counts events of plans and limits. */
export type LimitMetrics = ReturnType<typeof createLimitMetrics>;

interface LimitMetricsOptions {
  readonly byKey: boolean;
  /** Queued requests. */
  readonly waiting: () => number;
  /** Names of the plans, read at each scrape. */
  readonly plans: () => Iterable<string>;
}

/** Counts of one plan or one key. */
interface ChargeCounts {
  readonly requests: Readonly<Record<ChargedOutcome, Count>>;
  readonly cost: Count;
}

/** Keys come and go while the process runs: beyond this number they share one series. */
const mostKeys = 5_000;
const others = '(other)';

/** Registers the families of plans and limits. */
export function createLimitMetrics(registry: Registry, options: LimitMetricsOptions) {
  const { byKey, waiting, plans } = options;
  const ofPlan = createPlanCounts(registry, plans);
  const ofKey = byKey ? createKeyCounts(registry) : undefined;
  const byBound = { plan: labelSources.plan, bound: limitBounds };
  const refusals = new Counter(registry, {
    name: 'ledgergate_limits_refusals_total',
    help: 'Requests over a limit, by plan and bound: requests, cost, burst, concurrency, unavailable (not counted).',
    labels: byBound,
    known: () => [...plans()].flatMap((plan) => combinations(byBound, { plan })),
  });
  const fellBack = new Counter(registry, {
    name: 'ledgergate_limits_fallback_total',
    help: 'Requests that Redis did not count, by what was done: local (counted here), refuse, allow.',
    labels: { choice: ['local', 'refuse', 'allow'] },
  }).by('choice');
  const lost = new Counter(registry, {
    name: 'ledgergate_limits_lost_total',
    help: 'Reports that did not get to Redis: settlement (what a request came to), usage (of an hour).',
    labels: { what: ['settlement', 'usage'] },
  }).by('what');
  new Gauge(registry, {
    name: 'ledgergate_limits_waiting',
    help: 'Requests over a limit that wait for their turn.',
    read: waiting,
  });
  const countsOf = ({ plan, key }: ChargedClient): readonly ChargeCounts[] =>
    ofKey === undefined || key === undefined ? [ofPlan(plan)] : [ofPlan(plan), ofKey(key)];
  return {
    /** A request was served or failed, at a cost of `amount`. */
    answered: (of: ChargedClient, outcome: ChargedOutcome, amount: number) => {
      for (const { requests, cost } of countsOf(of)) {
        requests[outcome].inc();
        cost.inc(amount);
      }
    },
    refused: (of: ChargedClient, bound: (typeof limitBounds)[number]) => {
      for (const { requests } of countsOf(of)) requests.refused.inc();
      refusals.inc({ plan: of.plan, bound });
    },
    /** The fallback decided on a request, because Redis did not count it. */
    fellBack,
    /** A report did not reach Redis. */
    lost,
  };
}

function createPlanCounts(registry: Registry, plans: () => Iterable<string>): (plan: string) => ChargeCounts {
  const byOutcome = { plan: labelSources.plan, outcome: chargedOutcomes };
  const requests = new Counter(registry, {
    name: 'ledgergate_access_requests_total',
    help: 'Requests by plan and outcome: hit, miss, collapsed (another request was read for), local, error, refused.',
    labels: byOutcome,
    known: () => [...plans()].flatMap((plan) => combinations(byOutcome, { plan })),
  });
  const cost = new Counter(registry, {
    name: 'ledgergate_access_cost_total',
    help: 'What requests cost, in the units of access.costs, by plan.',
    labels: { plan: labelSources.plan },
    known: () => [...plans()].map((plan) => ({ plan })),
  });
  return lookedUpOnce((plan) => ({
    requests: byEach((outcome) => requests.of({ plan, outcome })),
    cost: cost.of({ plan }),
  }));
}

function createKeyCounts(registry: Registry): (key: string) => ChargeCounts {
  const requests = new Counter(registry, {
    name: 'ledgergate_access_key_requests_total',
    help: 'Requests by key and outcome.',
    labels: { key: labelSources.key, outcome: chargedOutcomes },
  });
  const cost = new Counter(registry, {
    name: 'ledgergate_access_key_cost_total',
    help: 'What requests cost, in the units of access.costs, by key.',
    labels: { key: labelSources.key },
  });
  let keys = 0;
  const rest = lookedUpOnce(countsOfKey);
  return lookedUpOnce((key) => ((keys += 1) > mostKeys ? rest(others) : countsOfKey(key)));

  function countsOfKey(key: string): ChargeCounts {
    return { requests: byEach((outcome) => requests.of({ key, outcome })), cost: cost.of({ key }) };
  }
}

function byEach(count: (outcome: ChargedOutcome) => Count): ChargeCounts['requests'] {
  return Object.fromEntries(chargedOutcomes.map((outcome) => [outcome, count(outcome)])) as Record<
    ChargedOutcome,
    Count
  >;
}

function lookedUpOnce(make: (name: string) => ChargeCounts): (name: string) => ChargeCounts {
  const known = new Map<string, ChargeCounts>();
  return (name) => {
    let account = known.get(name);
    if (account === undefined) known.set(name, (account = make(name)));
    return account;
  };
}
