/** Heads that one node alone has reached or claims: what is read above them, kept of them, and which head is believed. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { type Distort, distortingNode } from '../../support/distorting-node.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, probeAt, type Reply, type TestGateway, testGateway } from '../../support/gateway.ts';
import { untilUp } from '../../support/redis-replica.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { createSampleNode, type SampleNode } from '../../support/sample-node.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

// Answers above the second newest head serve from memory, and nothing holds them for final before another node is there.

const upstream = { probeIntervalMs: 50 };
const immutable = 'public, max-age=31536000, immutable';

/** Source and lifetime of an answer. */
function shown({ status, text, headers }: Reply): readonly (string | undefined)[] {
  assert.equal(status, 200, text);
  return [/hit|fwd=miss; detail=.*/.exec(headers['cache-status'] ?? '')?.[0], headers['cache-control']];
}

/** Resolves when the gateway has the node's report of this head. */
async function untilAt(gateway: TestGateway, name: string, head: bigint): Promise<void> {
  const sample = `ledgergate_upstream_head_version{upstream="${name}"}`;
  await until(async () => (await gateway.metric(sample)) >= Number(head));
}

/** A node `by` versions ahead of another, both of them honest. */
async function pair(t: TestContext, by: bigint): Promise<readonly [ahead: FakeNode, behind: FakeNode]> {
  return [await fakeNode(t, { head: 1_000n + by }), await fakeNode(t, { head: 1_000n })];
}

const lies: Distort = (said, { isLook }) =>
  isLook ? said : { ...said, body: Buffer.from(said.body.toString().replace('"data":{', '"data":{"lie":true,')) };
const resets: Distort = (said, { isLook }) => (isLook ? said : 'reset');

test('what a lone node 1,500 versions ahead claims is not kept as final, and read anew once the ledger is there', async (t) => {
  let distort = lies;
  const liar = await distortingNode(t, await fakeNode(t, { head: 2_500n }), (...said) => distort(...said));
  const honest = [await fakeNode(t), await fakeNode(t)];
  const gateway = await testGateway(t, { full: [liar, ...honest], config: { upstream } });
  await untilAt(gateway, 'full-2', 1_000n);

  const alone: Reply[] = [];
  for (let read = 0; read < 3; read += 1) alone.push(await gateway.get(probeAt(1_700)));
  for (const node of honest) node.clock.advance(1_000n);
  await untilAt(gateway, 'full-1', 2_000n);
  await untilAt(gateway, 'full-2', 2_000n);
  // Any of the three may be asked now.
  distort = resets;
  const passed = [await gateway.get(probeAt(1_700)), await gateway.get(probeAt(1_700))];

  assert.match(alone[0]?.text ?? '', /lie/);
  assert.deepEqual(alone.map(shown), [
    ['fwd=miss; detail=full-0', 'no-cache'],
    ['hit', 'no-cache'],
    ['hit', 'no-cache'],
  ]);
  assert.match(shown(passed[0] as Reply).join(), /^fwd=miss; detail=full-[12],public, max-age=31536000, immutable$/);
  assert.deepEqual(shown(passed[1] as Reply), ['hit', immutable]);
  for (const { text } of passed) assert.doesNotMatch(text, /lie/);
});

test('an answer of the node ahead becomes final with the second head, without another read', async (t) => {
  const [ahead, behind] = await pair(t, 20n);
  const gateway = await testGateway(t, { full: [ahead, behind], config: { upstream } });

  const latest = [await gateway.get(probe), await gateway.get(probe)];
  const alone = [await gateway.get(probeAt(1_020)), await gateway.get(probeAt(1_020))];
  behind.clock.advance(20n);
  await untilAt(gateway, 'full-1', 1_020n);
  const passed = [await gateway.get(probeAt(1_020)), await gateway.get(probeAt(1_020))];

  assert.deepEqual(
    latest.map((reply) => reply.headers['ledgergate-served-version']),
    ['1020', '1020'],
  );
  assert.deepEqual(latest.map(shown), [
    ['fwd=miss; detail=full-0', 'no-cache'],
    ['hit', 'no-cache'],
  ]);
  assert.deepEqual(alone.map(shown), [
    ['hit', 'no-cache'],
    ['hit', 'no-cache'],
  ]);
  assert.deepEqual(passed.map(shown), [
    ['hit', immutable],
    ['hit', immutable],
  ]);
  assert.deepEqual([ahead.requestsTo('resource'), behind.requestsTo('resource')], [1, 0]);
});

test('history above the second head becomes final with it', async (t) => {
  const [ahead, behind] = await pair(t, 50n);
  const gateway = await testGateway(t, { full: [ahead, behind], config: { upstream } });
  const paths = [
    '/transactions/by_version/1030',
    '/transactions?start=1020&limit=10',
    '/blocks/by_height/51?with_transactions=false',
  ];
  const control = async (path: string) => (await gateway.get(path)).headers['cache-control'];

  const below = await control('/transactions/by_version/990');
  const alone = await Promise.all([...paths, ...paths].map(control));
  behind.clock.advance(50n);
  await untilAt(gateway, 'full-1', 1_050n);
  const passed = await Promise.all(paths.map(control));

  assert.equal(below, 'public, max-age=600');
  assert.deepEqual(new Set(alone), new Set(['no-cache']));
  assert.deepEqual(passed, ['public, max-age=600', 'public, max-age=600', immutable]);
});

test('answers of the only usable node are final at once', async (t) => {
  const node = await fakeNode(t);
  const down = await fakeNode(t);
  await down.refuse();
  const gateway = await testGateway(t, { full: [node, down], config: { upstream } });

  assert.deepEqual(shown(await gateway.get(probeAt(1_000))), ['fwd=miss; detail=full-0', immutable]);
});

for (const tier of ['store', 'redis'] as const) {
  const title = `${tier} gets an answer of the node ahead once a second head has passed it`;
  test(title, { skip: tier === 'redis' && noRedis }, async (t) => {
    const [ahead, behind] = await pair(t, 20n);
    const cache =
      tier === 'store'
        ? { store: { path: temporaryFolder(t), maxBytes: 64 * 1024 * 1024 } }
        : { redis: redisAt((await redisServer(t)).url, { timeoutMs: 1_000 }) };
    const gateway = await testGateway(t, { full: [ahead, behind], config: { upstream, cache } });
    await until(async () => (await gateway.metric(`ledgergate_${tier}_up`)) === 1);
    const written = () => gateway.metric(`ledgergate_${tier}_writes_total{outcome="written"}`);

    await gateway.get(probeAt(1_020));
    await gateway.get(probeAt(1_000));
    await until(async () => (await written()) > 0);
    const before = await written();
    behind.clock.advance(20n);
    await until(async () => (await written()) === 2);

    assert.equal(before, 1);
  });
}

test('where replicas wait for answers, the quiet second node is looked at', { skip: noRedis }, async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t)];
  const server = await redisServer(t);
  const redis = redisAt(server.url, { timeoutMs: 1_000 });
  // No probe comes within the test.
  const gateway = await testGateway(t, { full: nodes, config: { cache: { redis } } });
  await untilUp(gateway);

  await until(async () => {
    for (const node of nodes) node.clock.advance(1n);
    await gateway.get(probe, { 'ledgergate-max-staleness': '1ms' });
    return (await gateway.metric('ledgergate_redis_writes_total{outcome="written"}')) > 0;
  });
});

test('one node far beyond a ledger that stands moves no head, and no read above is kept', async (t) => {
  // A ledger that stopped long ago, by the times of two of its nodes; the third has the time of our clock.
  const stopped = await Promise.all([0, 1].map(() => fakeNode(t, { head: 1_000_000n })));
  const source = await fakeNode(t, { head: 6_000_000n });
  const ahead = await distortingNode(t, source, (said) => {
    return { ...said, headers: { ...said.headers, 'x-node-ledger-timestampusec': String(Date.now() * 1000) } };
  });
  const gateway = await testGateway(t, { full: [ahead, ...stopped], config: { upstream } });
  const looks = [source, ...stopped].map((node) => [node, node.requests] as const);
  await until(() => looks.every(([node, before]) => node.requests >= before + 2));

  assert.match((await gateway.get('')).text, /"ledger_version":"1000000"/);
  assert.match((await gateway.get(probe)).text, /"ledger_version":"1000000"/);
  const above = await gateway.get(probeAt(3_000_000));
  assert.deepEqual([above.status, above.headers['cache-control']], [404, 'no-store'], above.text);
});

// Reads of a version that only the freshest node has, or is about to have, beside nodes that lag.

const versionsPerSecond = 1_000;
const boom = '{"message":"boom","error_code":"internal_error","vm_error_code":null}';

/** A node of a ledger that commits a version each ms, and behind a gateway another one that lags by 300 ms. */
async function laggingPair(t: TestContext): Promise<{ readonly fresh: SampleNode; readonly gateway: TestGateway }> {
  const startMs = Date.now();
  const nodeAt = async (startHead: bigint): Promise<SampleNode> => {
    const node = await createSampleNode({ clock: advancingClock({ startHead, versionsPerSecond, startMs }) });
    t.after(() => node.close());
    return node;
  };
  const [fresh, lagging] = [await nodeAt(1_000_000n), await nodeAt(999_700n)];
  const config = { upstream: { probeIntervalMs: 200 }, latest: { waitForVersionMs: 500 } };
  return { fresh, gateway: await testGateway(t, { full: [lagging, fresh], config }) };
}

for (const [what, headers] of [
  ['named by the read', undefined],
  ['named by Ledgergate-Min-Version', { 'ledgergate-max-staleness': '200ms' }],
  ['named by Ledgergate-Min-Version with Max-Staleness 0', { 'ledgergate-max-staleness': '0ms' }],
] as const) {
  test(`a version 30 ms above the head, ${what}, is waited for beside a node that lags by 300 ms`, async (t) => {
    const { fresh, gateway } = await laggingPair(t);

    for (let read = 0; read < 10; read += 1) {
      const version: bigint = fresh.ledger().version + 30n;
      const reply = await (headers === undefined
        ? gateway.get(`${probe}?ledger_version=${version}`)
        : gateway.get(probe, { ...headers, 'ledgergate-min-version': String(version) }));
      assert.equal(reply.status, 200, `read ${read}: ${reply.text}`);
    }
  });
}

for (const [what, headers] of [
  ['the latest state', {}],
  ['the latest state with Max-Staleness 0', { 'ledgergate-max-staleness': '0ms' }],
] as const) {
  test(`the freshest node answers 500 to a fifth of reads: ${what} is answered all the same`, async (t) => {
    const { fresh, gateway } = await laggingPair(t);
    let count = 0;
    fresh.faults.add(
      { kind: 'answer', status: 500, body: boom },
      { when: ({ route }) => route === 'resource' && (count += 1) % 5 === 0 },
    );
    const statuses = new Map<number, number>();

    for (let read = 0; read < 50; read += 1) {
      const { status } = await gateway.get(`/accounts/0x${(read + 1).toString(16)}/resource/0x1::a::B`, headers);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }

    // The sample nodes hold no such resource.
    assert.deepEqual([...statuses], [[404, 50]]);
  });
}
