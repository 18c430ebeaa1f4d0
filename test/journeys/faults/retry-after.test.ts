/** A node's `Retry-After` is kept to: until then it gets probes, and single reads that no other node can answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway, twoTiers } from '../../support/gateway.ts';
import { encodeRequest, submission } from '../../support/submission.ts';
import { askH1, askH2, authority, h2Session, type Asked } from '../../support/tls.ts';

const limited = '{"message":"busy","error_code":"rate_limited","vm_error_code":null}';

/** The node refuses requests other than looks with `Retry-After`, as many as `times`. */
function refuse(node: FakeNode, seconds: number, times = Infinity): void {
  const headers = { 'retry-after': String(seconds) };
  node.faults.add(
    { kind: 'answer', status: 429, body: limited, headers },
    { when: ({ route }) => route !== 'ledgerInfo', times },
  );
}

test('Retry-After: 2 of one of two full nodes: no read reaches it until then, and then it is asked again', async (t) => {
  const limiting = await fakeNode(t, { oldest: 50_000n, head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [limiting, other] });
  refuse(limiting, 2, 1);
  let version = 60_000;
  const arrival = (): Promise<number> => limiting.log.next().then(() => performance.now());
  const refused = arrival();
  while (limiting.reads === 0) assert.equal((await gateway.get(probeAt((version += 1)))).status, 200);
  const refusedMs = await refused;
  const again = arrival();

  while (limiting.reads === 1) assert.equal((await gateway.get(probeAt((version += 1)))).status, 200);

  const waitedMs = (await again) - refusedMs;
  assert.ok(waitedMs >= 2_000, `asked again after ${waitedMs} ms`);
});

test('Retry-After: 30 of the only archive: reads of old versions get 503 with the rest of it, recent ones are answered', async (t) => {
  const { archival, gateway } = await twoTiers(t, {}, { oldest: 50_000n, head: 90_000n });
  refuse(archival, 30);
  const startedMs = performance.now();
  await gateway.get(probeAt(99));

  const old = await Promise.all(Array.from({ length: 200 }, (_, index) => gateway.get(probeAt(100 + index))));
  const recent = await gateway.get(probeAt(60_000));

  assert.equal(recent.status, 200);
  assert.deepEqual(new Set(old.map(({ status }) => status)), new Set([503]));
  for (const { headers } of old) assert.match(headers['retry-after'] ?? '', /^(?:2[5-9]|30)$/);
  // One more for each second that has passed.
  const seconds = (performance.now() - startedMs) / 1_000;
  assert.ok(archival.reads <= 1 + seconds, `${archival.reads} reads`);
});

test('an archive that answers within its Retry-After gets one read at a time, at a growing rate', async (t) => {
  const { archival, gateway } = await twoTiers(t, {}, { oldest: 50_000n, head: 90_000n });
  const arrivedMs: number[] = [];
  void archival.log.next(({ route }) => {
    if (route === 'resource') arrivedMs.push(performance.now());
    return false;
  });
  refuse(archival, 60, 1);
  let version = 0;
  const readOld = () => gateway.get(probeAt((version += 1)));
  await readOld();
  const held = Promise.withResolvers<void>();
  archival.faults.add({ kind: 'hold', until: held.promise }, { times: 1 });
  const statuses: number[] = [];
  const read = async (): Promise<void> => void statuses.push((await readOld()).status);
  const pending: Promise<void>[] = [];
  await until(() => {
    pending.push(read());
    return archival.reads === 2;
  });
  await Promise.all(Array.from({ length: 50 }, read));
  assert.deepEqual([archival.reads, new Set(statuses)], [2, new Set([503])]);
  held.resolve();
  await Promise.all(pending);

  while (archival.reads < 6) await read();

  assert.equal(statuses.filter((status) => status === 200).length, 5);
  // After one second, then half of it, and so on.
  const earliestMs = [0, 1_000, 1_500, 1_750, 1_875, 1_937];
  const sinceMs = arrivedMs.map((ms) => ms - (arrivedMs[0] ?? 0));
  assert.ok(
    sinceMs.every((ms, at) => ms >= (earliestMs[at] ?? 0)),
    String(sinceMs),
  );
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

test('an ejected node that asks to wait gets no trial until then', async (t) => {
  const held = await fakeNode(t, { oldest: 50_000n, head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n });
  const config = { upstream: { probeIntervalMs: 20 } };
  const gateway = await testGateway(t, { full: [held, other], config });
  held.faults.add({ kind: 'answer', status: 500, body: limited }, { when: ({ route }) => route === 'resource' });
  const ejected = 'ledgergate_upstream_ejected{upstream="full-0",class="head"}';
  let version = 60_000;
  while ((await gateway.metric(ejected)) === 0) await gateway.get(probeAt((version += 1)));
  const before = held.reads;
  const headers = { 'retry-after': '30' };
  held.faults.add({ kind: 'answer', status: 429, body: limited, headers });
  const looks = held.requestsTo('ledgerInfo');
  await until(() => held.requestsTo('ledgerInfo') > looks + 1);
  const startedMs = performance.now();

  // The first trial of an ejected node is due after a second.
  while (performance.now() - startedMs < 1_500) {
    assert.equal((await gateway.get(probeAt((version += 1)))).status, 200);
  }

  assert.equal(held.reads, before);
});

test('looks at the ledger info go on within a Retry-After', async (t) => {
  const node = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [node], config: { upstream: { probeIntervalMs: 20 } } });
  refuse(node, 30, 1);
  await gateway.get(probeAt(60_000));
  const before = node.requestsTo('ledgerInfo');

  while (node.requestsTo('ledgerInfo') < before + 5) await gateway.metric('ledgergate_fleet_head_version');

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

for (const status of [503, 429]) {
  for (const given of [undefined, '7']) {
    const named = given === undefined ? 'no Retry-After: clients get one' : `Retry-After: ${given}: clients get it`;
    test(`a node's own ${status} with ${named}, and its body, on every route, over HTTP/1.1 and HTTP/2`, async (t) => {
      const node = await fakeNode(t, { head: 90_000n });
      const body = '{"message":"later","error_code":"internal_error","vm_error_code":null}';
      const headers = given === undefined ? {} : { 'retry-after': given };
      node.faults.add({ kind: 'answer', status, body, headers }, { when: ({ route }) => route !== 'ledgerInfo' });
      const root = authority(t);
      const listen = { tls: root.certify('gateway') };
      for (const asked of requests) {
        const plain = await testGateway(t, { full: [node], config: { encode: { enabled: false } } });
        const secure = await testGateway(t, { full: [node], config: { listen, encode: { enabled: false } } });
        const { origin } = new URL(secure.url);

        const answers = [await askH1(plain.url, asked), await askH2(await h2Session(t, origin, root.ca), asked)];

        for (const answer of answers) {
          const retry = answer.headers.filter(([name]) => name === 'retry-after').map(([, value]) => value);
          const expected = asked.method === 'HEAD' ? '' : body;
          const what = `${asked.method ?? 'GET'} ${asked.path}`;
          assert.deepEqual([answer.status, retry, answer.body.toString()], [status, [given ?? '1'], expected], what);
        }
      }
    });
  }
}
