/** Share of requests without a node, and routes that need nodes, from counted requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createHttpMetrics } from '../../../../src/proxy/http/request-metrics.ts';
import { outcomes, type Outcome, type RouteName } from '../../../../src/metrics/request-labels.ts';
import { readFamilies } from '../../../../src/metrics/family.ts';
import { countedFamilies, countsOf } from '../../../../src/proxy/operations/status/counts.ts';
import type { StatusFacts } from '../../../../src/proxy/operations/status/present.ts';
import { statusPage } from '../../../../src/proxy/operations/status/page/page.ts';
import { statusLines } from '../../../../src/proxy/operations/status/terminal.ts';
import { fc } from '../../../support/fast-check.ts';
import { factsFrom, windowsOf } from '../../../support/process-status.ts';

type Requests = readonly (readonly [route: RouteName, outcome: Outcome, count: number])[];

/** Facts after these requests within two seconds. */
function factsAfter(requests: Requests): StatusFacts {
  const registry = new Registry();
  const metrics = createHttpMetrics(registry);
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
  for (const outcome of outcomes) {
    const [window] = factsAfter([['view', outcome, 1]]).windows;
    const expected = {
      memory: 1,
      store: 1,
      redis: 1,
      collapsed: 1,
      local: 1,
      miss: 0,
      passed: 0,
      failed: 0,
      refused: undefined,
    };
    assert.equal(window?.withoutNodeShare, expected[outcome], outcome);
    assert.equal(window?.toNodesPerSecond, expected[outcome] === 0 ? 0.5 : 0, outcome);
  }
});

test('refusals, preflights and requests without a route are in no share', () => {
  const [window] = factsAfter(mixed).windows;
  assert.deepEqual([window?.withoutNodeShare, window?.toNodesPerSecond], [0.5384, 6]);
  assert.equal(window?.routes.find(({ route }) => route === 'none')?.withoutNodeShare, undefined);
});

test('routes that need nodes most come first', () => {
  const [window] = factsAfter(mixed).windows;
  assert.deepEqual(
    window?.routes
      .slice(0, 4)
      .map(({ route, requestsPerSecond, toNodesPerSecond, withoutNodeShare }) => [
        route,
        requestsPerSecond,
        toNodesPerSecond,
        withoutNodeShare,
      ]),
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
    fc.constantFrom<RouteName>('resource', 'view', 'submit', 'pass_through'),
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
