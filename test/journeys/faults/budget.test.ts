/** One request costs no more than its budget, and nodes in trouble get no storm of retries. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probeAt, testGateway } from '../../support/gateway.ts';
import { watchStalls } from '../../support/stalls.ts';

const boom = '{"message":"boom","error_code":"internal_error","vm_error_code":null}';

/** Answers 500 to those reads of the node that `times` names by their number. */
function fail(node: FakeNode, times: (read: number) => boolean): void {
  let reads = 0;
  const when = ({ route }: { readonly route?: string | undefined }) => route === 'resource' && times((reads += 1));
  node.faults.add({ kind: 'answer', status: 500, body: boom }, { when });
}

function asked(nodes: readonly FakeNode[]): number {
  return nodes.reduce((sum, node) => sum + node.reads, 0);
}

test('retries, hedges and the archive together stay within the attempts of one request', async (t) => {
  const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest: 50_000n, head: 90_000n })));
  const archive = await fakeNode(t, { archival: true, head: 90_000n });
  const gateway = await testGateway(t, { full, archival: [archive] });
  for (const node of [...full, archive]) node.faults.add({ kind: 'answer', status: 500, body: boom });

  const reply = await gateway.get(probeAt(60_000));

  assert.equal(asked([...full, archive]), 3);
  assert.equal(reply.status, 500);
  assert.equal(reply.text, boom);
});

test('with the share of retries used up, a node that answers still gets the reads that another one fails', async (t) => {
  const [failing, healed] = [await fakeNode(t, { head: 90_000n }), await fakeNode(t, { head: 90_000n })];
  const gateway = await testGateway(t, { full: [failing, healed] });
  for (const node of [failing, healed]) {
    node.faults.add({ kind: 'answer', status: 500, body: boom }, { when: ({ route }) => route === 'resource' });
  }
  let version = 1_000;
  const read = async () => (await gateway.get(probeAt((version += 1)))).status;
  // Each of these takes a retry, of 500 and a few.
  for (let turn = 0; turn < 30; turn += 1) await Promise.all(Array.from({ length: 30 }, read));
  assert.ok((await gateway.metric('ledgergate_retries_total{outcome="refused"}')) > 0);

  healed.faults.clear();
  await until(async () => (await read()) === 200);
  const statuses = await Promise.all(Array.from({ length: 100 }, read));

  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.ok(failing.reads > 0);
});

test('with the share of retries used up, a node that is passed over gets the reads that no other answers', async (t) => {
  const [healed, failing] = [await fakeNode(t, { head: 90_000n }), await fakeNode(t, { head: 90_000n })];
  const gateway = await testGateway(t, { full: [healed, failing] });
  let version = 1_000;
  const read = async () => (await gateway.get(probeAt((version += 1)))).status;
  // Passed over for its share of errors: only trials beside answered reads end that, and soon no read is answered.
  fail(healed, (read) => read % 3 === 0);
  await until(async () => {
    await read();
    return (await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}')) > 0;
  });
  healed.faults.clear();
  for (const node of [healed, failing]) fail(node, () => true);
  for (let turn = 0; turn < 30; turn += 1) await Promise.all(Array.from({ length: 30 }, read));
  assert.ok((await gateway.metric('ledgergate_retries_total{outcome="refused"}')) > 0);

  healed.faults.clear();
  await until(async () => (await read()) === 200);
  const statuses: number[] = [];
  for (let turn = 0; turn < 20; turn += 1) statuses.push(...(await Promise.all(Array.from({ length: 10 }, read))));

  assert.deepEqual(new Set(statuses), new Set([200]));
});

test('when everything hangs, each kind of read is answered 503 within the deadline, not a sum of bounds', async (t) => {
  const stalls = watchStalls(t);
  const nodes = await Promise.all([1, 2].map(() => fakeNode(t, { head: 90_000n })));
  const upstream = { timeoutMs: 400, deadlineMs: 600 };
  const latest = { waitForVersionMs: 400 };
  const gateway = await testGateway(t, { full: nodes, config: { upstream, latest } });
  for (const node of nodes) node.fault = { kind: 'hang' };
  const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });
  const resource = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
  const calls = {
    pinned: () => gateway.get(probeAt(60_000)),
    latest: () => gateway.get(resource),
    'latest, from a node': () => gateway.get(resource, { 'ledgergate-max-staleness': '0ms' }),
    'latest, seen newer': () => gateway.get(resource, { 'ledgergate-min-version': '90500' }),
    view: () => gateway.post('/view', view),
    'the newest transactions': () => gateway.get('/transactions'),
    'the gas price': () => gateway.get('/estimate_gas_price'),
    passed: () => gateway.get('/accounts/0x1/resources?x=1'),
    'ledger info': () => gateway.get(''),
  };
  for (const [name, call] of Object.entries(calls)) {
    const startedMs = performance.now();
    const reply = await call();
    const tookMs = performance.now() - startedMs;
    assert.equal(reply.status, 503, name);
    assert.equal((JSON.parse(reply.text) as { error_code: string }).error_code, 'internal_error', name);
    assert.equal(reply.headers['retry-after'], '1', name);
    stalls.judge(tookMs < 1_200, `${name}: ${Math.round(tookMs)} ms`);
  }
});

test('a client that hangs up cancels its work, unless others wait for it too', async (t) => {
  const { node, gateway } = await nodeAndGateway(
    t,
    { config: { upstream: { timeoutMs: 10_000, deadlineMs: 10_000 } } },
    { head: 90_000n },
  );
  const inFlight = () => gateway.metric('ledgergate_upstream_in_flight_requests{upstream="full-0"}');
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: released }, { when: ({ route }) => route === 'resource' });
  const ask = () => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write(`GET /v1${probeAt(60_000)} HTTP/1.1\r\nHost: a\r\n\r\n`);
    return socket;
  };

  const alone = ask();
  await until(async () => (await inFlight()) >= 1);
  alone.destroy();
  await until(async () => (await inFlight()) === 0);

  const [one, other] = [ask(), gateway.get(probeAt(60_000))];
  await until(async () => (await inFlight()) >= 1);
  one.destroy();
  release();
  assert.equal((await other).status, 200);
});

test('when every node fails, the retries of all requests are a share of them', async (t) => {
  const nodes = await Promise.all([1, 2, 3].map(() => fakeNode(t, { head: 90_000n, archival: true })));
  const gateway = await testGateway(t, { full: nodes });
  for (const node of nodes)
    node.faults.add({ kind: 'answer', status: 500, body: boom }, { when: ({ route }) => route === 'resource' });
  const reads = 3_000;
  const startedMs = performance.now();

  for (let index = 0; index < reads; index += 50) {
    const batch = Array.from({ length: 50 }, (_, offset) => gateway.get(probeAt(60_000 + index + offset)));
    for (const { status } of await Promise.all(batch)) assert.equal(status, 500);
  }

  const retried = asked(nodes) - reads;
  const seconds = (performance.now() - startedMs) / 1000;
  // A fifth of the requests, the saved balances of all nodes and of each, ten a second and five of each; without a budget
  // it would be two to a request.
  assert.ok(retried <= reads * 0.2 + 500 + 3 * 32 + (10 + 3 * 5) * (seconds + 1), `${retried} retries`);
  assert.ok((await gateway.metric('ledgergate_retries_total{outcome="refused"}')) > 0);
});
