// LEDGERGATE_HOT_SECONDS and LEDGERGATE_HOT_RATE set the length and the requests per second of the open loop; the figure of
// the project’s claims is taken with 10 and 1000.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, Pool, request as send } from 'undici';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import type { ReceivedRequest } from '../../../src/sample/sample-node.ts';
import { errorBody } from '../../support/error-body.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  nodeAndGateway,
  probe,
  probeAt,
  testGateway,
  type TestGateway,
  statusesOf,
} from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { createSampleNode } from '../../support/sample-node.ts';

const hour = 3_600_000;
const shared = { latest: { maxStalenessMs: hour, maxClientStalenessMs: hour } };

test('reads of the latest state within the bound share one version and one upstream read', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: shared });

  const first = await gateway.get(probe);
  node.clock.advance(50n);
  const second = await gateway.get(`/accounts/0x0001/resource/0x1::ledgergate_sample::Probe`);
  const pinned = await gateway.get(`${probe}?ledger_version=${first.headers['ledgergate-served-version']}`);

  assert.match(first.text, /"ledger_version":"900"/);
  assert.deepEqual(second.body, first.body);
  assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.equal(second.headers['cache-control'], 'no-cache');
  assert.equal(second.headers['etag'], pinned.headers['etag']);
  assert.equal(pinned.headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.equal(node.requestsTo('resource'), 1);
});

test('a pinned read near the head is no floor of its connection, its version as a token is', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: shared });
  const agent = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => agent.close());
  const served = async (query = '', headers: Record<string, string> = {}): Promise<bigint> => {
    const { body, statusCode } = await send(`${gateway.url}${probe}${query}`, { dispatcher: agent, headers });
    assert.equal(statusCode, 200);
    return BigInt(((await body.json()) as { data: { ledger_version: string } }).data.ledger_version);
  };
  assert.equal(await served(), 900n);
  node.clock.advance(50n);

  // The second one is answered by memory.
  for (let read = 0; read < 2; read += 1) assert.equal(await served('?ledger_version=945'), 945n);
  assert.equal(await served(), 900n);
  assert.equal(await served('', { 'ledgergate-min-version': '945' }), 950n);
  assert.equal(await served(), 950n);
});

test('a token above every reported head is looked up before it is waited for', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 0 } } });
  await gateway.get(probe);

  for (const headers of [{}, { 'ledgergate-max-staleness': '0' }]) {
    node.clock.advance(50n);
    const there = String(node.clock.head);
    const reply = await gateway.get(probe, { 'ledgergate-min-version': there, ...headers });
    assert.deepEqual([reply.status, reply.headers['ledgergate-served-version']], [200, there]);
  }
});

test('while a token is waited for, nodes without news are probed', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 9_000 } } });
  const startedMs = performance.now();

  const reply = gateway.get(probe, { 'ledgergate-min-version': '940' });
  await until(() => node.requestsTo('ledgerInfo') >= 3);
  node.clock.advance(50n);

  assert.equal((await reply).headers['ledgergate-served-version'], '950');
  assert.ok(performance.now() - startedMs < 8_000);
});

test('a version the fleet does not reach in time is 503 with both versions, never older data', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 20 } } });

  for (const path of [probe, '/accounts/0x1', '/accounts/0x1?x=1', '']) {
    const reply = await gateway.get(path, { 'ledgergate-min-version': '2000' });

    const error = JSON.parse(reply.text) as { message: string; error_code: string };
    assert.deepEqual([reply.status, error.error_code, reply.headers['retry-after']], [503, 'internal_error', '1']);
    assert.match(error.message, /900.*2000/);
  }
});

test('a lagging node\u2019s "no such resource" is final for no client that has seen newer versions', async (t) => {
  const lagging = await fakeNode(t, { head: 800n });
  const fresh = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [lagging, fresh], config: { latest: { maxStalenessMs: 0 } } });
  const young = '/accounts/0x1/resource/0x1::young::Thing';
  const [shown, passed] = [await gateway.get(probe), await gateway.get('/accounts/0x1?x=1')];
  const before = await gateway.get(young);
  await fresh.refuse();

  const seen = { 'ledgergate-min-version': '900' };
  const replies = [
    await gateway.get(young, seen),
    await gateway.get('/accounts/0x1/balance/0x1::young::Coin?x=1', seen),
  ];
  const other = await gateway.get(probe);

  assert.deepEqual(
    [shown, passed, before].map(({ status, headers }) => [status, headers['ledgergate-served-version']]),
    [
      [200, '900'],
      [200, '900'],
      [404, '900'],
    ],
  );
  assert.deepEqual(statusesOf(replies), [503, 503]);
  assert.match(replies[0]?.text ?? '', /no node that can be reached holds ledger version 900 yet/);
  assert.deepEqual([other.status, other.headers['ledgergate-served-version']], [200, '800'], 'any other client');
});

for (const [kind, more] of [
  ['list', ''],
  ['passed list', '&x=1'],
] as const) {
  test(`a ${kind} that begins above a lagging node\u2019s head is not refused`, async (t) => {
    const lagging = await fakeNode(t, { head: 800n, chainId: 4 });
    const fresh = await fakeNode(t, { head: 900n, chainId: 4 });
    const refusal = errorBody('invalid_input', 'Given start value is higher than the current ledger version');
    answersLists(lagging, { status: 400, body: refusal, headers: ledgerHeaders({ version: 800n }) });
    answersLists(fresh, { status: 200, body: '[{"version":"850"}]', headers: ledgerHeaders({ version: 900n }) });
    const gateway = await testGateway(t, { full: [lagging, fresh] });

    const found = await gateway.get(`/transactions?start=850${more}`);
    await fresh.refuse();
    const lost = await gateway.get(`/transactions?start=850${more}`);
    const future = await gateway.get(`/transactions?start=850000${more}`);

    assert.deepEqual([found.status, lost.status, future.status], [200, 503, 400]);
    assert.equal(found.headers['ledgergate-served-version'], undefined);
  });
}

/** The sample node has no lists of transactions. */
function answersLists(node: FakeNode, answer: { status: number; body: string; headers: Record<string, string> }): void {
  node.faults.add({ kind: 'answer', ...answer }, { when: ({ url }) => url.includes('/transactions?') });
}

test('a fresh node that hangs delays reads of latest by one short probe only', async (t) => {
  const fresh = await fakeNode(t, { head: 901n });
  const other = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [fresh, other], config: { upstream: { timeoutMs: 9_000 } } });
  fresh.fault = { kind: 'hang' };
  const startedMs = performance.now();

  const reply = await gateway.get(probe);

  assert.match(reply.text, /"ledger_version":"900"/);
  assert.ok(performance.now() - startedMs < 8_000);
});

test('Ledgergate-Max-Staleness tightens and loosens the bound; a malformed duration is refused', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: shared });
  await gateway.get(probe);
  node.clock.advance(50n);

  const loose = await gateway.get(probe, { 'ledgergate-max-staleness': '30m' });
  const tight = await gateway.get(probe, { 'ledgergate-max-staleness': '0' });
  const bad = await gateway.get(probe, { 'ledgergate-max-staleness': 'soon' });
  const badVersion = await gateway.get(probe, { 'ledgergate-min-version': 'newest' });

  assert.equal(loose.headers['ledgergate-served-version'], '900');
  assert.equal(tight.headers['ledgergate-served-version'], '950');
  assert.deepEqual([bad.status, badVersion.status], [400, 400]);
});

test('the ledger info is of one snapshot, with the oldest version of the fleet', async (t) => {
  const full = await fakeNode(t, { oldest: 500n, head: 900n });
  const archival = await fakeNode(t, { archival: true, head: 880n });
  const gateway = await testGateway(t, { full: [full], archival: [archival], config: shared });

  const reply = await fetchReply(gateway.url, { method: 'GET' });
  await fetchReply(gateway.url, { method: 'GET' });

  const info = JSON.parse(reply.text) as Record<string, unknown>;
  assert.equal(info['ledger_version'], '900');
  assert.equal(info['oldest_ledger_version'], '0');
  assert.equal(info['oldest_block_height'], '0');
  assert.equal(full.requestsTo('ledgerInfo'), 2);
});

test('the ledger info in BCS, or with a trailing slash, is never older than a version that the client has seen', async (t) => {
  const lagging = await fakeNode(t, { head: 800n });
  const fresh = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [lagging, fresh] });
  const bcs = { accept: 'application/x-bcs' };
  const before = [await gateway.get('/'), await gateway.get('', bcs), await gateway.get('/', bcs)];
  await fresh.refuse();
  const seen = (version: number) => ({ ...bcs, 'ledgergate-min-version': String(version) });
  const after = [
    await gateway.get('', seen(900)),
    await gateway.get('/', { 'ledgergate-min-version': '901' }),
    await gateway.get('', bcs),
  ];
  lagging.fault = { kind: 'html' };
  after.push(await gateway.get('', bcs));

  assert.deepEqual(
    before.map(({ status, headers }) => [status, headers['content-type']?.split(';')[0]]),
    [
      [200, 'application/json'],
      [200, 'application/x-bcs'],
      [200, 'application/x-bcs'],
    ],
  );
  assert.equal(before[1]?.headers['ledgergate-served-version'], '900');
  assert.deepEqual(statusesOf(after), [503, 503, 200, 503]);
});

test('requests that hold every connection to a node do not delay its probe', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = { upstream: { connections: 2 }, latest: { maxStalenessMs: 0 } };
  const gateway = await testGateway(t, { full: [node], config });
  const resolve = node.hold({ when: ({ route }) => route === 'view' });
  const view = JSON.stringify({ function: '0x1::slow::view', type_arguments: [], arguments: [] });
  const slow = [1, 2, 3, 4].map((version) => gateway.post(`/view?ledger_version=${version}`, view));
  await until(() => node.requestsTo('view') >= 2);

  const info = await gateway.get('');

  assert.deepEqual([info.status, node.requestsTo('view')], [200, 2]);
  resolve();
  await Promise.all(slow);
});

test('with Max-Staleness 0 heads of one moment decide the freshest node, not older reports', async (t) => {
  const fresh = await fakeNode(t, { oldest: 800n, head: 1_000n });
  const behind = await fakeNode(t, { head: 990n });
  const gateway = await testGateway(t, { full: [fresh, behind] });
  const exact = { 'ledgergate-max-staleness': '0ms' };
  fresh.clock.advance(100n);
  behind.clock.advance(100n);
  // Only the node that is behind has reported its head since: it seems ahead by 90 versions.
  assert.equal(
    (await gateway.get(`${probe}?ledger_version=500`)).headers['cache-status'],
    'ledgergate; fwd=miss; detail=full-1',
  );

  const own = await gateway.get(probe, exact);
  const passed = await gateway.get('/accounts/0x1?x=1', exact);

  assert.deepEqual(
    [own, passed].map(({ headers }) => headers['ledgergate-served-version']),
    ['1100', '1100'],
  );
});

const isRead = ({ route }: ReceivedRequest): boolean => route !== 'ledgerInfo';

test('a node that refuses its own head as pruned gives no 410 to a client that named no version', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const body = '{"message":"Ledger version(900) has been pruned","error_code":"version_pruned","vm_error_code":null}';
  const headers = ledgerHeaders({ version: 900n, chainId: node.chainId });
  node.faults.add({ kind: 'answer', status: 410, body, headers }, { when: isRead });
  const fresh = { 'ledgergate-max-staleness': '0' };

  const replies = {
    resource: await gateway.get(probe),
    account: await gateway.get('/accounts/0x1'),
    passed: await gateway.get('/accounts/0x1?x=1'),
    freshResource: await gateway.get(probe, fresh),
    freshPassed: await gateway.get('/accounts/0x1?x=1', fresh),
  };
  const named = await gateway.get(probeAt(900));

  for (const [what, { status, headers: given }] of Object.entries(replies)) {
    assert.deepEqual([status, given['retry-after']], [503, '1'], what);
  }
  assert.equal(named.status, 410);
});

// Reads of history with a version that the client has seen: the part of it that grows is not older than that.

const account = '/accounts/0x5a000001';

/** Lists and blocks that run into the head at version 1,000; a node with the head 985 has a part of them. */
const growing: readonly ((n: number) => string)[] = [
  (n) => `/transactions?start=${970 + n}&limit=100`,
  (n) => `/transactions/auxiliary_info?start_version=${970 + n}&limit=100`,
  () => '/blocks/by_height/49',
  () => '/blocks/by_height/49?with_transactions=true',
  (n) => `/blocks/by_version/${980 + (n % 5)}`,
  (n) => `${account}/events/3?start=${40 + (n % 10)}&limit=50`,
  (n) => `${account}/events/3?limit=${10 + n}`,
  (n) => `${account}/transactions?limit=${10 + n}`,
  (n) => `/transactions?limit=${10 + n}`,
];

test('history with a version that the client has seen is answered by a node that has reached it', async (t) => {
  const behind = await fakeNode(t, { head: 985n });
  const fresh = await fakeNode(t, { head: 1_000n });
  const gateway = await testGateway(t, { full: [behind, fresh], config: { upstream: { probeIntervalMs: 10 } } });
  for (const path of growing) {
    for (let n = 0; n < 5; n += 1) {
      const own = await (await fetch(fresh.url + path(n))).text();
      const reply = await gateway.get(path(n), { 'ledgergate-min-version': '1000' });
      assert.deepEqual([reply.status, reply.text], [200, own], path(n));
    }
  }
});

// Reads of "latest" that clients repeat are made at the next shared state ahead of their first client.

/** A shared state lasts for two seconds, in which a busy machine makes some reads. */
const config = { latest: { maxStalenessMs: 2_000 } };
const resultsOf = (result: string): string => `ledgergate_hot_reads_total{result="${result}"}`;
const misses = 'ledgergate_cache_reads_total{kind="resource",result="miss"}';
/** No client repeats it. */
const other = probe.replace('0x1/', '0x2/');

/** Asks for the read within one state; the first version is 900. */
async function poll(gateway: TestGateway, path: string, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const { headers } = await gateway.get(path);
    assert.equal(headers['ledgergate-served-version'], '900');
  }
}

/** Waits until reads share the state at version 950, and the first client reads of it. */
async function renewed(gateway: TestGateway): Promise<void> {
  await until(async () => (await gateway.get('')).text.includes('"ledger_version":"950"'), 20);
  assert.equal((await gateway.get(other)).headers['ledgergate-served-version'], '950');
}

test('of what clients repeat, one of them waits at the next state, and none of the others', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config });
  const polled = Array.from({ length: 8 }, (_, index) => probe.replace('0x1/', `0xa${index}/`));
  await Promise.all(polled.map((path) => poll(gateway, path, 3)));
  assert.equal(node.reads, polled.length);
  node.clock.advance(50n);
  await renewed(gateway);
  await until(async () => (await gateway.metric(resultsOf('ahead'))) === polled.length, 20);

  for (const path of polled) {
    const { headers } = await gateway.get(path);
    assert.equal(headers['ledgergate-served-version'], '950');
    assert.match(headers['cache-status'] ?? '', /; hit/);
  }
  assert.equal(node.reads, 2 * polled.length + 1, 'one call for each read and state');
  assert.equal(await gateway.metric(misses), polled.length + 1, 'a read ahead is no miss of a client');
});

test('a client that comes while the read ahead is in flight joins it', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config });
  await poll(gateway, probe, 3);
  const held = Promise.withResolvers<void>();
  t.after(() => held.resolve());
  node.faults.add(
    { kind: 'hold', until: held.promise },
    { when: ({ url }) => !url.includes('0x2/') && url.includes('/resource/') },
  );
  node.clock.advance(50n);
  await renewed(gateway);
  await until(() => node.reads === 3, 20);
  const joined = gateway.get(probe);
  await until(async () => (await gateway.metric(misses)) === 3);
  held.resolve();

  assert.match((await joined).headers['cache-status'] ?? '', /collapsed/);
  assert.equal(node.reads, 3);
});

// An open loop.

const seconds = Number(process.env['LEDGERGATE_HOT_SECONDS'] ?? 1);
const requestsPerSecond = Number(process.env['LEDGERGATE_HOT_RATE'] ?? 400);
const keys = 20;
const boundMs = 200;

test(`${keys} hot keys read at latest for ${seconds} s cost one upstream read per key and bound, and are never staler`, async (t) => {
  const ledger = { startHead: 1_000_000n, startMs: Date.now() };
  const node = await createSampleNode({ clock: advancingClock(ledger), keepRequests: 1 });
  t.after(() => node.close());
  const gateway = await testGateway(t, { full: [node], config: { latest: { maxStalenessMs: boundMs } } });
  const pool = new Pool(new URL(gateway.url).origin, { connections: 1_000 });
  t.after(() => pool.close());
  const seen = { hits: 0, misses: 0, stale: 0, failed: 0 };

  const read = async (turn: number): Promise<void> => {
    const path = `/v1/accounts/0x5a0000${(turn % keys).toString(16).padStart(2, '0')}/resource/0x1::ledgergate_sample::Probe`;
    const askedMs = Date.now();
    const { statusCode, headers, body } = await pool.request({ method: 'GET', path });
    const version = /"ledger_version":"(\d+)"/.exec(await body.text())?.[1];
    if (statusCode !== 200 || version === undefined) {
      seen.failed += 1;
      return;
    }
    seen[String(headers['cache-status']).includes('; hit') ? 'hits' : 'misses'] += 1;
    // The ledger's version one bound before the request, by the node's own clock.
    const due = advancingClock({ ...ledger, now: () => askedMs - boundMs }).read().version;
    if (BigInt(version) < due) seen.stale += 1;
  };
  const pending: Promise<void>[] = [];
  const startMs = performance.now();
  for (let turn = 0; turn < seconds * requestsPerSecond; turn += 1) {
    const dueMs = startMs + (turn * 1_000) / requestsPerSecond;
    if (performance.now() < dueMs) await sleep(Math.max(1, dueMs - performance.now()));
    pending.push(read(turn));
  }
  await Promise.all(pending);

  const bounds = (performance.now() - startMs) / boundMs;
  const [reads, looks] = [node.requestsTo('resource'), node.requestsTo('ledgerInfo')];
  const [readsPerBound, looksPerBound] = [reads / bounds, looks / bounds].map((count) => count.toFixed(1));
  t.diagnostic(`${JSON.stringify(seen)}; per ${boundMs} ms: ${readsPerBound} reads, ${looksPerBound} looks`);
  assert.deepEqual({ stale: seen.stale, failed: seen.failed }, { stale: 0, failed: 0 });
  // Each look at the ledger costs at most one read of each key, and there is about one look per bound.
  assert.ok(reads <= keys * looks);
  assert.ok(looks <= bounds * 1.05 + 3);
});
