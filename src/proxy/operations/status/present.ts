/** Rates, shares, quantiles and the overall state, from the reports of processes. Pure. */
import { describeEvent, type Outcome, outcomes } from '../../../metrics/index.ts';
import {
  attemptTimes,
  bucketsOf,
  distancesOf,
  encodings,
  quantile,
  refusals,
  repairs,
  routesOf,
  totalOf,
  type Buckets,
  type Counts,
} from './counts.ts';
import type { GatewayStatus, NodeStatus, ProcessStatus, Readiness } from './report.ts';
import { byProblem, overall } from './states.ts';
import { stepSeconds, type TrendPoint, type WindowCounts } from './windows.ts';

/** All facts of `/status`, `/status.json` and `ledgergate status`. */
export type StatusFacts = ReturnType<typeof factsOf>;
/** A node on the page. */
export type NodeFacts = StatusFacts['nodes'][number];
/** Answers to clients in one window. */
export type WindowFacts = StatusFacts['windows'][number];
/** An event on the page. */
export type EventFacts = StatusFacts['events'][number];
/** Counts by window, and since the start. */
export type WindowedCount = ReturnType<typeof windowedCount>;

/** The facts for people and programs; `status` is `undefined` while no process answers. Times are ISO 8601. */
export function factsOf(status: ProcessStatus | undefined, gateway: GatewayStatus) {
  const { version, nowMs, workers } = gateway;
  const startedAtMs = status?.startedAtMs ?? nowMs;
  return {
    name: 'ledgergate' as const,
    version,
    at: iso(nowMs),
    startedAt: iso(startedAtMs),
    uptimeSeconds: Math.max(0, Math.floor((nowMs - startedAtMs) / 1_000)),
    /** State, a sentence for it, and problems, worst first. */
    ...overall(status, gateway),
    workers,
    ledger: {
      chainId: status?.chainId,
      head: status?.head,
      oldest: status?.oldest,
      versionsPerSecond: inTenths(status?.headSpeed ?? 0),
    },
    /** Versions that cannot be read, because the nodes that hold them are away. */
    lost: status?.lost,
    /** Problems first, then in the order of the config. */
    nodes: (status?.nodes ?? []).toSorted(byProblem).map((node) => nodeFacts(node, status)),
    /** Shortest first. */
    windows: (status?.windows ?? []).map(windowFacts),
    /** The last 15 minutes, oldest first. */
    trend: (status?.trend ?? []).map(trendFacts),
    cache: {
      ...(status?.cache ?? { entries: 0, bytes: 0, maxBytes: 0 }),
      evicted: windowedCount(status, 'evicted'),
    },
    redis: tierFacts(status?.redis),
    /** `state` is `off` without a store. */
    store: { bytes: status?.store?.bytes, maxBytes: status?.store?.maxBytes, ...tierFacts(status?.store) },
    refusals: Object.keys(refusals).map((reason) => ({ reason, count: windowedCount(status, `refusal ${reason}`) })),
    repairs: Object.keys(repairs).map((what) => ({ what, count: windowedCount(status, `repair ${what}`) })),
    /** The tenants that asked most, and that were refused most, in 100 s. */
    tenants: tenantFacts(status?.windows[1]?.counts ?? new Map()),
    encode: {
      isOn: status?.isEncoding ?? false,
      counts: encodings.map((what) => ({ what, count: windowedCount(status, `encoding ${what}`) })),
      distrusted: status?.distrusted ?? [],
    },
    disagreements: (status?.disagreements ?? []).map(({ upstreams, count, last }) => ({ upstreams, count, last })),
    load: status?.load ?? nothing,
    /** The follower of new transactions, for waits and streams. */
    follower: status?.follower ?? { state: 'idle', next: undefined, lagSeconds: 0 },
    /** Absent without TLS. */
    certificateRefused: status?.certificateRefused,
    certificateExpires: status?.certificateExpiresMs === undefined ? undefined : iso(status.certificateExpiresMs),
    /** Newest first. */
    events: (status?.events ?? []).toReversed().map(describeEvent),
  };
}

const nothing = {
  connections: 0,
  maxConnections: 0,
  streams: 0,
  maxStreams: 0,
  loopLagMs: 0,
  isOverloaded: false,
  waiting: 0,
};

/** Tenants on the page. */
const mostTenants = 5;

function tenantFacts(counts: Counts) {
  return { asked: topTenants(counts, 'asked'), refused: topTenants(counts, 'refused') };
}

function topTenants(counts: Counts, what: 'asked' | 'refused') {
  const prefix = `tenant ${what} `;
  return [...counts]
    .flatMap(([cell, count]) => (cell.startsWith(prefix) ? [{ name: cell.slice(prefix.length), count }] : []))
    .sort((one, other) => other.count - one.count)
    .slice(0, mostTenants);
}

function windowedCount(status: ProcessStatus | undefined, cell: string) {
  const [short = 0, middle = 0, long = 0] = (status?.windows ?? []).map(({ counts }) => counts.get(cell) ?? 0);
  return { last10s: short, last100s: middle, last1000s: long, total: status?.total.get(cell) ?? 0 };
}

/** The state of a tier beside memory. */
export function tierFacts(tier: Readiness['redis']): {
  readonly state: 'off' | 'up' | 'degraded';
  readonly reason?: string;
} {
  if (tier === undefined) return { state: 'off' };
  return tier.trouble === undefined ? { state: 'up' } : { state: 'degraded', reason: tier.trouble };
}

function nodeFacts(node: NodeStatus, status: ProcessStatus | undefined) {
  const recent = status?.windows[0];
  const times = recent === undefined ? [] : attemptTimes(recent.counts, node.name);
  return {
    ...node,
    edgeSpeed: inTenths(node.edgeSpeed),
    /** Quantiles over attempts of the last 10 s, failed ones included; `undefined` without any. */
    ...quantilesOf(times),
    requestsPerSecond: rate(recent?.counts.get(`answered ${node.name}`) ?? 0, recent),
    /** Attempts without a usable answer. */
    failures: windowedCount(status, `failed ${node.name}`),
  };
}

function windowFacts(window: WindowCounts) {
  const { seconds, coveredSeconds, counts } = window;
  const routes = routesOf(counts);
  const countOf = (among: readonly string[]): CountOf => {
    return (outcome) => among.reduce((sum, route) => sum + (counts.get(`request ${route} ${outcome}`) ?? 0), 0);
  };
  return {
    seconds,
    coveredSeconds: inTenths(coveredSeconds),
    requests: totalOf(bucketsOf(counts, 'requests')),
    ...sharesOf(countOf(routes)),
    ...nodeNeed(countOf(routes.filter(isRouted)), window),
    ...timesOf('requests', window),
    outcomes: outcomes.flatMap((outcome) => {
      const requests = totalOf(bucketsOf(counts, `outcome ${outcome}`));
      return requests === 0 ? [] : [{ outcome, requests, ...timesOf(`outcome ${outcome}`, window) }];
    }),
    /** Most requests to nodes first. */
    routes: routes
      .map((route) => ({ route, count: countOf([route]) }))
      .toSorted((one, other) => sumOf(other.count, withNode) - sumOf(one.count, withNode))
      .flatMap(({ route, count }) => {
        const need = nodeNeed(isRouted(route) ? count : () => 0, window);
        return [{ route, ...sharesOf(count), ...need, ...timesOf(`route ${route}`, window) }];
      }),
    distances: distancesOf(counts),
  };
}

/** A point of the trend: shares, a time and a rate; `undefined` where nothing was counted. */
function trendFacts({ atMs, counts }: TrendPoint) {
  return {
    at: iso(atMs),
    ...sharesOf((outcome) => totalOf(bucketsOf(counts, `outcome ${outcome}`))),
    p99Ms: quantilesOf(bucketsOf(counts, 'requests')).p99Ms,
    callsPerSecond: (counts.get('calls') ?? 0) / stepSeconds,
  };
}

/** No node answers requests without a route. */
function isRouted(route: string): boolean {
  return route !== 'none';
}

/** Requests by outcome. */
type CountOf = (outcome: Outcome) => number;

function sumOf(count: CountOf, among: readonly Outcome[]): number {
  return among.reduce((sum, outcome) => sum + count(outcome), 0);
}

/** `hitShare`: of cacheable reads; a failed one is a miss, so that an outage is not 100 %. `failedShare`: 5xx. */
function sharesOf(count: CountOf) {
  const hits = sumOf(count, ['memory', 'store', 'redis']);
  const reads = hits + sumOf(count, ['collapsed', 'miss', 'failed']);
  const all = sumOf(count, outcomes);
  return { hitShare: shareOf(hits, reads), failedShare: all === 0 ? undefined : count('failed') / all };
}

/** Outcomes without a need of a node. A shared read counts for its first caller alone. */
const withoutNode: readonly Outcome[] = ['memory', 'store', 'redis', 'collapsed', 'local'];
/** Outcomes with one. A failure counts as a need: the gateway had no answer of its own. */
const withNode: readonly Outcome[] = ['miss', 'passed', 'failed'];

/** Shares of the requests that a node can answer: refusals and preflights are none. One may be several attempts. */
function nodeNeed(count: CountOf, window: WindowCounts) {
  const [without, needing] = [sumOf(count, withoutNode), sumOf(count, withNode)];
  return { withoutNodeShare: shareOf(without, without + needing), toNodesPerSecond: rate(needing, window) };
}

function timesOf(name: string, window: WindowCounts) {
  const times = bucketsOf(window.counts, name);
  return { requestsPerSecond: rate(totalOf(times), window), ...quantilesOf(times) };
}

/** Three digits: an estimate within a bucket is no more precise. */
function quantilesOf(times: Buckets) {
  const [p50Ms, p99Ms] = [0.5, 0.99].map((share) => {
    const ms = quantile(times, share);
    return ms === undefined ? undefined : Number(ms.toPrecision(3));
  });
  return { p50Ms, p99Ms };
}

/** Four digits, rounded down: 1 means all; `undefined` of none. */
function shareOf(count: number, all: number): number | undefined {
  return all === 0 ? undefined : Math.floor((count * 10_000) / all) / 10_000;
}

function rate(count: number, window: WindowCounts | undefined): number {
  // A rate over less than a second would be a guess.
  return inTenths(count / Math.max(1, window?.coveredSeconds ?? 1));
}

/** More digits of a rate would be noise. */
function inTenths(value: number): number {
  return Math.round(value * 10) / 10;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
