import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../support/fake-node.ts';

const account = '/accounts/0x1/resource/0x1::account::Account';

test('requests are counted in all, without probes, and by route', async (t) => {
  const node = await fakeNode(t);

  for (const path of ['', '/-/healthy', account, account, '/nowhere']) await fetch(node.url + path);

  assert.deepEqual([node.requests, node.reads], [5, 3]);
  assert.deepEqual([node.requestsTo('resource'), node.requestsTo('ledgerInfo'), node.requestsTo('none')], [2, 1, 1]);
  node.log.clear();
  assert.deepEqual([node.requests, node.log.received.length], [0, 0]);
});

test('a request is kept as it was received', async (t) => {
  const node = await fakeNode(t);
  const body = '{ "function" : "0x1::coin::balance" }';

  await fetch(`${node.url}/view?ledger_version=5`, { method: 'POST', body, headers: { 'x-test': 'a' } });

  const [received] = node.log.received;
  assert.ok(received);
  assert.deepEqual([received.method, received.url, received.route], ['POST', '/v1/view?ledger_version=5', 'view']);
  assert.deepEqual([received.headers['x-test'], received.body.toString()], ['a', body]);
});

test('only the last requests are kept, and of a large body its beginning', async (t) => {
  const node = await fakeNode(t, { keepRequests: 2 });

  for (const version of [1, 2]) await fetch(`${node.url}${account}?ledger_version=${version}`);
  await fetch(`${node.url}/view`, { method: 'POST', body: 'x'.repeat(100_000) });

  assert.deepEqual(
    node.log.received.map(({ body }) => body.length),
    [0, 65_536],
  );
  assert.equal(node.requests, 3);
});

test('a test can wait for the next read, or for a certain request', async (t) => {
  const node = await fakeNode(t);
  const [next, probe] = [node.log.next(), node.log.next(({ route }) => route === 'ledgerInfo')];

  await fetch(node.url);
  await fetch(node.url + account);

  assert.deepEqual([(await next).route, (await probe).route], ['resource', 'ledgerInfo']);
});
