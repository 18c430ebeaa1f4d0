/** Rates, shares, quantiles and an overall state, from what the processes report. Pure. */
import { outcomes, routes } from '../../../metrics/http-metrics.ts';
import { withoutAddresses } from './event-kinds.ts';
import { levelOf, sayEvent, type StatusEvent } from './events.ts';
import type {
  Counted,
  EventFacts,
  NodeFacts,
  NodeTold,
  StatusFacts,
  Surroundings,
  TimedFacts,
  Told,
  WindowFacts,
} from './facts.ts';
import { attemptTimes, encodings, quantile, refusals, repairs, requestTimes, totalOf, type Buckets } from './counts.ts';
import { binBounds, distancesOf } from './distances.ts';
import { overall } from './overall.ts';
import type { WindowCounts } from './windows.ts';

/** Newer ones are told; 200 and the edges are remembered. */
const mostEvents = 200;

/** `told`: `undefined` while no process answers. */
export function factsOf(told: Told | undefined, around: Surroundings): StatusFacts {
  const { version, nowMs, workers } = around;
  const startedAtMs = told?.startedAtMs ?? nowMs;
  return {
    name: 'ledgergate',
    version,
    at: iso(nowMs),
    startedAt: iso(startedAtMs),
    uptimeSeconds: Math.max(0, Math.floor((nowMs - startedAtMs) / 1_000)),
    ...overall(told, around),
    workers,
    ledger: {
      chainId: told?.chainId,
      head: told?.head,
      oldest: told?.oldest,
      versionsPerSecond: round(told?.headSpeed ?? 0),
    },
    nodes: (told?.nodes ?? []).map((node) => nodeFacts(node, told)),
    windows: (told?.windows ?? []).map(windowFacts),
    cache: {
      ...(told?.cache ?? { entries: 0, bytes: 0, maxBytes: 0 }),
      evicted: countedOf(told, 'evicted'),
    },
    redis: redisFacts(told),
    refusals: refusals.map((reason) => ({ reason, count: countedOf(told, `refusal ${reason}`) })),
    repairs: repairs.map((what) => ({ what, count: countedOf(told, `repair ${what}`) })),
    encode: {
      isOn: told?.isEncoding ?? false,
      counts: encodings.map((what) => ({ what, count: countedOf(told, `encoding ${what}`) })),
      distrusted: told?.distrusted ?? [],
    },
    disagreements: told?.disagreements ?? [],
    load: told?.load ?? { connections: 0, maxConnections: 0, loopLagMs: 0, isOverloaded: false, waiting: 0 },
    certificateExpires: told?.certificateExpiresMs === undefined ? undefined : iso(told.certificateExpiresMs),
    events: [...(told?.events ?? [])]
      .sort((one, other) => other.atMs - one.atMs)
      .slice(0, mostEvents)
      .map(eventFacts),
  };
}

function countedOf(told: Told | undefined, cell: string): Counted {
  const [short = 0, middle = 0, long = 0] = (told?.windows ?? []).map(({ counts }) => counts.get(cell) ?? 0);
  return { last10s: short, last100s: middle, last1000s: long, total: told?.total.get(cell) ?? 0 };
}

function redisFacts(told: Told | undefined): StatusFacts['redis'] {
  if (told?.redis === undefined) return { state: 'off' };
  const { trouble } = told.redis;
  return trouble === undefined ? { state: 'up' } : { state: 'degraded', reason: trouble };
}

function nodeFacts(node: NodeTold, told: Told | undefined): NodeFacts {
  const recent = told?.windows[0];
  const times = recent === undefined ? [] : attemptTimes(recent.counts, node.name);
  return {
    ...node,
    edgeSpeed: round(node.edgeSpeed),
    p50Ms: roundTime(quantile(times, 0.5)),
    p99Ms: roundTime(quantile(times, 0.99)),
    requestsPerSecond: rate(recent?.counts.get(`answered ${node.name}`) ?? 0, recent),
    failures: countedOf(told, `failed ${node.name}`),
  };
}

function windowFacts(window: WindowCounts): WindowFacts {
  const { seconds, coveredSeconds, counts } = window;
  const all = requestTimes(counts, {});
  return {
    seconds,
    coveredSeconds: round(coveredSeconds),
    requests: totalOf(all),
    hitShare: hitShare((outcome) => totalOf(requestTimes(counts, { outcome }))),
    ...timed(all, window),
    outcomes: outcomes.flatMap((outcome) => {
      const times = requestTimes(counts, { outcome });
      const requests = totalOf(times);
      return requests === 0 ? [] : [{ outcome, requests, ...timed(times, window) }];
    }),
    routes: routes.flatMap((route) => {
      const times = requestTimes(counts, { route });
      const share = hitShare((outcome) => totalOf(requestTimes(counts, { route, outcome })));
      return totalOf(times) === 0 ? [] : [{ route, hitShare: share, ...timed(times, window) }];
    }),
    distances: distancesOf(counts).flatMap(({ held, asked }, bin) => {
      const [from, to] = binBounds(bin);
      return held + asked === 0 ? [] : [{ from, to, held, asked }];
    }),
  };
}

function timed(times: Buckets, window: WindowCounts): TimedFacts {
  return {
    requestsPerSecond: rate(totalOf(times), window),
    p50Ms: roundTime(quantile(times, 0.5)),
    p99Ms: roundTime(quantile(times, 0.99)),
  };
}

/** Share of the reads that can be held; passed, local and refused requests are none of them. */
function hitShare(count: (outcome: 'memory' | 'redis' | 'collapsed' | 'miss') => number): number | undefined {
  const hits = count('memory') + count('redis');
  const reads = hits + count('collapsed') + count('miss');
  return reads === 0 ? undefined : Math.round((hits / reads) * 10_000) / 10_000;
}

function rate(count: number, window: WindowCounts | undefined): number {
  // A rate of less than a second would be a guess.
  return round(count / Math.max(1, window?.coveredSeconds ?? 1));
}

function eventFacts(event: StatusEvent): EventFacts {
  const { atMs, kind, fields, workers } = event;
  return {
    at: iso(atMs),
    kind,
    level: levelOf(kind),
    text: sayEvent(event),
    fields: withoutAddresses(fields),
    ...(workers === undefined ? {} : { workers }),
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Three digits: an estimate within a bucket has no more. */
function roundTime(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Number(ms.toPrecision(3));
}
