// Nodes of different windows behind one address: a balancer that hands each connection to the next node.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, patient, probe, probeAt, testGateway, type LogLine } from '../../support/gateway.ts';
import { nodeBalancer } from '../../support/balancer.ts';

const sentence = 'several nodes answer at one address, with different ledgers: list each node, or set discover: dns';

async function shallowAndDeep(t: TestContext): Promise<readonly [FakeNode, FakeNode]> {
  return [await fakeNode(t, { oldest: 500n, head: 900n }), await fakeNode(t, { oldest: 0n, head: 900n })];
}

for (const pick of ['in turn', 'at random'] as const) {
  test(`300 old reads of nodes behind one address, picked ${pick}: none gets a 410 of a version that a node holds`, async (t) => {
    const nodes = await shallowAndDeep(t);
    const address = await nodeBalancer(t, nodes, pick);
    const gateway = await testGateway(t, { full: [address], config: { upstream: patient } });
    const counts = new Map<number, number>();
    for (let version = 1; version <= 300; version += 1) {
      const { status } = await gateway.get(probeAt(version));
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }

    t.diagnostic(JSON.stringify([...counts]));
    assert.equal(counts.get(410), undefined);
    // At random, one read in 2^16 meets the shallow node alone, and is refused with 503.
    assert.ok((counts.get(200) ?? 0) >= 299);
  });
}

test('a read below all nodes behind one address is answered 410', async (t) => {
  const nodes = [await fakeNode(t, { oldest: 500n, head: 900n }), await fakeNode(t, { oldest: 300n, head: 900n })];
  const gateway = await testGateway(t, { full: [await nodeBalancer(t, nodes, 'in turn')] });
  await until(async () => (await gateway.get(probeAt(400))).status === 200);

  const reply = await gateway.get(probeAt(200));

  assert.equal(reply.status, 410);
  // The deepest report is not believed.
  assert.equal(reply.headers['x-node-ledger-oldest-version'], '500');
});

test('an idle gateway reports several nodes behind one address within 10 s, in every place', async (t) => {
  const lines: LogLine[] = [];
  const nodes = await shallowAndDeep(t);
  const startedMs = performance.now();
  const gateway = await testGateway(t, {
    full: [await nodeBalancer(t, nodes, 'in turn')],
    config: { upstream: { probeIntervalMs: 1_000 } },
    onLog: (line) => lines.push(line),
  });

  await until(async () => (await gateway.metric('ledgergate_upstream_shared_address{upstream="full-0"}')) === 1, 50);

  assert.ok(performance.now() - startedMs < 10_000);
  const shown = await Promise.all(
    ['/readyz', '/status', '/status.json'].map((path) => fetchReply(gateway.operationsUrl + path, { method: 'GET' })),
  );
  for (const { text } of shown) assert.ok(text.includes(sentence));
  const said = lines.filter(({ msg }) => msg === sentence);
  assert.deepEqual(
    said.map(({ level, upstream }) => [level, upstream]),
    [[40, 'full-0']],
  );
});

test('all nodes roll back, and several of them stand behind one address: each node is named first, and reads follow', async (t) => {
  const [shallow, deep] = await shallowAndDeep(t);
  const other = await fakeNode(t, { head: 900n });
  const config = { upstream: { probeIntervalMs: 200 } };
  const gateway = await testGateway(t, { full: [await nodeBalancer(t, [shallow, deep], 'in turn'), other], config });
  const page = async () => (await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' })).text;
  await until(async () => (await gateway.metric('ledgergate_upstream_shared_address{upstream="full-0"}')) === 1, 50);
  assert.equal((await gateway.get(probe)).headers['ledgergate-served-version'], '900');
  for (const node of [shallow, deep, other]) {
    node.clock.oldest = 0n;
    node.clock.head = 800n;
  }

  let named = '';
  await until(async () => {
    named = await page();
    return /2 nodes report ledger version 800, and reported 900 before \(full-0, full-1\)/.test(named);
  }, 50);
  assert.doesNotMatch(named, /the ledger went back/);
  await until(async () => (await page()).includes('the ledger went back from 900 to 800'), 50);

  assert.equal((await gateway.get(probe)).headers['ledgergate-served-version'], '800');
});
