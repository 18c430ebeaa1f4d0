import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probeAt, testGateway, twoTiers } from '../../support/gateway.ts';

test('a version below every full node is read from the archival node', async (t) => {
  const { full, archival, gateway } = await twoTiers(t);

  const reply = await gateway.get(probeAt(120));

  assert.equal(reply.status, 200);
  assert.match(reply.text, /"ledger_version":"120"/);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 0, archival: 1 });
});

test('the archival node receives no read while a full node holds the version', async (t) => {
  const { full, archival, gateway } = await twoTiers(t);

  for (const version of [500, 600, 899, 900]) assert.equal((await gateway.get(probeAt(version))).status, 200);

  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 4, archival: 0 });
});

test('after a full node has pruned the version, the client gets 200, and later reads skip that node', async (t) => {
  const { full, archival, gateway } = await twoTiers(t, {}, { oldest: 100n });
  full.clock.oldest = 500n;

  const repaired = await gateway.get(probeAt(300));
  const next = await gateway.get(probeAt(301));

  assert.deepEqual([repaired.status, next.status], [200, 200]);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 1, archival: 2 });
  assert.equal(await gateway.metric('ledgergate_pruned_answers_repaired_total'), 1);
});

test('however many full nodes have pruned it, the first refusal sends the read to the archival node', async (t) => {
  const full = await Promise.all([1, 2, 3, 4].map(() => fakeNode(t, { oldest: 100n, head: 900n })));
  const archival = await fakeNode(t, { archival: true, head: 900n });
  const gateway = await testGateway(t, { full, archival: [archival] });
  for (const { clock } of full) clock.oldest = 500n;

  const replies = [await gateway.get(probeAt(300)), await gateway.get('/blocks/by_height/16')];

  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200],
  );
  assert.equal(
    full.reduce((sum, { reads }) => sum + reads, 0),
    2,
  );
  assert.equal(archival.reads, 2);
});

for (const kind of ['pruned', 'pruned while reading'] as const) {
  test(`"${kind}" from a node whose headers claim the version is repaired by the archival node`, async (t) => {
    const { full, gateway } = await twoTiers(t, {}, { oldest: 100n });
    full.fault = { kind };

    const reply = await gateway.get(probeAt(300));

    assert.equal(reply.status, 200);
    assert.equal(full.reads, 1);
    const { upstreams } = JSON.parse((await gatewayReadiness(gateway.operationsUrl)).text) as {
      upstreams: { state: string }[];
    };
    assert.equal(upstreams[0]?.state, 'usable');
  });
}

test('a refusal of a version in the middle of a window does not narrow the window', async (t) => {
  const { full, archival, gateway } = await twoTiers(t, {}, { oldest: 100n });
  full.faults.add({ kind: 'pruned while reading' }, { times: 1, when: ({ route }) => route === 'resource' });

  const repaired = await gateway.get(probeAt(700));
  const next = await gateway.get(probeAt(699));

  assert.deepEqual([repaired.status, next.status], [200, 200]);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 2, archival: 1 });
});

test('the client receives the deepest node\u2019s 410 when no node holds the version', async (t) => {
  const shallow = await fakeNode(t, { oldest: 500n, head: 900n });
  const deep = await fakeNode(t, { oldest: 200n, head: 900n });
  const gateway = await testGateway(t, { full: [shallow], archival: [deep] });

  const reply = await gateway.get(probeAt(100));

  assert.equal(reply.status, 410);
  assert.deepEqual(JSON.parse(reply.text), {
    message: 'Ledger version(100) has been pruned',
    error_code: 'version_pruned',
    vm_error_code: null,
  });
  assert.equal(reply.headers['cache-control'], 'no-store');
  assert.equal(reply.headers['x-node-ledger-oldest-version'], '200');
  assert.deepEqual({ shallow: shallow.reads, deep: deep.reads }, { shallow: 0, deep: 1 });
});

test('a pruned answer is not passed on while the node that holds the version is away', async (t) => {
  const { archival, gateway } = await twoTiers(t);
  await archival.refuse();

  const reply = await gateway.get(probeAt(100));

  assert.equal(reply.status, 503);
  assert.equal((JSON.parse(reply.text) as { error_code: string }).error_code, 'internal_error');
});

test('a version just above every head is waited for', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 3_000 } } });

  const reply = gateway.get(probeAt(905));
  node.clock.head = 910n;
  const news = await gateway.get('/accounts/0x1/resource/0x1::account::Account');

  assert.equal(news.status, 200);
  assert.match((await reply).text, /"ledger_version":"905"/);
});

test('a version that no node reaches in time gets the node\u2019s own 404', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 30 } } });

  const reply = await gateway.get(probeAt(905));

  assert.equal(reply.status, 404);
  assert.equal((JSON.parse(reply.text) as { error_code: string }).error_code, 'version_not_found');
  assert.equal(reply.headers['cache-control'], 'no-store');
});

test('a version above every reported head is requested at once: a node without news may hold it', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 0 } } });
  node.clock.head = 910n;

  const reply = await gateway.get(probeAt(905));

  assert.equal(reply.status, 200);
  assert.equal(node.requestsTo('resource'), 1);
});

test('a version that a node without news reaches during the wait is read then', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 9_000 } } });
  const startedMs = performance.now();

  const reply = gateway.get(probeAt(905));
  await until(() => node.requestsTo('ledgerInfo') >= 2);
  node.clock.head = 910n;

  assert.equal((await reply).status, 200);
  assert.ok(performance.now() - startedMs < 8_000);
});

test('versions of the future cost a node two requests each, of the far future one', async (t) => {
  const nodes = await Promise.all([
    fakeNode(t, { head: 900n }),
    fakeNode(t, { head: 899n }),
    fakeNode(t, { head: 898n }),
  ]);
  const gateway = await testGateway(t, { full: nodes, config: { latest: { waitForVersionMs: 120 } } });
  const asked = () => nodes.reduce((sum, node) => sum + node.requestsTo('resource'), 0);

  const near = await Promise.all(Array.from({ length: 20 }, (_, index) => gateway.get(probeAt(1_000 + index))));
  const askedForNear = asked();
  const far = await Promise.all(Array.from({ length: 20 }, (_, index) => gateway.get(probeAt(2_000_000 + index))));

  assert.deepEqual(new Set([...near, ...far].map(({ status }) => status)), new Set([404]));
  assert.deepEqual([askedForNear, asked() - askedForNear], [40, 20]);
  // All waiting reads share the looks: one at the start, and one in 50 ms.
  for (const node of nodes) assert.ok(node.requestsTo('ledgerInfo') <= 1 + 12, String(node.requestsTo('ledgerInfo')));
});

test('a version ahead of one node is read from the node that has it', async (t) => {
  const lagging = await fakeNode(t, { head: 800n });
  const fresh = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [lagging, fresh] });

  const reply = await gateway.get(probeAt(850));

  assert.equal(reply.status, 200);
  assert.deepEqual({ lagging: lagging.reads, fresh: fresh.reads }, { lagging: 0, fresh: 1 });
});

test('a node far behind receives no submissions while another is near the head, and serves the versions that it holds', async (t) => {
  const behind = await fakeNode(t, { oldest: 500n, head: 80_000n });
  const fresh = await fakeNode(t, { head: 90_000n });
  const bound = { maxLagMs: 1_000 };
  const gateway = await testGateway(t, { full: [behind, fresh], config: { upstream: bound } });
  fresh.faults.add(
    { kind: 'answer', status: 502, body: '<html>', contentType: 'text/html' },
    { when: ({ route }) => route === 'resource' },
  );

  const held = await gateway.get(probeAt(70_000));
  const submitted = await gateway.post('/transactions', '{}');

  assert.equal(held.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.equal(submitted.status, 400);
  assert.deepEqual([behind.requestsTo('submit'), fresh.requestsTo('submit')], [0, 1]);
});

async function gatewayReadiness(operationsUrl: string): Promise<{ text: string }> {
  const response = await fetch(`${operationsUrl}/readyz`);
  return { text: await response.text() };
}

test('a block is read from a node that holds it, however many have pruned it', async (t) => {
  const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest: 500n, head: 900n })));
  const archival = await fakeNode(t, { archival: true, head: 900n });
  const gateway = await testGateway(t, { full, archival: [archival] });

  const [old, young, future] = await Promise.all(['5', '40', '46'].map((h) => gateway.get(`/blocks/by_height/${h}`)));

  assert.deepEqual([old?.status, young?.status, future?.status], [200, 200, 404]);
  assert.match(old?.text ?? '', /"block_height":"5"/);
  const asked = [...full, archival].map((node) => node.requestsTo('blockByHeight'));
  assert.deepEqual([asked[3], asked.reduce((sum, count) => sum + count)], [1, 3]);
  await archival.close();
  for (let round = 0; round < 3; round += 1) {
    assert.equal((await gateway.get('/blocks/by_height/6')).status, 503);
  }
  assert.equal((await gateway.get('/blocks/by_height/5')).headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('a block that one node has not got to yet is read from the one that has', async (t) => {
  const late = await fakeNode(t, { oldest: 500n, head: 900n });
  const early = await fakeNode(t, { oldest: 0n, head: 900n });
  const gateway = await testGateway(t, { full: [late], archival: [early] });
  early.clock.head = 1000n;
  await gateway.get('/blocks/by_version/5');

  assert.equal((await gateway.get('/blocks/by_height/50')).status, 200);
  assert.equal(late.requestsTo('blockByHeight'), 0);
});

test('after a 410 of one node the deepest node is asked, and its answer decides', async (t) => {
  const pruned = '{"message":"pruned","error_code":"version_pruned","vm_error_code":null}';
  const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest: 500n, head: 900n })));
  const archival = await fakeNode(t, { archival: true, head: 900n });
  const gateway = await testGateway(t, { full, archival: [archival] });
  for (const { faults } of full) faults.add({ kind: 'answer', status: 410, body: pruned });
  // A page that is not full, so that no gateway keeps it.
  const events = '/accounts/0x1/events/0?start=40';

  const held = await gateway.get(events);
  archival.fault = { kind: 'answer', status: 410, body: pruned.replace('pruned"', 'gone"') };
  const gone = await gateway.get(events);
  await archival.close();
  const unknown = await gateway.get(events);

  assert.deepEqual([held.status, gone.status, unknown.status], [200, 410, 503]);
  assert.match(gone.text, /gone/);
  assert.equal(
    full.reduce((sum, { reads }) => sum + reads, 0),
    3,
  );
});
