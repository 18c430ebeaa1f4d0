// LEDGERGATE_EDGE_READS sets the reads around a moving edge; the figure of the project’s claims is taken with 100000.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pool } from 'undici';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, statusesOf, testGateway, twoTiers } from '../../support/gateway.ts';
import { createSampleNode } from '../../support/sample-node.ts';

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

  assert.deepEqual(statusesOf(replies), [200, 200]);
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
    assert.equal(gateway.fleet()[0]?.state, 'usable');
  });
}

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

// A pruning edge that moves a hundred times faster than on today’s networks.

const reads = Number(process.env['LEDGERGATE_EDGE_READS'] ?? 600);
const versionsPerSecond = 20_000;
const reach = 5_000;
const clients = 32;

test(`${reads} reads on both sides of an edge moving at 20,000 versions a second are all answered 200`, async (t) => {
  const moving = { startHead: 2_000_000n, versionsPerSecond, startMs: Date.now() };
  const full = await createSampleNode({ clock: advancingClock({ ...moving, window: 1_000_000n, pruneStep: 500n }) });
  const archival = await createSampleNode({ clock: advancingClock(moving) });
  t.after(() => Promise.all([full.close(), archival.close()]));
  const gateway = await testGateway(t, {
    full: [full],
    archival: [archival],
    config: { upstream: { probeIntervalMs: 200 } },
  });
  const pool = new Pool(new URL(gateway.url).origin, { connections: clients });
  t.after(() => pool.close());
  const times: number[] = [];
  const seen = { ok: 0, wrong: 0, wellAbove: 0, wellAboveFromFull: 0 };

  const client = async (first: number): Promise<void> => {
    for (let turn = first; turn < reads; turn += clients) {
      const offset = BigInt(((turn * 7919) % (2 * reach)) - reach);
      const version = full.ledger().oldestVersion + offset;
      const path = `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
      const askedMs = performance.now();
      const { statusCode, headers, body } = await pool.request({ method: 'GET', path });
      times.push(performance.now() - askedMs);
      const text = await body.text();
      const isRight = statusCode === 200 && text.includes(`"ledger_version":"${version}"`);
      seen[isRight ? 'ok' : 'wrong'] += 1;
      if (!isRight) t.diagnostic(`${version}: ${statusCode} ${text}`);
      if (offset < 2_000n || String(headers['cache-status']).includes('hit')) continue;
      seen.wellAbove += 1;
      if (String(headers['cache-status']).includes('detail=full-0')) seen.wellAboveFromFull += 1;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));

  const repaired = await gateway.metric('ledgergate_pruned_answers_repaired_total');
  t.diagnostic(`${JSON.stringify(seen)}, full ${full.reads}, archival ${archival.reads}, repaired ${repaired}`);
  assert.deepEqual({ ok: seen.ok, wrong: seen.wrong }, { ok: reads, wrong: 0 });
  // The edge moves 2,000 versions in 100 ms: where reads take nearly as long, nothing near it is surely held.
  const medianMs = times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
  if (medianMs > 15) t.diagnostic(`a busy machine: half of the reads took ${Math.round(medianMs)} ms and more`);
  else assert.ok(seen.wellAboveFromFull > seen.wellAbove * 0.5, 'the full node serves what it surely holds');
});
