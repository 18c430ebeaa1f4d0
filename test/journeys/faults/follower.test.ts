// The follower of a gateway, as nodes fail, lag, fork, lie, go back and refuse: each version once, of the ledger's own history.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { testGateway, type NodeAddress, type TestGateway } from '../../support/gateway.ts';

const following = { follow: { mode: 'always' } } as const;

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
  const gateway = await testGateway(t, { full, ...options, config: { ...following, ...options.config } });
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="taken"}')) > 0);
  return gateway;
}

/** The head of the nodes moves on; resolves when the follower has what is new. */
async function follow(gateway: TestGateway, nodes: readonly FakeNode[], versions: number): Promise<void> {
  const before = await readBy(gateway);
  for (const { clock } of nodes) clock.advance(BigInt(versions));
  await until(async () => (await readBy(gateway)) >= before + versions);
}

/** Each of these transactions is an answer of memory, with the bytes of `node`. */
async function areOf(gateway: TestGateway, node: FakeNode, versions: readonly number[]): Promise<void> {
  for (const version of versions) {
    const path = `/transactions/by_version/${version}`;
    const { text, headers } = await gateway.get(path);
    assert.equal(headers['cache-status'], 'ledgergate; hit; detail=memory', `${version}: ${text.slice(0, 100)}`);
    assert.equal(text, await (await fetch(node.url + path)).text());
  }
}

test('transactions that the follower has read are answered without a node', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await followingGateway(t, [node]);
  await follow(gateway, [node], 250);
  const before = node.requestsTo('byVersion');

  await areOf(gateway, node, [901, 1_000, 1_149, 1_150]);
  assert.equal(node.requestsTo('byVersion'), before + 4);
});
