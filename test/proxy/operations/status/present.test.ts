import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disagreement } from '../../../../src/proxy/reads/index.ts';
import { mergeStatus } from '../../../../src/proxy/operations/status/report.ts';
import { factsOf } from '../../../../src/proxy/operations/status/present.ts';
import { factsFrom, nodeStatus, processStatus, windowsOf } from '../../../support/process-status.ts';

test('without problems the state is ready', () => {
  const { state, problems, uptimeSeconds } = factsFrom();
  assert.deepEqual({ state, problems, uptimeSeconds }, { state: 'ready', problems: [], uptimeSeconds: 60 });
});

test('problems are listed worst first and make the state degraded', () => {
  const { state, problems } = factsFrom(
    {
      disagreements: [{ upstreams: ['a', 'b'], count: 2, lost: {}, last: '2026-01-01T00:00:00Z' }],
      distrusted: ['0x1::m::f'],
      nodes: [
        nodeStatus({ name: 'a', state: 'down', reason: 'time-out' }),
        nodeStatus({ name: 'b', ejected: [{ readClass: 'view', reason: 'timeout' }] }),
        nodeStatus({ name: 'c', isSuspect: true }),
        nodeStatus({ name: 'd', state: 'foreign', reason: 'other chain' }),
      ],
      redis: { trouble: 'no answer' },
      certificateExpiresMs: 61_000 + 3_600_000,
    },
    {
      reload: { at: '1970-01-01T00:00:00.000Z', result: 'refused', needsRestart: [] },
      workers: { wanted: 4, answering: 3 },
    },
  );
  assert.equal(state, 'degraded');
  assert.deepEqual(problems, [
    '3 of 4 workers answer',
    'a and b answered 2 pinned reads differently',
    'nodes encode a function differently',
    'a is down: time-out',
    'c reports a head that the other nodes contradict',
    'd is not asked: other chain',
    'b is passed over for views (no answer in time)',
    'Redis: no answer',
    'the last config was refused',
    'the certificate ends 1970-01-01T01:01:01.000Z',
  ]);
});

test('without any report the state says so, and claims nothing about nodes', () => {
  const gateway = { version: '1', nowMs: 1, isDraining: false, reload: undefined };
  const { state, summary, problems } = factsOf(undefined, { ...gateway, workers: { wanted: 2, answering: 0 } });
  assert.deepEqual(
    [state, summary, problems],
    ['starting', 'No worker has reported in time.', ['0 of 2 workers answer']],
  );
  assert.deepEqual(factsOf(undefined, gateway).nodes, []);
});

/** Problems of so many requests in each window, of which `refused` got 503 and 410 and found no allowance. */
const problemsWith = (refused: number, requests: number) => {
  const names = ['status 503', 'status 410', 'allowance full-a'];
  const counts = new Map([['requests +Inf', requests], ...names.map((name) => [name, refused] as const)]);
  return factsFrom({ windows: windowsOf(counts, 100) }).problems;
};

test('shares of 410 and 503 and a used-up allowance are problems, a few among many are none', () => {
  assert.deepEqual(problemsWith(60, 1_000), [
    '6.0 % of requests in 100 s got 503',
    '6.0 % of requests in 100 s got 410',
    'the allowance of full-a is used up: 60 refused in 100 s',
  ]);
  assert.deepEqual(problemsWith(20, 1_000), [
    '2.0 % of requests in 100 s got 503',
    'the allowance of full-a is used up: 20 refused in 100 s',
  ]);
  // Nine of ten are a large share, and prove nothing.
  assert.deepEqual(problemsWith(9, 10), ['the allowance of full-a is used up: 9 refused in 100 s']);
  assert.deepEqual(problemsWith(0, 0), []);
});

test('an outage, a start and an end are distinct states', () => {
  assert.equal(factsFrom({ isReady: false }).state, 'starting');
  assert.equal(factsFrom({ isReady: false, outage: { since: '2026-01-01T00:00:00Z', head: '90' } }).state, 'outage');
  assert.equal(factsFrom({}, { isDraining: true }).state, 'draining');
});

test('facts have a form in JSON that programs can read: no number that is none, versions as text', () => {
  const text = JSON.stringify(factsFrom());
  assert.doesNotMatch(text, /null|NaN/);
  assert.match(text, /"head":"3412674839"/);
});

test('the reports of several workers add up', () => {
  const load = { connections: 1, maxConnections: 100, streams: 1, maxStreams: 50, isOverloaded: false };
  const one = processStatus({
    isReady: false,
    outage: { since: '2026-01-01T00:00:00.000Z', head: '90' },
    head: '90',
    oldest: '5',
    nodes: [nodeStatus({ state: 'down', head: '90' })],
    total: new Map([['answered full-a', 1]]),
    windows: windowsOf(new Map([['answered full-a', 1]]), 3),
    load: { ...load, loopLagMs: 50, waiting: 3 },
    redis: { trouble: undefined },
    distrusted: ['f'],
    follower: { state: 'running', next: '91', lagSeconds: 0.5 },
  });
  const other = processStatus({
    head: '100',
    oldest: '7',
    nodes: [nodeStatus({ head: '100', ejected: [{ readClass: 'view', reason: 'error' }] })],
    total: new Map(Object.entries({ 'answered full-a': 4, evicted: 2 })),
    windows: windowsOf(new Map([['answered full-a', 2]]), 9),
    load: { ...load, connections: 2, loopLagMs: 10, isOverloaded: true, waiting: 4 },
    redis: { trouble: 'left alone' },
    distrusted: ['f', 'g'],
  });

  const merged = mergeStatus([one, other]) ?? assert.fail();

  assert.deepEqual([merged.isReady, merged.outage, merged.head, merged.oldest], [true, undefined, '100', '5']);
  const [node] = merged.nodes;
  assert.deepEqual(
    [node?.state, node?.head, node?.usableBy, node?.inFlight, node?.limit, node?.ejected],
    ['usable', '100', 1, 4, 256, [{ readClass: 'view', reason: 'error' }]],
  );
  assert.deepEqual(Object.fromEntries(merged.total), { 'answered full-a': 5, evicted: 2 });
  const [window] = merged.windows;
  assert.deepEqual([window?.coveredSeconds, window?.counts.get('answered full-a')], [9, 3]);
  const sums = { connections: 3, maxConnections: 200, streams: 2, maxStreams: 100, waiting: 7 };
  assert.deepEqual(merged.load, { ...sums, loopLagMs: 50, isOverloaded: true });
  assert.deepEqual([merged.redis, merged.distrusted], [{ trouble: 'left alone' }, ['f', 'g']]);
  assert.deepEqual(merged.follower, { state: 'running', next: '91', lagSeconds: 0.5 });
  assert.equal(mergeStatus([]), undefined);
});

function disagreed(lost: Disagreement['lost'], count: number, last: string): readonly Disagreement[] {
  return [{ upstreams: ['a', 'b'], lost, count, last }];
}

test('what only one worker has found counts for all, and what several have is added up', () => {
  const store = { bytes: 5, maxBytes: 9, trouble: undefined };
  const merged = mergeStatus([
    processStatus({
      disagreements: disagreed({ a: 1, b: 2 }, 4, '2026-01-02'),
      pendingRenewals: ['tls.ca'],
      follower: { state: 'running', next: '91', lagSeconds: 0 },
      store,
    }),
    processStatus({
      disagreements: disagreed({ a: 3, b: 0 }, 3, '2026-01-01'),
      pendingRenewals: ['tls.ca', 'tls.key'],
      follower: { state: 'distrusted', next: undefined, lagSeconds: 0 },
      store: { ...store, trouble: 'full' },
    }),
  ]);

  assert.deepEqual(merged?.disagreements, disagreed({ a: 4, b: 2 }, 7, '2026-01-02'));
  assert.deepEqual([merged.pendingRenewals, merged.follower.state], [['tls.ca', 'tls.key'], 'distrusted']);
  assert.deepEqual(merged.store, { ...store, trouble: 'full' });
  assert.deepEqual(merged.cache, { entries: 20, bytes: 2_000, maxBytes: 8_000 });
});

test('a node that only one worker reports stays', () => {
  const merged = mergeStatus([processStatus({ nodes: [] }), processStatus({ nodes: [nodeStatus({ name: 'new' })] })]);
  assert.deepEqual(
    merged?.nodes.map(({ name }) => name),
    ['new'],
  );
});

test('the address of a Redis server distinguishes events, and is not published', () => {
  const events = ['10.9.8.7:6379', '10.9.8.6:6379'].map(
    (server) => ({ atMs: 1, kind: 'redis away', fields: { server } }) as const,
  );

  const merged = mergeStatus([processStatus({ events }), processStatus({ events })]);
  const facts = factsOf(merged, { version: '1', nowMs: 60_000, isDraining: false, reload: undefined });

  const text = 'Redis, or one of its nodes, is not asked until it answers again';
  assert.deepEqual(
    facts.events.map((event) => [event.text, event.workers]),
    [
      [text, 2],
      [text, 2],
    ],
  );
  assert.doesNotMatch(JSON.stringify(facts), /10\.9\.8/);
});
