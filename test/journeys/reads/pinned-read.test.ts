import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeAndGateway, probe } from '../../support/gateway.ts';

test('a pinned read goes to a node once, and is then answered from memory', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);

  const miss = await gateway.get(`${probe}?ledger_version=500`);
  const hit = await gateway.get(`${probe}?ledger_version=500`);

  assert.equal(miss.status, 200);
  assert.equal(miss.text, '{"type":"0x1::ledgergate_sample::Probe","data":{"address":"0x1","ledger_version":"500"}}');
  assert.deepEqual(hit.body, miss.body);
  assert.equal(miss.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.equal(node.requestsTo('resource'), 1);
});

test('a hit has the live ledger headers, its version, and an immutable Cache-Control', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { oldest: 100n });
  await gateway.get(`${probe}?ledger_version=500`);

  node.clock.head = 950n;
  await gateway.get('/accounts/0x1/resource/0x1::account::Account');
  const hit = await gateway.get(`${probe}?ledger_version=500`);

  assert.equal(hit.headers['x-node-ledger-version'], '950');
  assert.equal(hit.headers['x-node-ledger-oldest-version'], '100');
  assert.equal(hit.headers['x-node-chain-id'], '1');
  assert.equal(hit.headers['ledgergate-served-version'], '500');
  assert.equal(hit.headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.match(hit.headers['etag'] ?? '', /^"[\w-]{22}"$/);
});
