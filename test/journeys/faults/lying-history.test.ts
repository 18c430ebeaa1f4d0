/** Nodes that report a head which their answers do not have, and answers that grow with the head: nothing wrong is kept. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { distortingNode, type Said } from '../../support/distorting-node.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, testGateway, type Reply, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';

const account = '/accounts/0x5a000001';
/** Requests about the ledger around version 505, of which a node with that head has a part. */
const partly = [
  '/transactions?start=500&limit=10',
  '/transactions?start=500',
  '/transactions/auxiliary_info?start_version=500&limit=10',
  `${account}/events/3?start=20&limit=10`,
  `${account}/events/0x1::ledgergate_sample::Probe/events?start=20&limit=10`,
] as const;
const block = [
  '/blocks/by_height/25',
  '/blocks/by_height/25?with_transactions=true',
  '/blocks/by_version/503',
] as const;
const forms = [{}, { accept: 'application/x-bcs' }] as const;

type Headers = Readonly<Record<string, string>>;

function nodeReply(node: FakeNode, path: string, headers: Headers): Promise<Reply> {
  return fetchReply(node.url + path, { method: 'GET', headers });
}

async function sameAsNode(gateway: TestGateway, node: FakeNode, path: string, headers: Headers): Promise<Reply> {
  const [own, reply] = [await nodeReply(node, path, headers), await gateway.get(path, headers)];
  assert.equal(reply.status, own.status, path);
  assert.ok(reply.body.equals(own.body), `${path}: ${reply.text}`);
  return reply;
}

/** A node with head 505 that reports another one with every answer. */
async function liarAt(t: TestContext, version: bigint) {
  const node = await fakeNode(t, { head: 505n });
  const { 'x-node-block-height': height = '', ...rest } = lowerCase(ledgerHeaders({ version, chainId: 1 }));
  const headers = { ...rest, 'x-node-block-height': String(Number(height) / 2) };
  const asReported = (said: Said): Said => ({ ...said, headers: { ...said.headers, ...headers } });
  return distortingNode(t, node, asReported);
}

function lowerCase(headers: Headers): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

async function askedOfLiar(t: TestContext, reported: bigint, paths: readonly string[]): Promise<void> {
  const honest = await fakeNode(t, { head: 999n });
  const other = await fakeNode(t, { head: 999n });
  const liar = await liarAt(t, reported);
  const config = { upstream: { probeIntervalMs: 10, maxAttempts: 6 } };
  const gateway = await testGateway(t, { full: [liar, honest, other], config });
  for (const path of paths) {
    for (const headers of forms) {
      for (const node of [honest, other]) {
        node.faults.add({ kind: 'reset' }, { when: ({ route }) => route !== 'ledgerInfo' });
      }
      const before = liar.reads;
      await gateway.get(path, headers);
      assert.ok(liar.reads > before, `the liar was asked for ${path}`);
      for (const node of [honest, other]) node.faults.clear();
      await until(() =>
        gateway
          .fleet()
          .slice(1)
          .every(({ state }) => state === 'usable'),
      );
      await sameAsNode(gateway, honest, path, headers);
    }
  }
}

test('of a node that reports a head far above the believed one nothing is kept', async (t) => {
  await askedOfLiar(t, 5_000_000_000n, [...partly, ...block, '/transactions/by_version/503']);
});

test('of a node that reports the believed head without its transactions no part of a list is kept', async (t) => {
  await askedOfLiar(t, 999n, partly);
});

test('lists, pages and blocks that grow with the head are read again until they are whole', async (t) => {
  const node = await fakeNode(t, { head: 505n });
  const gateway = await testGateway(t, { full: [node], config: { upstream: { probeIntervalMs: 10 } } });
  for (const head of [505n, 509n, 519n, 520n, 999n]) {
    node.clock.head = head;
    await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) === Number(head));
    for (const headers of forms) {
      for (const path of [...partly, ...block]) await sameAsNode(gateway, node, path, headers);
    }
  }
  for (const headers of forms) {
    for (const path of [...partly, ...block]) {
      const { headers: held } = await sameAsNode(gateway, node, path, headers);
      assert.equal(held['cache-status'], 'ledgergate; hit; detail=memory', path);
    }
  }
});

test('a pending transaction under by_version is not kept, in no form', async (t) => {
  const node = await fakeNode(t, { head: 999n });
  const pending = { json: Buffer.from('{"type":"pending_transaction","hash":"0xab"}'), bcs: Buffer.alloc(40, 1) };
  let isLying = true;
  const liar = await distortingNode(t, node, (said, { path }) => {
    if (!isLying || !path.includes('by_version')) return said;
    return { ...said, body: said.headers['content-type'] === 'application/x-bcs' ? pending.bcs : pending.json };
  });
  const gateway = await testGateway(t, { full: [liar] });
  const path = '/transactions/by_version/600';
  for (const headers of forms) {
    isLying = true;
    assert.equal((await gateway.get(path, headers)).headers['cache-control'], 'no-store');
    isLying = false;
    await sameAsNode(gateway, node, path, headers);
  }
});

test(
  'after an upgrade of its node rendered JSON is read again once its time is over; BCS stays',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const node = await fakeNode(t, { head: 999n });
    let isUpgraded = false;
    const upgrading = await distortingNode(t, node, (said) => {
      const isJson = said.headers['content-type']?.includes('json') === true && said.body.length > 2;
      if (!isUpgraded || !isJson) return said;
      return { ...said, body: Buffer.from(said.body.toString().replace('"version"', '"new":1,"version"')) };
    });
    // The time of a replica's answer is the rest of that in Redis: a second here, ten minutes in production.
    const ttl = { cache: { redis: redisAt(server.url, { ttlMs: 1_000 }) } };
    const [first, second] = [
      await testGateway(t, { full: [upgrading], config: ttl }),
      await testGateway(t, { full: [upgrading], config: ttl }),
    ];
    const path = '/transactions/by_version/600';
    const list = '/transactions?start=600&limit=5';
    const [json, bcs] = forms;
    for (const asked of [path, list]) {
      for (const headers of forms) await first.get(asked, headers);
    }
    await until(async () => (await first.metric('ledgergate_redis_writes_total{outcome="written"}')) >= 4);
    for (const asked of [path, list]) {
      for (const headers of forms) {
        assert.equal((await second.get(asked, headers)).headers['cache-status'], 'ledgergate; hit; detail=redis');
      }
    }
    isUpgraded = true;

    for (const asked of [path, list]) {
      await until(async () => (await second.get(asked, json)).text.includes('"new":1'), 20);
      assert.equal((await second.get(asked, bcs)).headers['cache-status'], 'ledgergate; hit; detail=memory');
    }
  },
);
