/** A ledger that goes back and forks: no kind of read is answered from the earlier ledger, from memory or Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { syntheticTransactionHash } from '../../../src/sample/synthetic.ts';
import { until } from '../../support/eventually.ts';
import type { FakeNode } from '../../support/fake-node.ts';
import { fall, forkedReplica, growBack, historyOf, oldNode, rollBack } from '../../support/forked-fleet.ts';
import { fetchReply, nodeAndGateway, type Reply, type TestGateway } from '../../support/gateway.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

const account = '/accounts/0x5a000001';
const bcs = 'application/x-bcs';
const item = '{"key_type":"u64","value_type":"u64","key":"7"}';

interface Asked {
  readonly path: string;
  readonly body?: string;
}

/** A read of each kind around `version`, which is above the fork; each body shows the history. */
function readsAt(version: bigint): readonly Asked[] {
  const block = version / 20n;
  const at = `ledger_version=${version}`;
  return [
    { path: `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?${at}` },
    { path: `/accounts/0x1/resources?${at}` },
    { path: `${account}/balance/0x1::aptos_coin::AptosCoin?${at}` },
    { path: `/tables/0x5a000001/item?${at}`, body: item },
    { path: `/tables/0x5a000001/raw_item?${at}`, body: '{"key":"0x07"}' },
    { path: `/transactions/by_version/${version}` },
    { path: `/transactions?start=${version}&limit=5` },
    { path: `/transactions/by_hash/${syntheticTransactionHash(version)}` },
    { path: `/transactions/wait_by_hash/${syntheticTransactionHash(version)}` },
    { path: `/blocks/by_height/${block}` },
    { path: `/blocks/by_height/${block}?with_transactions=true` },
    { path: `/blocks/by_version/${version}` },
    { path: `/blocks/by_version/${version}?with_transactions=true` },
    { path: `${account}/events/3?start=${block}&limit=5` },
    { path: `${account}/events/0x1::ledgergate_sample::Probe/events?start=${block}&limit=5` },
  ];
}

/** Routes whose newest answers are shared. */
const shared: readonly Asked[] = [
  { path: '/transactions?limit=3' },
  { path: `${account}/events/3?limit=3` },
  { path: `${account}/transactions?limit=3` },
  { path: `${account}/transaction_summaries?limit=3` },
];

function ask(url: string, { path, body }: Asked, accept: string): Promise<Reply> {
  const headers = { accept, 'content-type': 'application/json' };
  return fetchReply(url + path, { method: body === undefined ? 'GET' : 'POST', headers, body: body ?? null });
}

/** Each answer of the gateway is the node's own, byte for byte. */
async function assertOf(gateway: TestGateway, node: FakeNode, asked: readonly Asked[]): Promise<readonly Reply[]> {
  const replies: Reply[] = [];
  for (const one of asked) {
    for (const accept of ['application/json', bcs]) {
      const [own, reply] = [await ask(node.url, one, accept), await ask(gateway.url, one, accept)];
      assert.equal(reply.status, own.status, one.path);
      assert.ok(reply.body.equals(own.body), `${one.path} ${accept}: ${reply.text}, not ${own.text}`);
      replies.push(reply);
    }
  }
  return replies;
}

test('after a chain was replaced and came back as a fork no kind of read is of the earlier ledger', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1, head: 999n });
  const reads = readsAt(800n);
  const before = await assertOf(gateway, node, [...reads, ...shared]);
  const isOn = async (chainId: number): Promise<boolean> => {
    await gateway.get('/accounts/0x1/module/coin?ledger_version=401', { accept: 'text/html' });
    return gateway.fleet()[0]?.chainId === chainId;
  };

  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await until(() => isOn(2));
  node.clock.fork(700n, 'fork');
  node.fault = undefined;
  await until(() => isOn(1));
  const after = await assertOf(gateway, node, [...reads, ...shared]);

  const same = after.filter(
    (reply, at) => reply.status === 200 && reply.body.equals(before[at]?.body ?? Buffer.alloc(0)),
  );
  assert.deepEqual(
    same.map(({ text }) => text),
    [],
  );
});

test('after a rollback Redis answers no kind of read of the earlier ledger', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await oldNode(t);
  const gateway = await forkedReplica(t, server, [node]);
  const reads = readsAt(fall.before - 200n);
  assert.equal(await historyOf(gateway, fall.before), '');
  await assertOf(gateway, node, reads);
  await until(async () => (await gateway.metric('ledgergate_redis_writes_total{outcome="written"}')) >= reads.length);

  await rollBack(node);
  growBack(node);
  await until(async () => (await historyOf(gateway, fall.before)) === 'fork', 50);
  await assertOf(gateway, node, reads);
  const third = await forkedReplica(t, server, [node]);
  await until(async () => (await third.metric('ledgergate_redis_up')) === 1, 20);

  await assertOf(third, node, reads);
});
