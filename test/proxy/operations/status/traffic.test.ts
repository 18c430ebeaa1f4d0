/** Shares of requests, routes that need nodes, and versions that reads are behind, from counted requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createLatestMetrics } from '../../../../src/proxy/reads/freshness.ts';
import { createHttpMetrics } from '../../../../src/proxy/http/http-metrics.ts';
import { routeNames } from '../../../../src/proxy/routes/route-table.ts';
import { outcomes, type Outcome } from '../../../../src/metrics/request-labels.ts';
import { readFamilies } from '../../../../src/metrics/family.ts';
import { countedFamilies, countsOf, distancesOf } from '../../../../src/proxy/operations/status/counts.ts';
import type { StatusFacts } from '../../../../src/proxy/operations/status/present.ts';
import { statusPage } from '../../../../src/proxy/operations/status/page/page.ts';
import { statusLines } from '../../../../src/proxy/operations/status/terminal.ts';
import { fc } from '../../../support/fast-check.ts';
import { factsFrom, windowsOf } from '../../../support/process-status.ts';

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
