/** Metrics of keys, plans and limits: by plan, and by key where the config asks for it, since keys may be many. */
import type { Registry } from 'prom-client';
import { combinations, type Count, Counter, Gauge, labelSources } from '../metrics/index.ts';
import { boundNames } from './limits/counter.ts';
import { type UsageOutcome, usageOutcomes } from './usage/usage-store.ts';

/** Rights that a request may lack, in the order in which they are checked. */
const rights = ['address', 'operation', 'origin', 'function'] as const;
/** One of them. */
export type Right = (typeof rights)[number];

/** Refusals without a client. `unread`: not all keys have been read yet; `busy`: too many tokens are being verified. */
const clientless = ['no key', 'bad key', 'misplaced key', 'bad token', 'unread', 'busy'] as const;
const tokenResults = ['ok', 'bad token', 'unread', 'busy'] as const;
/** Refusals of a client. `not counted`: limits could not count the request. */
const ofClient = [...rights, 'limit', 'not counted'] as const;
/** Exceeded limits; `unavailable`: no part could count the request. */
const limitBounds = [...boundNames, 'streams', 'unavailable'] as const;

interface ChargedClient {
  readonly plan: { readonly name: string };
  readonly name: string | undefined;
}

/** Counts events of keys, plans and limits. */
export type AccessMetrics = ReturnType<typeof createAccessMetrics>;

interface AccessReadings {
  readonly keys: () => number;
  readonly plans: () => Iterable<string>;
  readonly waiting: () => number;
  /** Whether every server of Redis counts; absent without Redis. */
  readonly isShared?: (() => boolean) | undefined;
}

interface ChargeCounts {
  readonly requests: Readonly<Record<UsageOutcome, Count>>;
  readonly cost: Count;
}

/** Keys come and go while the process runs: beyond this number they share one series. */
const mostKeys = 5_000;
const others = '(other)';

/** Registers the families of access; `byKey`: those of single keys, too. */
export function createAccessMetrics(
  registry: Registry,
  byKey: boolean,
  { keys, plans, waiting, isShared }: AccessReadings,
) {
  const refusals = new Counter(registry, {
    name: 'ledgergate_access_refusals_total',
    help: 'Requests refused by their key, its rights or its limits, by reason and plan: no key, bad key, misplaced key (in the target), bad token, unread (keys are not known yet), busy (too many tokens are being verified), address, operation, origin, function (of a view), limit, not counted.',
    labels: { reason: [...clientless, ...ofClient], plan: labelSources.planOrNone },
    known: () => [
      ...combinations({ reason: clientless, plan: labelSources.planOrNone }),
      ...[...plans()].flatMap((plan) => combinations({ reason: ofClient, plan: labelSources.planOrNone }, { plan })),
    ],
  });
  const reloads = new Counter(registry, {
    name: 'ledgergate_keys_reloads_total',
    help: 'Times that changed keys were read (ok; those of the issuer of tokens: at each renewal), or that some were refused or none could be read (failed).',
    labels: { source: ['file', 'redis', 'issuer'], result: ['ok', 'failed'] },
  });
  new Gauge(registry, {
    name: 'ledgergate_keys',
    help: 'Keys of clients that are known.',
    join: 'max',
    read: keys,
  });
  const verified = new Counter(registry, {
    name: 'ledgergate_token_verifications_total',
    help: 'Tokens of the issuer that were verified, by result: ok, bad token, unread (no keys of the issuer are known yet), busy (too many at once).',
    labels: { result: tokenResults },
  }).by('result');
  const ofPlan = createPlanCounts(registry, plans);
  const ofKey = byKey ? createKeyCounts(registry) : undefined;
  const byBound = { plan: labelSources.plan, bound: limitBounds };
  const limitRefusals = new Counter(registry, {
    name: 'ledgergate_limits_refusals_total',
    help: 'Requests over a limit, by plan and bound: requests, cost, burst, concurrency, address (perAddress), day and month (quota), streams (open event streams), unavailable (not counted).',
    labels: byBound,
    known: () => [...plans()].flatMap((plan) => combinations(byBound, { plan })),
  });
  const fellBack = new Counter(registry, {
    name: 'ledgergate_limits_fallback_total',
    help: 'Requests that Redis did not count, by what was done: local (counted here), refuse, allow.',
    labels: { choice: ['local', 'refuse', 'allow'] },
  }).by('choice');
  const lost = createLostCounts(registry);
  new Gauge(registry, {
    name: 'ledgergate_limits_waiting',
    help: 'Requests over a limit that wait for their turn.',
    read: waiting,
  });
  if (isShared !== undefined) {
    new Gauge(registry, {
      name: 'ledgergate_access_redis_up',
      help: 'Whether Redis counts limits and usage: 0 while it, or one node of a cluster, does not answer in time; 0 when that is so for any worker.',
      join: 'min',
      read: () => Number(isShared()),
    });
  }
  const countsOf = ({ plan, name }: ChargedClient): readonly ChargeCounts[] =>
    ofKey === undefined || name === undefined ? [ofPlan(plan.name)] : [ofPlan(plan.name), ofKey(name)];
  return {
    /** A request without a client, or whose client lacks the right. */
    refused: (reason: (typeof clientless)[number] | Right, plan = '') => refusals.inc({ reason, plan }),
    tokenVerified: verified,
    reloaded: (source: 'file' | 'redis' | 'issuer', result: 'ok' | 'failed') => reloads.inc({ source, result }),
    answered: (client: ChargedClient, outcome: UsageOutcome, amount: number) => {
      for (const { requests, cost } of countsOf(client)) {
        requests[outcome].inc();
        cost.inc(amount);
      }
    },
    limited: (client: ChargedClient, bound: (typeof limitBounds)[number]) => {
      const plan = client.plan.name;
      for (const { requests } of countsOf(client)) requests.refused.inc();
      limitRefusals.inc({ plan, bound });
      refusals.inc({ reason: bound === 'unavailable' ? 'not counted' : 'limit', plan });
    },
    streamRefused: ({ plan }: ChargedClient) => limitRefusals.inc({ plan: plan.name, bound: 'streams' }),
    fellBack,
    lost,
  };
}

function createPlanCounts(registry: Registry, plans: () => Iterable<string>): (plan: string) => ChargeCounts {
  const byOutcome = { plan: labelSources.plan, outcome: usageOutcomes };
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
    labels: { key: labelSources.key, outcome: usageOutcomes },
  });
  const cost = new Counter(registry, {
    name: 'ledgergate_access_key_cost_total',
    help: 'What requests cost, in the units of access.costs, by key.',
    labels: { key: labelSources.key },
  });
  const countsOf = lookedUpOnce((key) => ({
    requests: byEach((outcome) => requests.of({ key, outcome })),
    cost: cost.of({ key }),
  }));
  let keys = 0;
  return lookedUpOnce((key) => countsOf((keys += 1) > mostKeys ? others : key));
}

function byEach(count: (outcome: UsageOutcome) => Count): ChargeCounts['requests'] {
  return Object.fromEntries(usageOutcomes.map((outcome) => [outcome, count(outcome)])) as Record<UsageOutcome, Count>;
}

function lookedUpOnce(make: (name: string) => ChargeCounts): (name: string) => ChargeCounts {
  const known = new Map<string, ChargeCounts>();
  return (name) => {
    let account = known.get(name);
    if (account === undefined) known.set(name, (account = make(name)));
    return account;
  };
}

/** Registers the family of what is not counted, by each process that counts, the primary among them. The result records one. */
export function createLostCounts(registry: Registry) {
  return new Counter(registry, {
    name: 'ledgergate_limits_lost_total',
    help: 'Counts that were lost: settlement (what a request came to) that did not get to Redis, usage (of an hour or day) and quota (of an account within its month) that did not, or that were dropped for want of room.',
    labels: { what: ['settlement', 'usage', 'quota'] },
  }).by('what');
}
