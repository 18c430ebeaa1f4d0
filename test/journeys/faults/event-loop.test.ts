// An overloaded process: misses and signing messages are refused at once, hits and submissions
// go on.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway } from '../../support/gateway.ts';
import { headerLines } from '../../support/raw-node.ts';
import { encodeRequest, submission } from '../../support/submission.ts';
import { listen } from '../../support/listen.ts';

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
  assert.deepEqual(
    served.map(({ status }) => status),
    [200, 200, 202],
  );
  assert.deepEqual(
    after.map(({ status }) => status),
    [200, 200],
  );
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
