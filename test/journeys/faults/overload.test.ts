/** More requests than the nodes can answer. */
import assert from 'node:assert/strict';
import { request, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway, statusesOf } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { headerLines } from '../../support/raw-node.ts';
import { watchStalls } from '../../support/stalls.ts';
import { encodeRequest, submission } from '../../support/submission.ts';

/** Two places at the only node, both taken until `release`. */
async function busyGateway(t: TestContext) {
  const node = await fakeNode(t, { head: 90_000n });
  const config = { upstream: { connections: 2, timeoutMs: 20_000, deadlineMs: 20_000 } };
  const gateway = await testGateway(t, { full: [node], config });
  assert.equal((await gateway.get(probeAt(50_000))).status, 200);
  const release = node.hold({ when: ({ route }) => route === 'resource' });
  const held = [gateway.get(probeAt(60_000)), gateway.get(probeAt(60_001))];
  await until(() => node.requestsTo('resource') >= 3);
  const waiting = (): Promise<number> => gateway.metric('ledgergate_upstream_queue_requests');
  return { node, gateway, release, held, waiting };
}

test('a request without a place is refused quickly, and hits are answered all the while', async (t) => {
  const stalls = watchStalls(t);
  const { gateway, release, held, waiting } = await busyGateway(t);
  const patient = Array.from({ length: 64 }, (_, index) => gateway.get(probeAt(61_000 + index)));
  await until(async () => (await waiting()) >= 64);

  const startedMs = performance.now();
  const refused = await gateway.get(probeAt(62_000));
  const refusedMs = performance.now() - startedMs;
  const hit = await gateway.get(probeAt(50_000));

  assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '1']);
  assert.match(refused.text, /"message":"the nodes are at capacity; try again"/);
  stalls.judge(refusedMs < 300, `${refusedMs} ms`);
  assert.deepEqual([hit.status, hit.headers['cache-status']], [200, 'ledgergate; hit; detail=memory']);
  const late = await Promise.all(patient);
  assert.deepEqual([...new Set(late.map(({ status }) => status))], [503]);
  assert.equal(await gateway.metric('ledgergate_upstream_queue_refusals_total{reason="full"}'), 1);
  assert.equal(await gateway.metric('ledgergate_upstream_queue_refusals_total{reason="late"}'), 64);
  release();
  assert.deepEqual(statusesOf(await Promise.all(held)), [200, 200]);
  assert.equal((await gateway.get(probeAt(62_000))).status, 200);
});

/** Asks from a loopback address of its own, which is another client. Resolves to the status. */
function statusFrom(address: string, { port }: { readonly port: number }, below: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const target = { host: '127.0.0.1', port, path: `/v1${below}`, localAddress: address };
    const onAnswer = (answer: IncomingMessage): void => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    };
    request(target, onAnswer).on('error', reject).end();
  });
}

test('a burst of one client delays its own requests, and others have their turn', async (t) => {
  const { node, gateway, release, held, waiting } = await busyGateway(t);
  const order: string[] = [];
  const from = async (address: string, version: number): Promise<void> => {
    const status = await statusFrom(address, gateway, probeAt(version));
    order.push(`${address} ${status}`);
  };
  const greedy = Array.from({ length: 60 }, (_, index) => from('127.0.0.2', 61_000 + index));
  await until(async () => (await waiting()) >= 60);
  const modest = from('127.0.0.3', 62_000);
  await until(async () => (await waiting()) >= 61);
  node.faults.clear();

  release();
  await Promise.all([...held, ...greedy, modest]);

  assert.ok(
    order.every((entry) => entry.endsWith(' 200')),
    order.join(),
  );
  const turn = order.indexOf('127.0.0.3 200');
  assert.ok(turn < 10, `it came as number ${turn + 1} of 61`);
});

for (const [what, newest] of [
  ['a kept read', probeAt(61_500)],
  ['a short share', '/estimate_gas_price'],
] as const) {
  test(`a coalesced follower of ${what} retries when the leader’s client exceeded its queue limit`, async (t) => {
    const { node, gateway, release, held, waiting } = await busyGateway(t);
    const inFlight = (): Promise<number> => gateway.metric('ledgergate_http_in_flight_requests');
    const greedy = Array.from({ length: 63 }, (_, index) => statusFrom('127.0.0.2', gateway, probeAt(61_000 + index)));
    await until(async () => (await waiting()) >= 63);
    greedy.push(statusFrom('127.0.0.2', gateway, newest));
    await until(async () => (await waiting()) >= 64);
    const before = await inFlight();
    const followers = ['127.0.0.3', '127.0.0.4'].map((address) => statusFrom(address, gateway, newest));
    await until(async () => (await inFlight()) === before + 2);

    // The newest of the greedy client's gives way to it.
    const modest = statusFrom('127.0.0.5', gateway, probeAt(62_000));
    await until(async () => (await gateway.metric('ledgergate_upstream_queue_refusals_total{reason="full"}')) >= 1);
    node.faults.clear();
    release();

    assert.deepEqual(await Promise.all([...followers, modest]), [200, 200, 200]);
    // One read of the other client, and one for all followers, coalesced again.
    assert.equal((await Promise.all(greedy)).filter((status) => status === 503).length, 2);
    await Promise.all(held);
  });
}

// An overloaded process: misses and signing messages are refused at once, hits and submissions go on.

const hit = '/accounts/0x1/module/coin?ledger_version=5';
const item = '{"key_type":"u64","value_type":"u64","key":"1"}';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
const transfer = encodeRequest('0x1::aptos_account::transfer', ['0x2', '1']);

test('while the event loop is late, misses, passed reads and signing messages are refused; hits and submissions go on', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  let isLate = false;
  const gateway = await testGateway(t, { full: [node], isOverloaded: () => isLate });
  await gateway.get(hit);
  const encoded = await gateway.post('/transactions/encode_submission', transfer);
  assert.equal(encoded.status, 200, encoded.text);
  const before = node.reads;
  isLate = true;

  const shed = [
    await gateway.get('/accounts/0x1/module/coin?ledger_version=6'),
    await gateway.post('/view?ledger_version=6', view),
    await gateway.get(`/transactions/by_hash/0x${'ab'.repeat(32)}`),
    await gateway.get(`/transactions/wait_by_hash/0x${'ab'.repeat(32)}`),
    await gateway.get('/blocks/by_height/3'),
    await gateway.get('/blocks/by_height/3?x=1'),
    await gateway.get('/estimate_gas_price'),
    await gateway.post('/tables/0x1/item', item),
    await gateway.post('/tables/0x1/item?x=1', item),
    await gateway.post('/transactions/encode_submission', transfer),
    await gateway.post('/transactions/encode_submission', transfer.replace('entry_function', 'script')),
    await gateway.post('/transactions/encode_submission?', transfer),
  ];
  assert.equal(node.reads, before);
  const served = [
    await gateway.get(hit),
    await gateway.get(''),
    await gateway.post('/transactions', submission({ sender: '0x1', sequenceNumber: 1 })),
  ];
  isLate = false;
  const after = [
    await gateway.get('/accounts/0x1/module/coin?ledger_version=6'),
    await gateway.post('/transactions/encode_submission', transfer),
  ];

  for (const reply of shed) {
    assert.equal(reply.status, 503);
    assert.equal(reply.headers['retry-after'], '1');
    const error = {
      message: 'the gateway is overloaded; try again',
      error_code: 'internal_error',
      vm_error_code: null,
    };
    assert.deepEqual(JSON.parse(reply.text), error);
    assert.equal(reply.headers['x-node-ledger-version'], '900');
  }
  assert.deepEqual(statusesOf(served), [200, 200, 202]);
  assert.deepEqual(statusesOf(after), [200, 200]);
  assert.equal(await gateway.metric('ledgergate_shed_requests_total{reason="event loop"}'), shed.length);
  assert.ok((await gateway.metric('ledgergate_event_loop_lag_seconds')) >= 0);
});

test('a node that answered in time does not count as slow because this process stood still', async (t) => {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n`;
  const answer = `${head}${headerLines({ version: 900n })}\r\n{"bytecode":"0x"}`;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      socket.write(answer);
      // The answer waits in the kernel for longer than the bound of an attempt.
      if (chunk.includes('ledger_version=')) standStill(300);
    });
  });
  const port = await listen(t, server);
  const url = `http://127.0.0.1:${port}/v1`;
  const gateway = await testGateway(t, { full: [{ url }], config: { upstream: { timeoutMs: 200 } } });

  const statuses: number[] = [];
  for (let version = 1; version <= 5; version += 1) {
    statuses.push((await gateway.get(`/accounts/0x1/module/coin?ledger_version=${version}`)).status);
  }

  assert.deepEqual(statuses, [200, 200, 200, 200, 200]);
  assert.equal(await gateway.metric('ledgergate_upstream_attempts_total{upstream="full-0",outcome="timeout"}'), 0);
});

function standStill(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
