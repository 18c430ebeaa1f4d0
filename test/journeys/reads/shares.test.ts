/** Bounds of short shares: of their memory, of their time, and of the requests in flight. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { request as send } from 'undici';
import { until } from '../../support/eventually.ts';
import { distortingNode } from '../../support/distorting-node.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { heldBytes } from '../../support/heap.ts';
import { nodeAndGateway, patient, testGateway } from '../../support/gateway.ts';

const mebibyte = 1024 * 1024;
const hour = 3_600_000;

test('shares hold at most 16 MiB, the most recent ones', async (t) => {
  const node = await fakeNode(t, { head: 9_999n });
  const config = { latest: { maxStalenessMs: hour }, upstream: patient };
  const gateway = await testGateway(t, { full: [node], config });
  const read = async (account: number) => {
    const address = `0x5a${account.toString(16).padStart(6, '0')}`;
    const { headers, body } = await gateway.get(`/accounts/${address}/transactions?limit=100`);
    return { isHeld: headers['cache-status'] === 'ledgergate; hit; detail=memory', bytes: body.length };
  };
  const accounts = 360;
  let all = 0;
  for (let account = 0; account < accounts; account += 1) all += (await read(account)).bytes;
  assert.ok(all > 18 * mebibyte, `${all} bytes were read`);

  let held = 0;
  // Backward, because a read of an answer that is gone displaces another one.
  for (let account = accounts - 1; account >= 0; account -= 1) {
    const { isHeld, bytes } = await read(account);
    if (!isHeld) break;
    held += bytes;
  }

  t.diagnostic(`${(held / mebibyte).toFixed(1)} of ${(all / mebibyte).toFixed(1)} MiB are held`);
  assert.ok(held <= 16 * mebibyte && held > 12 * mebibyte, `${held} bytes`);
});

test('a small share holds its own bytes alone, not the buffer that it arrived in', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } });
  // What lies between two shares goes with its request, and is too large for the rest of a pooled buffer.
  const between = '/accounts/0x1/resource/0x1::ledgergate_sample::Padded31000';
  const shares = 200;
  await gateway.get('/accounts/0x5a000000/transactions?limit=1');
  heldBytes();
  const before = process.memoryUsage().arrayBuffers;
  for (let limit = 1; limit <= shares; limit += 1) {
    await gateway.get(`/accounts/0x5a000001/transactions?start=${limit % 40}&limit=${1 + Math.floor(limit / 40)}`);
    await gateway.get(between, { 'ledgergate-max-staleness': '0' });
    await gateway.get(between, { 'ledgergate-max-staleness': '0' });
  }
  heldBytes();
  const grown = process.memoryUsage().arrayBuffers - before;
  t.diagnostic(`${shares} shares hold ${Math.round(grown / 1024)} KiB`);
  assert.ok(grown < 4 * mebibyte, `${grown} bytes`);
});

test('an answer above 2 MiB is shared by those who wait for it, and not held', async (t) => {
  const node = await fakeNode(t);
  const large = await distortingNode(t, node, (said, { isLook }) => {
    return isLook ? said : { ...said, body: Buffer.alloc(3 * mebibyte, 'a'), afterMs: 200 };
  });
  const gateway = await testGateway(t, { full: [large] });
  const together = [gateway.get('/spec'), gateway.get('/spec'), gateway.get('/spec')];

  for (const { body } of await Promise.all(together)) assert.equal(body.length, 3 * mebibyte);
  const before = large.reads;
  await gateway.get('/spec');

  assert.deepEqual([before, large.reads], [1, 2]);
});

test('a flight ends with its last caller, and the next caller begins another', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const { promise, resolve } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: promise }, { when: ({ route }) => route === 'estimateGasPrice', times: 1 });
  const leaving = [new AbortController(), new AbortController()];
  const left = leaving.map(({ signal }) => send(`${gateway.url}/estimate_gas_price`, { signal }));
  await until(() => node.requestsTo('estimateGasPrice') === 1);
  for (const controller of leaving) controller.abort();
  await Promise.allSettled(left);
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) === 0);

  const next = await gateway.get('/estimate_gas_price');
  resolve();

  assert.equal(next.status, 200);
  assert.equal(node.requestsTo('estimateGasPrice'), 2);
});

test('a gas price is shared for its time, then read again; with a time of 0 it is shared in flight alone', async (t) => {
  const config = { cache: { gasPriceTtlMs: 60 } };
  const { node, gateway } = await nodeAndGateway(t, { config });
  const never = await testGateway(t, { full: [node], config: { cache: { gasPriceTtlMs: 0 } } });
  await gateway.get('/estimate_gas_price');
  await until(async () => {
    await gateway.get('/estimate_gas_price');
    return node.requestsTo('estimateGasPrice') === 2;
  }, 20);

  for (let count = 3; count < 6; count += 1) {
    assert.equal(
      (await never.get('/estimate_gas_price')).headers['cache-status'],
      'ledgergate; fwd=miss; detail=full-0',
    );
    assert.equal(node.requestsTo('estimateGasPrice'), count);
  }
});

test('a caller that takes no stale answer gets the newest list from a node, each time', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } });
  const path = '/accounts/0x5a000001/transactions?limit=5';
  await gateway.get(path);
  node.clock.head = 999n;

  const fresh = [
    await gateway.get(path, { 'ledgergate-max-staleness': '0' }),
    await gateway.get(path, { 'ledgergate-max-staleness': '0' }),
  ];
  const own = await (await fetch(node.url + path)).text();

  assert.deepEqual(
    fresh.map(({ text }) => text),
    [own, own],
  );
});

test('errors are not shared after their flight', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } });
  for (let count = 1; count <= 2; count += 1) {
    const { status, headers } = await gateway.get('/accounts/0xdead/transactions');
    assert.deepEqual([status, headers['cache-control'], headers['etag']], [404, 'no-store', undefined]);
    assert.equal(node.requestsTo('accountTransactions'), count);
  }
});
