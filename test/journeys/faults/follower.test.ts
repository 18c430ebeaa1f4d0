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
