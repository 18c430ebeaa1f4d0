/** The rights in docs/redis.md suffice. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { purge } from '../../support/admin.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { sourcesOf, replica, untilUp, versions, written } from '../../support/redis-replica.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';

const docs = readFileSync(new URL('../../../docs/redis.md', import.meta.url), 'utf8');
const [, rules = ''] = /^ACL SETUSER ledgergate (.+)$/m.exec(docs) ?? [];
const user = ['SETUSER', 'ledgergate', ...rules.replace('>PASSWORD', '>secret').split(' ')] as const;

test('a user with the rights of docs/redis.md reads, writes and waits for others', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  await server.run((client) => client.call('ACL', ...user));
  const url = server.url.replace('//', '//ledgergate:secret@');
  const nodes = [await fakeNode(t)];
  const [a, b] = [await replica(t, url, { nodes }), await replica(t, url, { nodes })];
  await Promise.all([untilUp(a), untilUp(b)]);
  await sourcesOf(a, versions(1, 10));
  await written(a, 10);
  assert.deepEqual(await sourcesOf(b, versions(1, 10)), new Set(['redis']));
  const padded = '/accounts/0x1/resource/0x1::ledgergate_sample::Padded60000?ledger_version=7';
  assert.equal((await a.get(padded)).status, 200);
  await written(a, 11);
  for (const scope of [{ account: '0x1' }, { read: { target: `/v1${padded}` } }, { everything: true }]) {
    assert.equal((await purge(a, scope)).complete, true);
  }
  const refused = await server.run((client) => client.info('errorstats'));
  // Clients introduce themselves with their version, which needs no answer.
  const log = (await server.run((client) => client.call('ACL', 'LOG'))) as unknown[][];
  assert.deepEqual(
    log.map((entry) => entry[entry.indexOf('object') + 1]).filter((what) => what !== 'client|setinfo'),
    [],
    refused,
  );
  assert.deepEqual([a.redisLog, b.redisLog], [[], []]);
});

test('the rights of docs/redis.md suffice in a cluster', { skip: noRedis }, async (t) => {
  const { servers, target } = await redisCluster(t);
  assert.ok(target.kind === 'cluster');
  for (const server of servers) await server.run((client) => client.call('ACL', ...user));
  const urls = target.urls.map((url) => url.replace('//', '//ledgergate:secret@'));
  const gateway = await replica(t, { kind: 'cluster', urls }, { nodes: [await fakeNode(t)] });
  await untilUp(gateway);
  await sourcesOf(gateway, versions(1, 10));
  await written(gateway, 10);
  assert.deepEqual(gateway.redisLog, []);
});
