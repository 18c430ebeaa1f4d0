import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import * as format from '../../../../src/proxy/operations/status/format.ts';
import { addressOf, tableViewOf, nodesOf, sortedBy } from '../../../../src/proxy/operations/status/page/fleet.ts';
import { html } from '../../../../src/proxy/operations/status/page/html.ts';
import { policy, statusPage } from '../../../../src/proxy/operations/status/page/page.ts';
import { factsOf } from '../../../../src/proxy/operations/status/present.ts';
import { mergeStatus } from '../../../../src/proxy/operations/status/report.ts';
import { statusLines } from '../../../../src/proxy/operations/status/terminal.ts';
import type { Disagreement } from '../../../../src/proxy/reads/index.ts';
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

const hostile = `<img src=x onerror="alert(1)">'&\u001b[2J\u202e`;

const hostileFacts = factsFrom(
  {
    nodes: [nodeStatus({ name: hostile, ejected: [{ readClass: hostile, reason: hostile }] })],
    redis: { trouble: hostile },
    distrusted: [hostile],
    disagreements: [{ upstreams: [hostile, hostile], count: 1, lost: {}, last: hostile }],
    events: [{ atMs: 0, kind: 'encode mismatch', fields: { functionId: hostile, upstream: hostile } }],
  },
  { version: hostile },
);

test('data from outside is text on the page', () => {
  const page = statusPage(hostileFacts);
  assert.doesNotMatch(page, /<img/);
  assert.doesNotMatch(page, /onerror="/);
  assert.match(page, /&lt;img src=x onerror=&quot;alert\(1\)&quot;&gt;&#39;&amp;/);
});

test('data from outside is text in a terminal', () => {
  const lines = statusLines(JSON.stringify(hostileFacts)) ?? [];
  assert.doesNotMatch(lines.join(''), /[\p{Cc}\p{Cf}]/u);
  assert.ok(lines.some((line) => line.includes('<img src=x')));
});

test('escaping covers what ends a text or a quoted attribute', () => {
  assert.equal(
    html`<p title="${`"'<>&`}">${[html`<b>${'<'}</b>`, undefined, 3]}</p>`.text,
    '<p title="&quot;&#39;&lt;&gt;&amp;"><b>&lt;</b>3</p>',
  );
});

test('the policy allows this script and this style by hash, and nothing else', () => {
  const page = statusPage(factsFrom());
  for (const [, name, text = ''] of page.matchAll(/<(script|style)>(.*?)<\/\1>/gs)) {
    const digest = createHash('sha256').update(text).digest('base64');
    assert.ok(policy.includes(`${name}-src 'sha256-${digest}'`), name);
  }
  assert.match(policy, /^default-src 'none'; /);
  assert.doesNotMatch(policy, /unsafe/);
  // Neither attributes with styles nor anything from elsewhere.
  assert.doesNotMatch(page, / style=| on\w+=|https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
});

test('the page renders before any report', () => {
  const nothing = { head: undefined, oldest: undefined };
  const node = nodeStatus({ ...nothing, state: 'unproven', lag: undefined, edgeMargin: undefined });
  const page = statusPage(factsFrom({ ...nothing, isReady: false, chainId: undefined, nodes: [node] }));
  assert.match(page, /No node has reported its window yet/);
  assert.match(page, /unproven/);
});

test('numbers are formatted for people', () => {
  const { bytes, duration, milliseconds, percent, perSecond, short } = format;
  assert.deepEqual([0, 999, 1_000, 12_345, 4_000_000, 3.4e9].map(short), ['0', '999', '1k', '12k', '4M', '3.4G']);
  assert.deepEqual([undefined, 0, 0.5, 0.99999, 1].map(percent), ['–', '0 %', '50.0 %', '99.9 %', '100 %']);
  assert.equal([undefined, 0.05, 4.26, 120, 1_500].map(milliseconds).join(), '–,0.05 ms,4.3 ms,120 ms,1.5 s');
  assert.deepEqual([0, 59, 61, 3_600, 90_061].map(duration), ['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']);
  assert.deepEqual([10, 2_048, 300 * 2 ** 20].map(bytes), ['10 B', '2.0 KiB', '300 MiB']);
  assert.deepEqual([0, 0.4, 12, 1_234].map(perSecond), ['0/s', '0.4/s', '12/s', '1.2k/s']);
});

const facts = factsFrom({
  nodes: [
    nodeStatus({ name: 'full-a', head: '900', oldest: '500', inFlight: 1 }),
    nodeStatus({
      name: 'full-b',
      head: '1000',
      oldest: '400',
      inFlight: 7,
      ejected: [{ readClass: 'view', reason: 'error' }],
    }),
    nodeStatus({ name: 'Archive', tier: 'archival', head: '1000', oldest: '0', inFlight: 3 }),
    nodeStatus({ name: 'full-c', state: 'down', reason: 'time-out', head: undefined, oldest: undefined, inFlight: 0 }),
  ],
});
const namesBy = (query: object) => nodesOf(facts.nodes, tableViewOf(query)).map(({ name }) => name);

test('without an order problems come first, then the order of the config', () => {
  assert.deepEqual(namesBy({}), ['full-c', 'full-b', 'full-a', 'Archive']);
});

test('each column has an order, and its reverse', () => {
  const orders = {
    node: ['Archive', 'full-a', 'full-b', 'full-c'],
    head: ['full-c', 'full-a', 'full-b', 'Archive'],
    oldest: ['full-c', 'Archive', 'full-b', 'full-a'],
    load: ['full-b', 'Archive', 'full-a', 'full-c'],
  };
  for (const [sort, names] of Object.entries(orders)) assert.deepEqual(namesBy({ sort }), names, sort);
  assert.deepEqual(namesBy({ sort: '-load' }), orders.load.toReversed());
});

test('a filter matches a part of the name, the tier or the state', () => {
  assert.deepEqual(namesBy({ filter: 'ARCH' }), ['Archive']);
  assert.deepEqual(namesBy({ filter: ' time-out ' }), ['full-c']);
  assert.deepEqual(namesBy({ filter: 'passed' }), ['full-b']);
  assert.deepEqual(namesBy({ filter: 'nothing' }), []);
});

test('odd queries are none', () => {
  const usual = tableViewOf({});
  for (const query of [{ sort: 'constructor' }, { sort: ['head', 'node'] }, { filter: ['a', 'b'] }, { other: 'x' }]) {
    assert.deepEqual(tableViewOf(query), usual);
  }
  assert.equal(tableViewOf({ filter: 'x'.repeat(1_000) }).filter.length, 100);
});

test('addresses hold the view, and a second click reverses the order', () => {
  const view = tableViewOf({ sort: 'head', filter: 'a&b=c' });
  assert.equal(addressOf(view), '?sort=head&filter=a%26b%3Dc');
  assert.equal(sortedBy('head', view), '?sort=-head&filter=a%26b%3Dc');
  assert.equal(sortedBy('load', view), '?sort=load&filter=a%26b%3Dc');
  assert.equal(sortedBy('head', tableViewOf({ sort: '-head', all: '1' })), '?sort=head&all=1');
});

test('the table of a large fleet has 30 rows, and all on demand; the picture has 12', () => {
  const nodes = Array.from({ length: 100 }, (_, index) => nodeStatus({ name: `node-${index}` }));
  const large = factsFrom({ nodes });
  const rows = (query: object) =>
    statusPage(large, tableViewOf(query)).match(/<th scope="row" role="rowheader">/g)?.length;
  assert.deepEqual([rows({}), rows({ all: '1' }), rows({ filter: 'node-7' })], [30, 100, 11]);
  const page = statusPage(large);
  assert.match(page, /href="\?all=1">Show all 100 nodes</);
  assert.equal(page.match(/class="track" x="0"/g)?.length, 12);
});

test('a filter from outside is text on the page', () => {
  const nodes = Array.from({ length: 10 }, (_, index) => nodeStatus({ name: `node-${index}` }));
  const page = statusPage(factsFrom({ nodes }), tableViewOf({ filter: '"><script>alert(1)</script>' }));
  assert.doesNotMatch(page, /<script>alert/);
});
