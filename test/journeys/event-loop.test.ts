// A process that has more work than it gets done: what needs a node is refused at once, and everything else goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { submission } from '../support/submission.ts';

const hit = '/accounts/0x1/module/coin?ledger_version=5';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
const transfer = JSON.stringify({
  sender: '0x1',
  sequence_number: '0',
  max_gas_amount: '1000',
  gas_unit_price: '100',
  expiration_timestamp_secs: '32425224034',
  payload: {
    type: 'entry_function_payload',
    function: '0x1::aptos_account::transfer',
    type_arguments: [],
    arguments: ['0x2', '1'],
  },
});

test('while the event loop is late, misses and passed reads are refused; hits, signing and submissions go on', async (t) => {
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
    await gateway.post('/tables/0x1/item', '{}'),
  ];
  assert.equal(node.reads, before);
  const served = [
    await gateway.get(hit),
    await gateway.get(''),
    await gateway.post('/transactions/encode_submission', transfer),
    await gateway.post('/transactions', submission({ sender: '0x1', sequenceNumber: 1 })),
  ];
  const script = await gateway.post('/transactions/encode_submission', transfer.replace('entry_function', 'script'));
  isLate = false;
  const after = await gateway.get('/accounts/0x1/module/coin?ledger_version=6');

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
    [200, 200, 200, 202],
  );
  assert.notEqual(script.status, 503);
  assert.equal(after.status, 200);
  assert.equal(await gateway.metric('ledgergate_shed_requests_total{reason="event loop"}'), shed.length);
  assert.ok((await gateway.metric('ledgergate_event_loop_lag_seconds')) >= 0);
});
