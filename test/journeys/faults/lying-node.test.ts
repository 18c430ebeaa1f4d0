import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { distortingNode, type Distort, type Said } from '../../support/distorting-node.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, probe, probeAt, testGateway, type Reply, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { written } from '../../support/redis-replica.ts';
import { redisAt, redisTest } from '../../support/redis-server.ts';

test('an archive whose head is not believed answers what the others have pruned', async (t) => {
  const full = await Promise.all([fakeNode(t, { oldest: 500n }), fakeNode(t, { oldest: 500n })]);
  const ahead = await fakeNode(t, { head: 5_000_000_000n });
  const gateway = await testGateway(t, { full, archival: [ahead] });
  const isSuspected = async () => (await gateway.metric('ledgergate_fleet_head_version')) === 1_000;
  await until(isSuspected);
  // Their headers still claim the version.
  for (const node of full) node.faults.add({ kind: 'pruned' });

  const { status, text, headers } = await gateway.get(`${probe}?ledger_version=600`);

  assert.equal(status, 200, text);
  assert.equal(headers['cache-status'], 'ledgergate; fwd=miss; detail=archive-0');
});

test('a head of the first node is retracted when the others contradict it', async (t) => {
  const liar = await fakeNode(t, { head: 5_000_000_000n });
  const honest = await Promise.all([fakeNode(t, { head: 1_000n }), fakeNode(t, { head: 1_001n })]);
  for (const node of honest) await node.refuse();
  const gateway = await testGateway(t, { full: [liar, ...honest], config: { upstream: { probeIntervalMs: 50 } } });
  assert.equal((await gateway.get(`${probe}?ledger_version=900`)).headers['x-node-ledger-version'], '5000000000');

  for (const node of honest) await node.accept();
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) <= 2_000);

  assert.match((await gateway.get(probe)).text, /"ledger_version":"100[01]"/);
});

/** Near enough to the others to be believed. */
const lift: Distort = (said) => {
  const version = BigInt(said.headers['x-node-ledger-version'] ?? 0) + 5_000n;
  return { ...said, headers: { ...said.headers, 'x-node-ledger-version': String(version) } };
};

test('a node that reports versions which it calls not found itself stalls no reads of the latest state for long', async (t) => {
  const honest = await Promise.all([fakeNode(t), fakeNode(t)]);
  const liar = await distortingNode(t, await fakeNode(t), lift);
  const gateway = await testGateway(t, { full: [liar, ...honest] });
  await until(async () => {
    const { status, text, headers } = await gateway.get(probe);
    assert.equal(status, 200, text);
    return headers['x-node-ledger-version'] === '1000';
  });

  for (let reads = 0; reads < 5; reads += 1) {
    const { status, text, headers } = await gateway.get(`/accounts/0x${reads + 1}`, {
      'ledgergate-max-staleness': '0',
    });
    assert.notEqual(status, 503, text);
    assert.equal(headers['x-node-ledger-version'], '1000');
  }
  assert.match((await gateway.get(probe)).text, /"ledger_version":"1000"/);
});

test('the only node that can be asked is believed, whatever it calls not found', async (t) => {
  const node = await fakeNode(t);
  const gateway = await testGateway(t, { full: [await distortingNode(t, node, lift)] });
  for (let reads = 0; reads < 4; reads += 1) await gateway.get(`${probe}?ledger_version=${5_000 + reads}`);

  node.clock.advance(10n);
  await gateway.get(`${probe}?ledger_version=500`);

  const { headers } = await gateway.get(`${probe}?ledger_version=500`);
  assert.equal(headers['x-node-ledger-version'], '6010');
});

// Nodes that report a head which their answers do not have, and answers that grow with the head: nothing wrong is kept.

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

redisTest(
  'after an upgrade of its node rendered JSON is read again once its time is over; BCS stays',
  async (t, server) => {
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
    await written(first, 4);
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

// A ledger info whose body contradicts its headers: clients get one coherent snapshot, and the ledger never steps back.

type Info = Readonly<Record<string, unknown>>;

const error = { message: 'm', error_code: 'internal_error', vm_error_code: null };

/** A node at version 1000, whose ledger info has the body that `change` makes of it. */
const changed =
  (change: (info: Info) => unknown): Distort =>
  (said, { isLook }) =>
    isLook ? { ...said, body: Buffer.from(JSON.stringify(change(JSON.parse(said.body.toString()) as Info))) } : said;

const contradictions: Readonly<Record<string, (info: Info) => unknown>> = {
  'an older version': (info) => ({ ...info, ledger_version: '5', block_height: '0' }),
  'a newer version': (info) => ({ ...info, ledger_version: '5000000' }),
  'another epoch, time and block': (info) => ({ ...info, epoch: '0', ledger_timestamp: '1', block_height: '999' }),
};

for (const [what, change] of Object.entries(contradictions)) {
  test(`a ledger info of ${what} than its headers is answered by the snapshot of the headers`, async (t) => {
    const node = await fakeNode(t, { head: 1_000n });
    const gateway = await testGateway(t, { full: [await distortingNode(t, node, changed(change))] });

    const { status, text, headers } = await gateway.get('');

    const told = JSON.parse(text) as Info;
    assert.equal(status, 200);
    assert.deepEqual(
      [told['ledger_version'], told['epoch'], told['ledger_timestamp'], told['block_height']],
      ['ledger-version', 'epoch', 'ledger-timestampusec', 'block-height'].map((name) => headers[`x-node-${name}`]),
    );
    assert.deepEqual(Object.keys(told), Object.keys(JSON.parse(await (await fetch(node.url)).text()) as Info));
  });
}

const refused: Readonly<Record<string, (info: Info) => unknown>> = {
  'another chain': (info) => ({ ...info, chain_id: 99 }),
  'an error': () => error,
  'an array': () => [],
  null: () => null,
};

for (const [what, change] of Object.entries(refused)) {
  test(`a ledger info with ${what} in its body is answered by another node`, async (t) => {
    const wrong = await distortingNode(t, await fakeNode(t, { head: 1_001n }), changed(change));
    const gateway = await testGateway(t, { full: [wrong, await fakeNode(t, { head: 1_000n })] });

    const told = JSON.parse((await gateway.get('')).text) as Info;

    assert.deepEqual([told['chain_id'], told['ledger_version']], [1, '1000']);
  });
}

// `health_check_failed` answers a question about the node; under any other path it is a failure of that node.

const unhealthy = {
  kind: 'answer',
  status: 503,
  body: '{"message":"old","error_code":"health_check_failed","vm_error_code":null}',
} as const;

test('health_check_failed fails no read beside a healthy node, and ejects the node', async (t) => {
  const sick = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
  const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
  const gateway = await testGateway(t, { full: [sick, good] });
  const headers = ledgerHeaders({ version: 90_000n });
  sick.faults.add({ ...unhealthy, headers }, { when: ({ route }) => route !== 'ledgerInfo' });

  const own = await Promise.all(Array.from({ length: 10 }, (_, index) => gateway.get(probeAt(60_000 + index))));
  const passed = await gateway.get('/accounts/0x1?ledger_version=60000&x=1');

  assert.deepEqual(new Set([...own, passed].map(({ status }) => status)), new Set([200]));
  assert.ok(sick.requestsTo('resource') >= 5, 'the sick node was asked');
  assert.equal(await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}'), 1);
});

test('health_check_failed is the answer to a health check, and another node is not asked', async (t) => {
  const nodes = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })];
  const gateway = await testGateway(t, { full: nodes });
  for (const node of nodes) node.faults.add(unhealthy, { when: ({ route }) => route === 'healthy' });

  const reply = await gateway.get('/-/healthy?duration_secs=1');

  assert.deepEqual([reply.status, reply.text], [503, unhealthy.body]);
  assert.equal(
    nodes.reduce((sum, node) => sum + node.requestsTo('healthy'), 0),
    1,
  );
});
