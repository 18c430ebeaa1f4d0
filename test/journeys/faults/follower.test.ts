// The follower of a gateway, as nodes fail, lag, fork, lie, go back and refuse: each version once, of the ledger's own history.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { distortingNode } from '../../support/distorting-node.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { patient, testGateway, type LogLine, type NodeAddress, type TestGateway } from '../../support/gateway.ts';

/** Nodes report their heads by themselves, and not to the follower alone. */
const upstream = { ...patient, probeIntervalMs: 200 };

/** Transactions that the follower has read. */
function readBy(gateway: TestGateway): Promise<number> {
  return gateway.metric('ledgergate_follower_transactions_total');
}

/** A gateway whose follower has begun at the head. */
async function followingGateway(
  t: TestContext,
  full: readonly NodeAddress[],
  options: Parameters<typeof testGateway>[1] = {},
) {
  const config = {
    follow: { mode: 'always' },
    ...options.config,
    upstream: { ...upstream, ...options.config?.upstream },
  } as const;
  const gateway = await testGateway(t, { full, ...options, config });
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="taken"}')) > 0);
  return gateway;
}

/** The head of the nodes moves on; resolves when the follower has what is new. */
async function follow(gateway: TestGateway, nodes: readonly FakeNode[], versions: number): Promise<void> {
  for (const { clock } of nodes) clock.advance(BigInt(versions));
  const head = Math.max(...nodes.map(({ clock }) => Number(clock.head)));
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) >= head);
  // The first look at its lag may be the first to find that it is behind.
  const isBehind = async () => (await gateway.metric('ledgergate_follower_lag_seconds')) > 0;
  await until(async () => !(await isBehind()) && !(await isBehind()));
}

/** Each of these transactions is an answer of memory, with the bytes of `node`. */
async function areOf(gateway: TestGateway, node: FakeNode, versions: readonly number[]): Promise<void> {
  for (const version of versions) {
    const path = `/transactions/by_version/${version}`;
    const { text, headers } = await gateway.get(path);
    assert.equal(headers['cache-status'], 'ledgergate; hit; detail=memory', `${version}: ${text.slice(0, 100)}`);
    assert.equal(text, await bytesAt(node.url, version));
  }
}

async function bytesAt(url: string, version: number): Promise<string> {
  return (await fetch(`${url}/transactions/by_version/${version}`)).text();
}

test('transactions that the follower has read are answered without a node', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await followingGateway(t, [node]);
  await follow(gateway, [node], 250);
  const before = node.requestsTo('byVersion');

  await areOf(gateway, node, [901, 1_000, 1_149, 1_150]);
  assert.equal(node.requestsTo('byVersion'), before + 4);
});

/** `count` nodes of one ledger at version 900, and a gateway whose follower has begun there. */
async function fleetOf(t: TestContext, count: number, options?: Parameters<typeof followingGateway>[2]) {
  const nodes = await Promise.all(Array.from({ length: count }, () => fakeNode(t, { head: 900n })));
  return { nodes, gateway: await followingGateway(t, nodes, options) };
}

test('nodes die and come back, each in its turn: no version is missing', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 3);
  for (const node of nodes) {
    await node.refuse();
    await follow(gateway, nodes, 40);
    await node.accept();
    await follow(gateway, nodes, 40);
  }
  const versions = Array.from({ length: 24 }, (_, index) => 901 + index * 10);
  await areOf(gateway, nodes[0] as FakeNode, versions);
});

test('a node that lags is no hindrance, and is followed once it is the last one', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 3);
  const [slow, ...others] = nodes as [FakeNode, ...FakeNode[]];
  await follow(gateway, others, 150);
  for (const node of others) await node.refuse();
  slow.clock.head = 1_049n;
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="failed"}')) > 0);
  assert.equal(await readBy(gateway), 150);

  slow.clock.head = 1_060n;
  await until(async () => (await readBy(gateway)) === 160);
  await areOf(gateway, slow, [1_001, 1_050, 1_051, 1_060]);
});

test('a node on a fork is left: what was read of it is dropped, and read of the others', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 3, { forkTimes: { intervalMs: 10, pauseMs: 0 } });
  const [one, , forked] = nodes as [FakeNode, FakeNode, FakeNode];
  await follow(gateway, nodes, 60);
  forked.clock.fork(929n, 'fork');
  await until(() => gateway.fleet()[2]?.forkedAt === '930');
  for (let step = 0; step < 5; step += 1) await follow(gateway, nodes, 20);
  // The first pages may be of before the purge.
  await areOf(gateway, one, [1_045, 1_060]);
});

/** The forked node alone has read on before the fork is found. */
test('transactions of a fork that was followed are replaced by those of the others', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 3, { forkTimes: { intervalMs: 400, pauseMs: 0 } });
  const [one, two, forked] = nodes as [FakeNode, FakeNode, FakeNode];
  forked.clock.fork(950n, 'fork');
  await follow(gateway, [forked], 100);
  for (const { clock } of [one, two]) clock.head = 1_000n;
  await until(() => gateway.fleet()[2]?.forkedAt === '951');
  for (let step = 0; step < 3; step += 1) await follow(gateway, nodes, 20);
  await areOf(gateway, one, [1_045, 1_060]);
  // 951 to 1000 twice.
  assert.ok((await readBy(gateway)) >= 210);
});

test('a node that reports a head far above the others is not believed', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 3);
  const [, , liar] = nodes as [FakeNode, FakeNode, FakeNode];
  liar.clock.head = 5_000_000_000n;
  await follow(gateway, nodes.slice(0, 2), 120);
  await areOf(gateway, nodes[0] as FakeNode, [950, 1_020]);
});

test('after a rollback it goes on where the histories part', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await followingGateway(t, [node]);
  await follow(gateway, [node], 200);
  await node.refuse();
  node.clock.head = 1_050n;
  node.clock.fork(1_020n, 'fork');
  await node.accept();
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) === 1_050);
  await until(async () => (await readBy(gateway)) === 230);

  await follow(gateway, [node], 100);
  await areOf(gateway, node, [1_021, 1_050, 1_051, 1_150]);
  assert.equal(await readBy(gateway), 330);
});

test('a node that sheds is left alone, and the other one is followed', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 2);
  const [busy, well] = nodes as [FakeNode, FakeNode];
  const body = '{"message":"m","error_code":"rate_limited","vm_error_code":null}';
  busy.faults.add({ kind: 'answer', status: 429, body }, { when: ({ route }) => route === 'transactions' });
  for (let step = 0; step < 4; step += 1) await follow(gateway, nodes, 25);
  const before = busy.requestsTo('transactions');
  const taken = well.requestsTo('transactions');
  for (let step = 0; step < 6; step += 1) await follow(gateway, nodes, 25);
  const [shed, answered] = [busy.requestsTo('transactions') - before, well.requestsTo('transactions') - taken];
  assert.ok(answered >= 6 && shed * 2 <= answered, `${shed} and ${answered} requests`);
});

test('the allowance of a node holds', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const startMs = performance.now();
  const gateway = await followingGateway(t, [{ url: node.url, maxRequestsPerSecond: 4 }]);
  for (let step = 0; step < 3; step += 1) await follow(gateway, [node], 10);
  const seconds = (performance.now() - startMs) / 1_000;
  // A burst first, of at least a second.
  const requests = node.requestsTo('transactions');
  assert.ok(requests <= 8 + 4 * seconds, `${requests} in ${seconds} s`);
});

for (const route of ['byVersion', 'byHash'] as const)
  test(`a transaction whose own answer (${route}) differs from its page ends the use of pages, with an alarm`, async (t) => {
    const lines: LogLine[] = [];
    const node = await fakeNode(t, { head: 900n });
    const template = { byVersion: 'by_version', byHash: 'by_hash' }[route];
    const distorted = await distortingNode(t, node, (said, { path }) =>
      path.includes(template) ? { ...said, body: Buffer.from(said.body.toString().replace('{', '{ ')) } : said,
    );
    const gateway = await followingGateway(t, [distorted], {
      config: { upstream: { audit: 1 } },
      onLog: (line) => lines.push(line),
    });
    await until(async () => (await gateway.metric('ledgergate_follower_distrusted')) === 1);
    await until(async () => (await gateway.metric('ledgergate_follower_running')) === 0);

    assert.ok((await gateway.metric('ledgergate_follower_checks_total{result="mismatch"}')) > 0);
    const alarms = lines.filter(({ level }) => level === 50);
    assert.partialDeepStrictEqual(alarms, [{ upstream: 'full-0', version: 900, route: template }]);
    node.clock.advance(10n);
    const { headers } = await gateway.get('/transactions/by_version/905');
    assert.match(headers['cache-status'] ?? '', /fwd=miss/);
  });

test('transactions that are equal alone are counted', async (t) => {
  const { nodes, gateway } = await fleetOf(t, 2, { config: { upstream: { audit: 1 } } });
  await follow(gateway, nodes, 3);
  await until(async () => (await gateway.metric('ledgergate_follower_checks_total{result="equal"}')) >= 3);
  assert.equal(await gateway.metric('ledgergate_follower_distrusted'), 0);
});
