import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { catalogue, type Described } from '../../../../scripts/metrics-catalogue.ts';
import { combinations, readFamilies } from '../../../../src/metrics/family.ts';
import { outcomes, type Outcome, lagVersions, requestSeconds } from '../../../../src/metrics/request-labels.ts';
import { createHttpMetrics } from '../../../../src/proxy/http/http-metrics.ts';
import {
  type Counts,
  countedFamilies,
  countsOf,
  distancesOf,
  attemptTimes,
  bucketsOf,
  encodings,
  quantile,
  refusals,
  repairs,
  totalOf,
} from '../../../../src/proxy/operations/status/counts.ts';
import { statusPage } from '../../../../src/proxy/operations/status/page/page.ts';
import type { StatusFacts } from '../../../../src/proxy/operations/status/present.ts';
import { statusLines } from '../../../../src/proxy/operations/status/terminal.ts';
import { mergeTrends, Windows, type WindowCounts } from '../../../../src/proxy/operations/status/windows.ts';
import { createLatestMetrics } from '../../../../src/proxy/reads/freshness.ts';
import { routeNames } from '../../../../src/proxy/routes/route-table.ts';
import { createFleetMetrics } from '../../../../src/upstream/upstream-metrics.ts';
import { fc } from '../../../support/fast-check.ts';
import { factsFrom, windowsOf } from '../../../support/process-status.ts';
import { emptyFleet } from '../../../support/sender.ts';

const second = 1_000;
const counted = (count: number) => new Map([['hits', count]]);
const hits = ({ counts }: WindowCounts): number => counts.get('hits') ?? 0;

const record = (windows: Windows, counts: Counts, atMs: number): void => windows.record(counts, atMs, atMs);
const read = (windows: Windows, counts: Counts, atMs: number): readonly WindowCounts[] => {
  record(windows, counts, atMs);
  return windows.read(counts, atMs);
};

/** Three hits in the first second, and a sample in every second until `until`. */
function sampled(until: number): Windows {
  const windows = new Windows(0);
  for (let at = 1; at <= until; at += 1) record(windows, counted(3), at * second);
  return windows;
}

test('a count leaves each window at its end', () => {
  const seen = [1, 5, 12, 60, 111, 500, 1_101].map((at) => read(sampled(at), counted(3), at * second).map(hits));

  assert.deepEqual(seen, [
    [3, 3, 3],
    [3, 3, 3],
    [0, 3, 3],
    [0, 3, 3],
    [0, 0, 3],
    [0, 0, 3],
    [0, 0, 0],
  ]);
});

test('a window covers its whole span and at most a tenth more, also where the timer is early or late', () => {
  for (const stepMs of [950, 1_000, 1_050]) {
    const windows = new Windows(0);
    for (let at = stepMs; at <= 3_000_000; at += stepMs) record(windows, counted(at), at);

    for (const { seconds, coveredSeconds, counts } of read(windows, counted(3_000_000), 3_000_000)) {
      assert.ok(coveredSeconds >= seconds && coveredSeconds <= seconds * 1.1 + 1.05, `${seconds}: ${coveredSeconds}`);
      assert.equal(counts.get('hits'), coveredSeconds * 1_000);
    }
  }
});

test('after a start a window covers the time since, and a stall is part of what it covers', () => {
  const windows = new Windows(0);
  const readAt = (at: number) => read(windows, counted(10), at * second);

  assert.equal(
    readAt(4)
      .map(({ coveredSeconds }) => coveredSeconds)
      .join(),
    '4,4,4',
  );
  assert.deepEqual(readAt(15).map(hits), [0, 10, 10]);
  // The longest window has no younger snapshot than the one of the start.
  assert.deepEqual(
    readAt(5_000).map((window) => [window.coveredSeconds, hits(window)]),
    [
      [4_985, 0],
      [4_985, 0],
      [5_000, 10],
    ],
  );
});

test('a series that began again counts from zero', () => {
  const windows = new Windows(0);
  record(windows, counted(100), second);
  for (let at = 2; at <= 12; at += 1) record(windows, counted(7), at * second);

  assert.deepEqual(read(windows, counted(9), 12 * second).map(hits), [2, 9, 9]);
});

test('windows begin anew when nodes came and went without end, and count on from there', () => {
  const windows = new Windows(0);
  const many = new Map(Array.from({ length: 60_000 }, (_, index) => [`answered node-${index}`, 1]));
  record(windows, many, second);
  record(windows, counted(100), 2 * second);

  for (const window of read(windows, counted(103), 3 * second))
    assert.deepEqual([window.coveredSeconds, hits(window)], [1, 3]);
});

const step = 15_000;
/** Counts since the start: so many hits, each below 1 ms, and misses, each below 5 ms with a call of a node. */
const trended = (hits: number, misses: number) =>
  new Map([
    ...['0.001', '0.0025', '0.005', '+Inf'].map((le) => [`outcome memory ${le}`, hits] as const),
    ...['0.005', '+Inf'].map((le) => [`outcome miss ${le}`, misses] as const),
    ...['0.001', '0.0025'].map((le) => [`requests ${le}`, hits] as const),
    ...['0.005', '+Inf'].map((le) => [`requests ${le}`, hits + misses] as const),
    ['attempt full-a +Inf', misses] as const,
  ]);

test('a point of the trend holds what was counted between two marks of 15 s', () => {
  const windows = new Windows(30_000);
  for (let at = 0; at <= 45; at += 1) record(windows, trended(at * 3, at), 30_000 + at * second);

  const points = factsFrom({ trend: windows.points }).trend;

  const [{ p99Ms = 0, ...rest } = {}, ...others] = points;
  assert.deepEqual(rest, { at: '1970-01-01T00:00:45.000Z', hitShare: 0.75, failedShare: 0, callsPerSecond: 1 });
  assert.ok(p99Ms > 2.5 && p99Ms <= 5);
  assert.deepEqual(
    others.map(({ at }) => at.slice(14, 19)),
    ['01:00', '01:15'],
  );
});

test('a process that stood still has no point for the step, and a quarter of an hour is kept', () => {
  const windows = new Windows(0);
  for (const steps of [0, 1, 4, 5]) record(windows, trended(steps, 0), steps * step);
  assert.deepEqual(
    windows.points.map(({ atMs }) => atMs / step),
    [1, 5],
  );
  for (let steps = 6; steps < 200; steps += 1) record(windows, trended(steps, 0), steps * step);
  assert.equal(windows.points.length, 60);
  assert.equal(windows.points.at(-1)?.atMs, 199 * step);
});

test('points of one mark add up over processes; calls are those of all nodes, of which some may have left', () => {
  const trends = [0, 1].map((late) => {
    const windows = new Windows(0);
    for (let steps = late; steps < 4; steps += 1) {
      const left = steps < 3 ? [['attempt full-b +Inf', 900] as const] : [];
      record(windows, new Map([...trended(steps * 10, steps), ...left]), steps * step);
    }
    return windows.points;
  });
  assert.deepEqual(
    mergeTrends(trends).map(({ atMs, counts }) => [
      atMs / step,
      counts.get('outcome memory +Inf'),
      counts.get('calls'),
    ]),
    [
      [1, 10, 1],
      [2, 20, 2],
      [3, 20, 2],
    ],
  );
});

test('a step without reads has no share and no time', () => {
  const [point] = factsFrom({ trend: [{ atMs: step, counts: new Map() }] }).trend;
  assert.deepEqual(
    [point?.at, point?.hitShare, point?.failedShare, point?.p99Ms, point?.callsPerSecond],
    ['1970-01-01T00:00:15.000Z', undefined, undefined, undefined, 0],
  );
});

// Shares of requests, routes that need nodes, and versions that reads are behind, from counted requests.

type Requests = readonly (readonly [route: string, outcome: Outcome, count: number])[];

/** Facts after these requests within two seconds. */
function factsAfter(requests: Requests): StatusFacts {
  const registry = new Registry();
  const metrics = createHttpMetrics(registry, routeNames);
  for (const [route, outcome, count] of requests) {
    for (let each = 0; each < count; each += 1) {
      metrics.finished({ route, outcome, status: 200, isHeadSent: true, bytes: 0 }, 0.002);
    }
  }
  return factsFrom({ windows: windowsOf(countsOf(readFamilies(registry, countedFamilies)), 2) });
}

const mixed: Requests = [
  ['resource', 'memory', 10],
  ['resource', 'miss', 2],
  ['view', 'collapsed', 1],
  ['view', 'redis', 1],
  ['view', 'miss', 3],
  ['view', 'failed', 1],
  ['view', 'refused', 7],
  ['pass_through', 'passed', 6],
  ['ledger_info', 'local', 2],
  ['none', 'refused', 50],
  ['none', 'local', 9],
];

test('memory, Redis, shared reads and own answers need no node; misses, passed requests and failures do', () => {
  const [without, needing] = [
    ['memory', 'store', 'redis', 'collapsed', 'local'],
    ['miss', 'passed', 'failed'],
  ];
  for (const outcome of outcomes) {
    const [window] = factsAfter([['view', outcome, 1]]).windows;
    const isNeeding = needing.includes(outcome);
    const share = without.includes(outcome) ? 1 : isNeeding ? 0 : undefined;
    assert.deepEqual([window?.withoutNodeShare, window?.toNodesPerSecond], [share, isNeeding ? 0.5 : 0], outcome);
  }
});

test('the hit share is of cacheable reads', () => {
  const sources = ['memory', 'memory', 'redis', 'collapsed', 'miss', 'passed', 'local', 'refused', 'failed'] as const;
  const [window] = factsAfter(sources.map((outcome) => ['resource', outcome, 1])).windows;
  assert.deepEqual([window?.hitShare, window?.requests, window?.requestsPerSecond], [0.5, 9, 4.5]);
  assert.deepEqual(
    window?.routes.map(({ route, hitShare }) => [route, hitShare]),
    [['resource', 0.5]],
  );
});

test('refusals, preflights and requests without a route are in no share', () => {
  const [window] = factsAfter(mixed).windows;
  assert.deepEqual([window?.withoutNodeShare, window?.toNodesPerSecond], [0.5384, 6]);
  assert.equal(window?.routes.find(({ route }) => route === 'none')?.withoutNodeShare, undefined);
});

test('routes that need nodes most come first', () => {
  const routes = factsAfter(mixed).windows[0]?.routes ?? [];
  assert.deepEqual(
    routes.slice(0, 4).map((of) => [of.route, of.requestsPerSecond, of.toNodesPerSecond, of.withoutNodeShare]),
    [
      ['pass_through', 3, 3, 0],
      ['view', 6.5, 2, 0.3333],
      ['resource', 6, 1, 0.8333],
      ['ledger_info', 1, 0, 1],
    ],
  );
});

test('a share is 1 only if no request needed a node', () => {
  const [window] = factsAfter([
    ['resource', 'memory', 99_999],
    ['resource', 'miss', 1],
  ]).windows;
  assert.equal(window?.withoutNodeShare, 0.9999);
});

test('requests to nodes of all routes are those of the window', () => {
  const request = fc.tuple(
    fc.constantFrom('resource', 'view', 'submit', 'pass_through'),
    fc.constantFrom(...outcomes),
    fc.nat({ max: 20 }).map((count) => 2 * count),
  );
  fc.assert(
    fc.property(fc.array(request, { maxLength: 12 }), (requests) => {
      const [window] = factsAfter(requests).windows;
      const sum = (window?.routes ?? []).reduce((total, { toNodesPerSecond }) => total + toNodesPerSecond, 0);
      assert.equal(sum, window?.toNodesPerSecond);
    }),
  );
});

test('page and command show the share', () => {
  const facts = factsAfter(mixed);

  const page = statusPage(facts)
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');
  assert.match(page, /Last Requests No node Hits 5xx p50 ms p99 ms 10 s 46\/s 53\.8 %/);
  assert.match(page, /Class Requests To nodes No node 5xx p50 ms p99 ms pass through 3\.0\/s 3\.0\/s 0 % /);
  const lines = statusLines(JSON.stringify(facts)) ?? [];
  assert.ok(lines.some((line) => /^ *LAST +RATE +NO NODE +HITS +5XX +P50 +P99/.test(line)));
  assert.ok(
    lines.some((line) => /^ *100 s +46\/s +53\.8 % +61\.1 % +1\.0 % /.test(line)),
    lines.join('\n'),
  );
});

function countsBehind(distances: readonly number[]) {
  const registry = new Registry();
  const metrics = createLatestMetrics(registry);
  for (const distance of distances) metrics.observeLag(distance);
  return countsOf(readFamilies(registry, countedFamilies));
}

test('reads of the latest state fall into bins of whole versions behind the head', () => {
  assert.deepEqual(distancesOf(countsBehind([0, 0, 1, 10, 11, 1_000, 2_000_000])), [
    { from: 0, to: 1, reads: 2 },
    { from: 1, to: 11, reads: 2 },
    { from: 11, to: 26, reads: 1 },
    { from: 501, to: 1_001, reads: 1 },
    { from: 100_001, to: undefined, reads: 1 },
  ]);
  assert.deepEqual(distancesOf(new Map()), []);
});

test('the axis joins the reads of the first thousand versions', () => {
  const page = statusPage(factsFrom({ windows: windowsOf(countsBehind([0, 700, 1_000, 3_000, 200_000]), 100) }));

  const bars = [...page.matchAll(/<title>Reads ([^<]* versions back: \d+)<\/title>/g)].map(([, words]) => words);
  assert.deepEqual(bars, [
    '0 to 1000 versions back: 3',
    '2501 to 5000 versions back: 1',
    '100001 and more versions back: 1',
  ]);
  assert.match(page, /3 of 5 reads of the latest state were within a thousand versions of the head\./);
});

const families = new Map(catalogue().flatMap((section) => section.families.map((family) => [family.name, family])));

/** A family that the page reads. */
function counting(name: string): Described {
  return families.get(name) ?? assert.fail(`there is no ${name}`);
}

const familyOf = (name: string) => counting(`ledgergate_${name}`);
const valuesOf = (name: string, label: string) => Array.from(familyOf(name).labels[label] ?? []);

test('words and bounds of the page are those of the families, in their order', () => {
  assert.deepEqual(outcomes, valuesOf('http_request_duration_seconds', 'outcome'));
  assert.deepEqual(requestSeconds, familyOf('http_request_duration_seconds').buckets);
  assert.deepEqual(requestSeconds.slice(1), familyOf('upstream_request_duration_seconds').buckets);
  assert.deepEqual(lagVersions, familyOf('served_version_lag_versions').buckets);
  assert.deepEqual(Object.keys(refusals), [
    ...valuesOf('access_refusals_total', 'reason'),
    ...valuesOf('shed_requests_total', 'reason'),
    ...valuesOf('upstream_queue_refusals_total', 'reason').map((reason) => `queue ${reason}`),
    'connections',
  ]);
  assert.deepEqual(encodings, [
    ...valuesOf('encode_requests_total', 'outcome'),
    ...valuesOf('encode_checks_total', 'result'),
  ]);
});

test('each refusal, encoding and repair of the page has a series that counts it', () => {
  const seen = countsOf(
    countedFamilies.map(counting).map(({ name, help, type, labels }) => {
      const values = combinations(labels, { status: '503', upstream: 'a b' }).map((of) => ({ labels: of, value: 1 }));
      return { name, help, type, aggregator: 'sum', values };
    }),
  );

  for (const reason of Object.keys(refusals)) assert.ok(seen.has(`refusal ${reason}`), reason);
  for (const name of encodings) assert.ok(seen.has(`encoding ${name}`), name);
  assert.deepEqual(
    Object.keys(repairs).map((name) => seen.get(`repair ${name}`)),
    // A hedge ends in three ways, of which one is its victory.
    [1, 1, 3, 1],
  );
  assert.deepEqual([seen.get('evicted'), seen.get('allowance a b'), seen.get('status 503')], [1, 1, routeNames.length]);
});

test('requests and attempts are read by route, outcome and node', () => {
  const registry = new Registry();
  const http = createHttpMetrics(registry, routeNames);
  const fleet = createFleetMetrics(registry, emptyFleet);
  const request = { route: 'resource', status: 200, isHeadSent: true, bytes: 0 } as const;
  http.finished({ ...request, outcome: 'memory' }, 0.001);
  http.finished({ ...request, outcome: 'miss' }, 0.004);
  http.finished({ ...request, outcome: 'memory', isHeadSent: false }, 0.001);
  fleet.observeAnswer('a b', 200, 0.004);
  fleet.observeFailure('a b', 'timeout', 4);

  const seen = countsOf(readFamilies(registry, countedFamilies));

  assert.equal(totalOf(bucketsOf(seen, 'requests')), 3);
  assert.equal(totalOf(bucketsOf(seen, 'route view')), 0);
  assert.equal(totalOf(bucketsOf(seen, 'outcome miss')), 1);
  assert.equal(seen.get('request resource refused'), 1);
  assert.equal(totalOf(attemptTimes(seen, 'a b')), 2);
  assert.deepEqual([seen.get('answered a b'), seen.get('failed a b')], [1, 1]);
});

test('a quantile is the estimate of histogram_quantile: linear within a bucket, the last bound beyond all', () => {
  const buckets = [
    [0.001, 90],
    [0.01, 99],
    [0.1, 99],
    [Infinity, 100],
  ] as const;
  assert.equal(quantile(buckets, 0.45), 0.5);
  assert.equal(quantile(buckets, 0.9), 1);
  assert.equal(quantile(buckets, 0.945)?.toFixed(6), '5.500000');
  assert.equal(quantile(buckets, 1), 100);
  assert.equal(quantile([[Infinity, 0]], 0.5), undefined);
  assert.equal(quantile([], 0.5), undefined);
});
