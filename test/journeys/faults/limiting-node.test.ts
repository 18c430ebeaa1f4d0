/** A node that limits or sheds requests is asked after the others, and its refusals fail no read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorBody } from '../../support/error-body.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { pooledGet, probeAt, testGateway, twoTiers } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { watchStalls } from '../../support/stalls.ts';
import { encodeRequest, submission } from '../../support/submission.ts';
import { askH1, askH2, authority, h2Session, type Asked } from '../../support/tls.ts';

const overloaded = '{"message":"busy","error_code":"overloaded","vm_error_code":null}';
const internal = '{"message":"busy","error_code":"internal_error","vm_error_code":null}';

const refusals = [
  ['429 with Retry-After', { status: 429, body: '', headers: { 'retry-after': '20' } }],
  ['429 as a page', { status: 429, body: '<h1>429</h1>', contentType: 'text/html' }],
  ['overloaded', { status: 503, body: overloaded }],
  ['503 with ledger headers', { status: 503, body: internal, headers: ledgerHeaders({ version: 90_000n }) }],
  ['503 with Retry-After', { status: 503, body: '', headers: { 'retry-after': '20' } }],
] as const;

for (const [index, [what, answer]] of refusals.entries()) {
  // For the first one more reads come than retries are saved up.
  const reads = index === 0 ? 600 : 100;
  test(`${what} from the node that is asked first: ${reads} reads are answered, and few of them ask it`, async (t) => {
    // The limiting node is shallower, so it is asked first.
    const limiting = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [limiting], archival: [good] });
    limiting.faults.add({ kind: 'answer', ...answer }, { when: ({ route }) => route === 'resource' });
    const stalls = watchStalls(t);
    const startedMs = performance.now();
    const statuses = new Map<number, number>();
    const get = pooledGet(t, gateway);

    for (let index = 0; index < reads; index += 20) {
      const batch = Array.from({ length: 20 }, (_, offset) => get(probeAt(60_000 + index + offset)));
      for (const { status } of await Promise.all(batch)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }

    assert.deepEqual([...statuses], [[200, reads]]);
    // Pauses double: some twelve in half a minute, and a batch of 20 at the end of each.
    const tookMs = performance.now() - startedMs;
    stalls.judge(
      limiting.requestsTo('resource') <= reads * 0.4 + 20,
      `${limiting.requestsTo('resource')} in ${tookMs} ms`,
    );
    assert.equal(gateway.fleet()[0]?.state, 'usable');
    assert.ok((await gateway.metric('ledgergate_upstream_deferrals_total{upstream="full-0"}')) >= 1);
    assert.equal(await gateway.metric('ledgergate_retries_total{outcome="refused"}'), 0);
  });
}

test('a limiting node is asked for versions that only it holds, and its own refusal is the answer', async (t) => {
  const { archival: archive, gateway } = await twoTiers(t, {}, { oldest: 50_000n, head: 90_000n });
  archive.faults.add({ kind: 'answer', status: 429, body: overloaded }, { times: 1 });

  const refused = await gateway.get(probeAt(100));
  const answered = await gateway.get(probeAt(100));

  assert.deepEqual([refused.status, answered.status], [503, 200]);
});

test('with every node refusing, going on to the next one is a retry, and retries stay a share of the reads', async (t) => {
  const nodes = await Promise.all([1, 2, 3].map(() => fakeNode(t, { archival: true, head: 90_000n })));
  const gateway = await testGateway(t, { full: nodes });
  for (const { faults } of nodes) {
    faults.add({ kind: 'answer', status: 429, body: overloaded }, { when: ({ route }) => route === 'resource' });
  }
  const reads = 800;
  const get = pooledGet(t, gateway);
  const startedMs = performance.now();

  for (let index = 0; index < reads; index += 50) {
    const batch = Array.from({ length: 50 }, (_, offset) => get(probeAt(60_000 + index + offset)));
    for (const { status } of await Promise.all(batch)) assert.equal(status, 429);
  }

  const retried = nodes.reduce((sum, node) => sum + node.reads, 0) - reads;
  const seconds = (performance.now() - startedMs) / 1000;
  // A fifth of the reads, 500 saved up, ten a second; and while some node is not deferred, first attempts are free.
  assert.ok(retried <= reads * 0.2 + 500 + 10 * (seconds + 1) + 500, `${retried} retries`);
});

test('after a pause an accepted submission brings the node back as well', async (t) => {
  const limiting = await fakeNode(t, { head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n, archival: true });
  const gateway = await testGateway(t, { full: [limiting], archival: [other] });
  limiting.faults.add({ kind: 'answer', status: 429, body: overloaded }, { times: 1 });
  let sequenceNumber = 0;
  const submit = () => gateway.post('/transactions', submission({ sequenceNumber: (sequenceNumber += 1) }));
  assert.equal((await submit()).status, 429);
  assert.equal(other.requestsTo('submit'), 0);

  await until(async () => {
    assert.equal((await submit()).status, 202);
    return limiting.requestsTo('submit') >= 2;
  }, 20);
  const before = limiting.requestsTo('submit');
  for (let count = 0; count < 5; count += 1) assert.equal((await submit()).status, 202);

  assert.equal(limiting.requestsTo('submit') - before, 5);
});

// A node that refuses all reads of a class, by its configuration or against its own headers, is passed over.

const ledger = ledgerHeaders({ version: 90_000n, oldest: 50_000n });

for (const [what, answer, reason] of [
  ['api_disabled', { status: 403, body: errorBody('api_disabled') }, 'refused'],
  [
    '410 for what its headers show as held',
    { status: 410, body: errorBody('version_pruned'), headers: ledger },
    'error',
  ],
  [
    '410 for a version that its headers show as pruned',
    {
      status: 410,
      body: errorBody('version_pruned'),
      headers: ledgerHeaders({ version: 90_001n, oldest: 89_000n }),
    },
    undefined,
  ],
] as const) {
  test(`${what}: ${reason !== undefined ? 'the node is passed over after five reads, trials included' : 'a fact about the node, and no failure'}`, async (t) => {
    const refusing = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [refusing, good] });
    refusing.faults.add({ kind: 'answer', ...answer }, { when: ({ route }) => route === 'resource' });
    const ejections = `ledgergate_upstream_ejections_total{upstream="full-0",class="head",reason="${reason ?? 'error'}"}`;
    // Enough reads for an ejection, and for longer than the first pause, so that a trial is made as well.
    const get = pooledGet(t, gateway);
    for (let version = 60_000; version < 60_090; version += 1) {
      assert.equal((await get(probeAt(version))).status, 200);
      if (version >= 60_015) await sleep(20);
    }

    assert.equal(await gateway.metric(ejections), Number(reason !== undefined));
    if (reason !== undefined)
      assert.ok(refusing.requestsTo('resource') <= 7, `${refusing.requestsTo('resource')} reads`);
  });
}

// A node's `Retry-After` is kept to: until then it gets probes, and single reads that no other node can answer.

const limited = '{"message":"busy","error_code":"rate_limited","vm_error_code":null}';

/** The node refuses requests other than looks with `Retry-After`, as many as `times`. */
function refuse(node: FakeNode, seconds: number, times = Infinity): void {
  const headers = { 'retry-after': String(seconds) };
  node.faults.add(
    { kind: 'answer', status: 429, body: limited, headers },
    { when: ({ route }) => route !== 'ledgerInfo', times },
  );
}

test('Retry-After: 1 of one of two full nodes: no read reaches it until then, and then it is asked again', async (t) => {
  const limiting = await fakeNode(t, { oldest: 50_000n, head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [limiting, other] });
  refuse(limiting, 1, 1);
  let version = 60_000;
  const arrival = (): Promise<number> => limiting.log.next().then(() => performance.now());
  const refused = arrival();
  while (limiting.reads === 0) assert.equal((await gateway.get(probeAt((version += 1)))).status, 200);
  const refusedMs = await refused;
  const again = arrival();

  await until(async () => {
    assert.equal((await gateway.get(probeAt((version += 1)))).status, 200);
    return limiting.reads > 1;
  }, 10);

  const waitedMs = (await again) - refusedMs;
  assert.ok(waitedMs >= 1_000, `asked again after ${waitedMs} ms`);
});

test('Retry-After: 30 of the only archive: reads of old versions get 503 with the rest of it, recent ones are answered', async (t) => {
  const { archival, gateway } = await twoTiers(t, {}, { oldest: 50_000n, head: 90_000n });
  refuse(archival, 30);
  const startedMs = performance.now();
  await gateway.get(probeAt(99));

  const old = await Promise.all(Array.from({ length: 50 }, (_, index) => gateway.get(probeAt(100 + index))));
  const recent = await gateway.get(probeAt(60_000));

  assert.equal(recent.status, 200);
  assert.deepEqual(new Set(old.map(({ status }) => status)), new Set([503]));
  for (const { headers } of old) assert.match(headers['retry-after'] ?? '', /^(?:2[5-9]|30)$/);
  // One more for each second that has passed.
  const seconds = (performance.now() - startedMs) / 1_000;
  assert.ok(archival.reads <= 1 + seconds, `${archival.reads} reads`);
});

test('a submission and a long poll at a fleet that asks to wait get 503 at once, and no node gets them', async (t) => {
  const node = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [node] });
  refuse(node, 30, 1);
  await gateway.get(probeAt(60_000));
  const before = node.reads;

  const submitted = await gateway.post('/transactions', submission({ sequenceNumber: 1 }));
  const waited = await gateway.get(`/transactions/wait_by_hash/0x${'1'.repeat(64)}`);
  const encoded = await gateway.post('/transactions/encode_submission', encodeRequest('0x1::m::f'));

  for (const { status, headers } of [submitted, waited, encoded]) {
    assert.equal(status, 503);
    assert.match(headers['retry-after'] ?? '', /^(?:2\d|30)$/);
  }
  assert.equal(node.reads, before);
});

test('audits pass over a node that asks to wait', async (t) => {
  const held = await fakeNode(t, { oldest: 50_000n, head: 90_000n });
  const others = await Promise.all([1, 2].map(() => fakeNode(t, { head: 90_000n })));
  const gateway = await testGateway(t, { full: [held, ...others], config: { upstream: { audit: 1 } } });
  refuse(held, 30, 1);
  await gateway.get(probeAt(60_000));
  assert.equal(held.reads, 1);

  for (let version = 60_001; version <= 60_020; version += 1) {
    assert.equal((await gateway.get(probeAt(version))).status, 200);
  }

  await eventually(
    () => gateway.metric('ledgergate_audits_total{result="equal"}'),
    (count) => count >= 20,
  );
  assert.equal(held.reads, 1);
});

test('looks at the ledger info go on within a Retry-After, and one that is refused is a sign of life', async (t) => {
  const node = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [node], config: { upstream: { probeIntervalMs: 20 } } });
  const looks = node.requestsTo('ledgerInfo');
  node.fault = { kind: 'answer', status: 429, body: '' };
  await until(() => node.requestsTo('ledgerInfo') >= looks + 5);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
  node.fault = undefined;
  refuse(node, 30, 1);
  await gateway.get(probeAt(60_000));
  const before = node.requestsTo('ledgerInfo');

  await until(() => node.requestsTo('ledgerInfo') >= before + 5);

  assert.equal((await gateway.get('')).status, 200);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
});

const json = { 'content-type': 'application/json' };
const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });
const requests: readonly Asked[] = [
  { path: `/v1${probeAt(60_000)}` },
  { path: `/v1${probeAt(60_000)}`, method: 'HEAD' },
  { path: `/v1${probeAt(60_000)}&x=1` },
  { path: '/v1/view?ledger_version=60000', method: 'POST', headers: json, body: view },
  { path: '/v1/estimate_gas_price' },
  { path: `/v1/transactions/wait_by_hash/0x${'1'.repeat(64)}` },
  { path: '/v1/transactions', method: 'POST', headers: json, body: submission() },
  { path: '/v1/transactions/encode_submission', method: 'POST', headers: json, body: encodeRequest('0x1::m::f') },
];

for (const [status, given] of [
  [503, undefined],
  [429, '7'],
] as const) {
  const named = given === undefined ? 'no Retry-After: clients get one' : `Retry-After: ${given}: clients get it`;
  test(`a node's own ${status} with ${named}, and its body, on every route, over HTTP/1.1 and HTTP/2`, async (t) => {
    const node = await fakeNode(t, { head: 90_000n });
    const body = '{"message":"later","error_code":"internal_error","vm_error_code":null}';
    const headers = given === undefined ? {} : { 'retry-after': given };
    node.faults.add({ kind: 'answer', status, body, headers }, { when: ({ route }) => route !== 'ledgerInfo' });
    const root = authority(t);
    const tls = root.certify('gateway');
    for (const [index, asked] of requests.entries()) {
      // Each route over one of the two: a node that asks to wait is asked once by each gateway.
      const isH2 = index % 2 === (given === undefined ? 0 : 1);
      const config = { encode: { enabled: false }, ...(isH2 && { listen: { tls } }) };
      const { url } = await testGateway(t, { full: [node], config });

      const answer = await (isH2 ? askH2(await h2Session(t, new URL(url).origin, root.ca), asked) : askH1(url, asked));

      const retry = answer.headers.filter(([name]) => name === 'retry-after').map(([, value]) => value);
      const expected = asked.method === 'HEAD' ? '' : body;
      const what = `${asked.method ?? 'GET'} ${asked.path}`;
      assert.deepEqual([answer.status, retry, answer.body.toString()], [status, [given ?? '1'], expected], what);
    }
  });
}
