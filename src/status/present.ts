/** From what processes tell to what people and programs are shown: rates, shares, quantiles, and a verdict in words. */
import { outcomes, routes } from '../metrics/http-metrics.ts';
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
import { quantile, totalOf, type LatencyCounts } from './latency.ts';
import { overall } from './overall.ts';
import type { TallyTold } from './tally.ts';
import { binBounds, countOf, distancesOf, latencyOf } from './traffic.ts';
import type { WindowTold } from './windows.ts';

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
    nodes: (told?.nodes ?? []).map(nodeFacts),
    windows: (told?.traffic ?? []).map(windowFacts),
    cache: {
      ...(told?.cache ?? { entries: 0, bytes: 0, maxBytes: 0 }),
      evicted: told === undefined ? none : countedOf(told.repairs, 'evicted'),
    },
    redis: redisFacts(told),
    refusals: (told?.refusals.names ?? []).map((reason) => ({ reason, count: countedOf(told?.refusals, reason) })),
    repairs: (told?.repairs.names ?? [])
      .filter((what) => what !== 'evicted')
      .map((what) => ({ what, count: countedOf(told?.repairs, what) })),
    encode: {
      isOn: told?.isEncoding ?? false,
      counts: (told?.encodings.names ?? []).map((what) => ({ what, count: countedOf(told?.encodings, what) })),
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

const none: Counted = { last10s: 0, last100s: 0, last1000s: 0, total: 0 };

function countedOf(tally: TallyTold | undefined, name: string): Counted {
  const cell = tally?.names.indexOf(name) ?? -1;
  if (tally === undefined || cell === -1) return none;
  const [short, middle, long] = tally.windows.map(({ cells }) => cells[cell] ?? 0);
  return { last10s: short ?? 0, last100s: middle ?? 0, last1000s: long ?? 0, total: tally.all[cell] ?? 0 };
}

function redisFacts(told: Told | undefined): StatusFacts['redis'] {
  if (told?.redis === undefined) return { state: 'off' };
  const { trouble } = told.redis;
  return trouble === undefined ? { state: 'up' } : { state: 'degraded', reason: trouble };
}

function nodeFacts({ latency, tally, ...known }: NodeTold): NodeFacts {
  const [recent] = tally.windows;
  const answered = recent?.cells[tally.names.indexOf('answered')] ?? 0;
  return {
    ...known,
    edgeSpeed: round(known.edgeSpeed),
    p50Ms: roundTime(quantile(latency, 0.5)),
    p99Ms: roundTime(quantile(latency, 0.99)),
    requestsPerSecond: rate(answered, recent),
    failures: countedOf(tally, 'failed'),
  };
}

function windowFacts(window: WindowTold): WindowFacts {
  const { seconds, coveredSeconds } = window;
  const all = latencyOf(window, {});
  return {
    seconds,
    coveredSeconds: round(coveredSeconds),
    requests: totalOf(all),
    hitShare: hitShare((outcome) => countOf(window, { outcome })),
    ...timed(all, window),
    outcomes: outcomes.flatMap((outcome) => {
      const counts = latencyOf(window, { outcome });
      const requests = totalOf(counts);
      return requests === 0 ? [] : [{ outcome, requests, ...timed(counts, window) }];
    }),
    routes: routes.flatMap((route) => {
      const counts = latencyOf(window, { route });
      const share = hitShare((outcome) => countOf(window, { route, outcome }));
      return totalOf(counts) === 0 ? [] : [{ route, hitShare: share, ...timed(counts, window) }];
    }),
    distances: distancesOf(window).flatMap(({ held, asked }, bin) => {
      const [from, to] = binBounds(bin);
      return held + asked === 0 ? [] : [{ from, to, held, asked }];
    }),
  };
}

function timed(counts: LatencyCounts, window: WindowTold): TimedFacts {
  return {
    requestsPerSecond: rate(totalOf(counts), window),
    p50Ms: roundTime(quantile(counts, 0.5)),
    p99Ms: roundTime(quantile(counts, 0.99)),
  };
}

/** Of the reads that can be held: what is passed through, made here or refused is none. */
function hitShare(count: (outcome: 'memory' | 'redis' | 'collapsed' | 'miss') => number): number | undefined {
  const hits = count('memory') + count('redis');
  const reads = hits + count('collapsed') + count('miss');
  return reads === 0 ? undefined : Math.round((hits / reads) * 10_000) / 10_000;
}

function rate(count: number, window: WindowTold | undefined): number {
  // Of less than a second a rate would be a guess.
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

/** Three digits: the buckets hold no more. */
function roundTime(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Number(ms.toPrecision(3));
}
