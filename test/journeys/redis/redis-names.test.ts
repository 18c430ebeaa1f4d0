/** The contents of Redis: answers byte for byte, their names, their lifetimes, and their ledger. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { recordedTransactions } from '../../../src/sample/recorded.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { readProbe, replica, sourceOf, untilUp, written } from '../../support/redis-replica.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

/** A node of a ledger with this first transaction; recorded ones have no hash. */
async function nodeOf(t: TestContext, genesis: string): Promise<FakeNode> {
  const node = await fakeNode(t);
  const body = JSON.stringify({ version: '0', hash: `0x${genesis.padEnd(64, '0')}` });
  const headers = ledgerHeaders({ version: 1000n, chainId: node.chainId });
  node.faults.add(
    { kind: 'answer', status: 200, body, headers },
    { when: ({ url }) => url.endsWith('/transactions/by_version/0') },
  );
  return node;
}

test("a replica serves another's read from Redis, byte for byte", { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t);
  const [a, b] = [await replica(t, server.url, { nodes: [node] }), await replica(t, server.url, { nodes: [node] })];
  await Promise.all([untilUp(a), untilUp(b)]);
  for (const [index, name] of ['Probe', 'Padded60000'].entries()) {
    const path = `/accounts/0x1/resource/0x1::ledgergate_sample::${name}?ledger_version=7`;
    const first = await a.get(path);
    assert.equal(sourceOf(first), 'node');
    await written(a, index + 1);
    const second = await b.get(path);
    assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=redis');
    assert.deepEqual(second.body, first.body);
    for (const header of ['etag', 'content-type', 'cache-control', 'ledgergate-served-version'])
      assert.equal(second.headers[header], first.headers[header]);
    assert.equal((await b.get(path)).headers['cache-status'], 'ledgergate; hit; detail=memory');
  }
  assert.equal(node.log.countOf('resource'), 2);
});

test('a network created anew under its old chain id shares nothing with the old one', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [before, after] = [await nodeOf(t, 'aaaa1111'), await nodeOf(t, 'bbbb2222')];
  const a = await replica(t, server.url, { nodes: [before] });
  await readProbe(a, 7);
  await written(a, 1);
  const [b, c] = [await replica(t, server.url, { nodes: [after] }), await replica(t, server.url, { nodes: [before] })];
  await Promise.all([untilUp(b), untilUp(c)]);
  assert.deepEqual([sourceOf(await readProbe(b, 7)), sourceOf(await readProbe(c, 7))], ['node', 'redis']);
});

test('every name is below the prefix, readable, and has an end', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const nodes = [await nodeOf(t, 'aaaa1111')];
  const gateway = await replica(t, server.url, { nodes, keyPrefix: 'mine', ttlMs: 60_000 });
  await readProbe(gateway, 7);
  await gateway.post(
    '/view?ledger_version=7',
    '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}',
  );
  await written(gateway, 2);
  await server.run(async (client) => {
    const names = (await client.keys('mine:1:*')).filter((name) => !name.includes(':!'));
    const read =
      /^mine:1:aaaa1111:[0-9a-z]{8}:1\|(?:resource\|0x1\/0x1::ledgergate_sample::Probe\|json\|0|view\|0x1::ledgergate_sample::version\|[\w-]{43})$/;
    assert.deepEqual(
      names.filter((name) => !read.test(name) && !/^mine:1:aaaa1111:=[\w-]{22}$/.test(name)),
      [],
    );
    assert.equal(names.length, 4);
    assert.equal(await client.exists('mine:history:1.aaaa1111'), 1);
    for (const name of await client.keys('mine:*')) {
      // The ledger's epochs have no TTL: without them no stored answer could be used.
      if (name === 'mine:history:1.aaaa1111') continue;
      const ttl = await client.pttl(name);
      assert.ok(ttl === -2 || (ttl > 0 && ttl <= 60_000), `${name} lives for ${ttl} ms`);
    }
  });
});

test('a committed transaction from Redis is kept no longer than its first reader may', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t);
  const options = { nodes: [node], ttlMs: 1_000 };
  const [a, b] = [await replica(t, server.url, options), await replica(t, server.url, options)];
  const { hash = '' } = recordedTransactions.find(({ version }) => version === 5n) ?? {};
  const path = `/transactions/by_hash/${hash}`;
  assert.equal((await a.get(path)).status, 200);
  await written(a, 1);
  assert.equal(sourceOf(await b.get(path)), 'redis');
  assert.equal(sourceOf(await b.get(path)), 'memory');
  // In memory alone it would be kept for ten minutes more.
  await until(async () => sourceOf(await b.get(path)) === 'node');
});
