/** Rates, shares, quantiles and the overall state, from the reports of processes. Pure. */
import { describeEvent, type Outcome, outcomes } from '../../../metrics/index.ts';
import type { GatewayStatus, NodeStatus, ProcessStatus, Readiness } from './facts.ts';
import {
  attemptTimes,
  distancesOf,
  encodings,
  hitsOf,
  inTenths,
  needOf,
  quantile,
  refusals,
  repairs,
  requestCount,
  requestTimes,
  routesOf,
  topTenants,
  totalOf,
  withNode,
  type Buckets,
  type Counts,
} from './counts.ts';
import { byProblem, overall } from './states.ts';
import { trendFacts, type WindowCounts } from './windows.ts';

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
    refusals: refusals.map((reason) => ({ reason, count: windowedCount(status, `refusal ${reason}`) })),
    repairs: repairs.map((what) => ({ what, count: windowedCount(status, `repair ${what}`) })),
    /** The tenants that asked most, and that were refused most, in 100 s. */
    tenants: tenantFacts(status?.windows[1]?.counts ?? new Map()),
    encode: {
      isOn: status?.isEncoding ?? false,
      counts: encodings.map((what) => ({ what, count: windowedCount(status, `encoding ${what}`) })),
      distrusted: status?.distrusted ?? [],
    },
    disagreements: (status?.disagreements ?? []).map(({ upstreams, count, last }) => ({ upstreams, count, last })),
    load: status?.load ?? { connections: 0, maxConnections: 0, loopLagMs: 0, isOverloaded: false, waiting: 0 },
    /** Absent without TLS. */
    certificateRefused: status?.certificateRefused,
    certificateExpires: status?.certificateExpiresMs === undefined ? undefined : iso(status.certificateExpiresMs),
    /** Newest first. */
    events: (status?.events ?? []).toReversed().map(describeEvent),
  };
}

/** Tenants on the page. */
const mostTenants = 5;

function tenantFacts(counts: Counts) {
  return { asked: topTenants(counts, 'asked', mostTenants), refused: topTenants(counts, 'refused', mostTenants) };
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
    p50Ms: roundTime(quantile(times, 0.5)),
    p99Ms: roundTime(quantile(times, 0.99)),
    requestsPerSecond: rate(recent?.counts.get(`answered ${node.name}`) ?? 0, recent),
    /** Attempts without a usable answer. */
    failures: windowedCount(status, `failed ${node.name}`),
  };
}

function windowFacts(window: WindowCounts) {
  const { seconds, coveredSeconds, counts } = window;
  const all = requestTimes(counts);
  const routes = routesOf(counts);
  return {
    seconds,
    coveredSeconds: inTenths(coveredSeconds),
    requests: totalOf(all),
    /** Share, 0 to 1, of cacheable reads that memory or Redis answered; `undefined` without any. */
    hitShare: hitShare((outcome) => totalOf(requestTimes(counts, `outcome ${outcome}`))),
    ...nodeNeed(routes, window),
    failedShare: failedShare(counts, routes),
    ...timed(all, window),
    outcomes: outcomes.flatMap((outcome) => {
      const times = requestTimes(counts, `outcome ${outcome}`);
      const requests = totalOf(times);
      return requests === 0 ? [] : [{ outcome, requests, ...timed(times, window) }];
    }),
    /** Most requests to nodes first. */
    routes: routes
      .toSorted((one, other) => requestCount(counts, other, withNode) - requestCount(counts, one, withNode))
      .flatMap((route) => {
        const times = requestTimes(counts, `route ${route}`);
        const share = hitShare((outcome) => requestCount(counts, route, [outcome]));
        if (totalOf(times) === 0) return [];
        return [
          {
            route,
            hitShare: share,
            ...nodeNeed([route], window),
            failedShare: failedShare(counts, [route]),
            ...timed(times, window),
          },
        ];
      }),
    distances: distancesOf(counts),
  };
}

function timed(times: Buckets, window: WindowCounts) {
  return {
    requestsPerSecond: rate(totalOf(times), window),
    p50Ms: roundTime(quantile(times, 0.5)),
    p99Ms: roundTime(quantile(times, 0.99)),
  };
}

function nodeNeed(among: readonly string[], window: WindowCounts) {
  const { without, needing } = needOf(window.counts, among);
  const all = without + needing;
  return { withoutNodeShare: all === 0 ? undefined : shareOf(without, all), toNodesPerSecond: rate(needing, window) };
}

/** Share, 0 to 1, of requests that failed (5xx); `undefined` without any. */
function failedShare(counts: WindowCounts['counts'], among: readonly string[]): number | undefined {
  const sum = (of: readonly Outcome[]): number =>
    among.reduce((total, route) => total + requestCount(counts, route, of), 0);
  const all = sum(outcomes);
  return all === 0 ? undefined : sum(['failed']) / all;
}

function hitShare(count: Parameters<typeof hitsOf>[0]): number | undefined {
  const { hits, reads } = hitsOf(count);
  return reads === 0 ? undefined : shareOf(hits, reads);
}

/** Four digits, rounded down: 1 means all. */
function shareOf(count: number, all: number): number {
  return Math.floor((count * 10_000) / all) / 10_000;
}

function rate(count: number, window: WindowCounts | undefined): number {
  // A rate over less than a second would be a guess.
  return inTenths(count / Math.max(1, window?.coveredSeconds ?? 1));
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Three digits: an estimate within a bucket is no more precise. */
function roundTime(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Number(ms.toPrecision(3));
}
