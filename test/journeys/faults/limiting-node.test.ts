/** A node that limits or sheds requests is asked after the others, and its refusals fail no read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway, twoTiers } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { watchStalls } from '../../support/stalls.ts';
import { submission } from '../../support/submission.ts';

const overloaded = '{"message":"busy","error_code":"overloaded","vm_error_code":null}';
const internal = '{"message":"busy","error_code":"internal_error","vm_error_code":null}';

const refusals = [
  ['429 with Retry-After', { status: 429, body: '', headers: { 'retry-after': '20' } }],
  ['429 as a page', { status: 429, body: '<h1>429</h1>', contentType: 'text/html' }],
  ['overloaded', { status: 503, body: overloaded }],
  ['503 with ledger headers', { status: 503, body: internal, headers: ledgerHeaders({ version: 90_000n }) }],
  ['503 with Retry-After', { status: 503, body: '', headers: { 'retry-after': '20' } }],
] as const;

for (const [what, answer] of refusals) {
  test(`${what} from the node that is asked first: 600 reads are answered, and few of them ask it`, async (t) => {
    // The limiting node is shallower, so it is asked first. More reads come than retries are saved up.
    const limiting = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [limiting], archival: [good] });
    limiting.faults.add({ kind: 'answer', ...answer }, { when: ({ route }) => route === 'resource' });
    const stalls = watchStalls(t);
    const startedMs = performance.now();
    const reads = 600;
    const statuses = new Map<number, number>();

    for (let index = 0; index < reads; index += 20) {
      const batch = Array.from({ length: 20 }, (_, offset) => gateway.get(probeAt(60_000 + index + offset)));
      for (const { status } of await Promise.all(batch)) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }

    assert.deepEqual([...statuses], [[200, reads]]);
    // Pauses double: some twelve in half a minute, and a batch of 20 at the end of each.
    const tookMs = performance.now() - startedMs;
    stalls.judge(limiting.requestsTo('resource') <= 240, `${limiting.requestsTo('resource')} in ${tookMs} ms`);
    assert.equal(gateway.fleet()[0]?.state, 'usable');
    assert.ok((await gateway.metric('ledgergate_upstream_deferrals_total{upstream="full-0"}')) >= 1);
    assert.equal(await gateway.metric('ledgergate_retries_total{outcome="refused"}'), 0);
  });
}

test('a limiting node is asked for versions that only it holds, and its own refusal is the answer', async (t) => {
  const { archival: archive, gateway } = await twoTiers(t, {}, { oldest: 50_000n, head: 90_000n });
  archive.faults.add({ kind: 'answer', status: 429, body: overloaded }, { times: 1 });

  const refused = await gateway.get(probeAt(100));
  const answered = await gateway.get(probeAt(100));

  assert.deepEqual([refused.status, answered.status], [503, 200]);
});

test('with every node refusing, going on to the next one is a retry, and retries stay a share of the reads', async (t) => {
  const nodes = await Promise.all([1, 2, 3].map(() => fakeNode(t, { archival: true, head: 90_000n })));
  const gateway = await testGateway(t, { full: nodes });
  for (const { faults } of nodes) {
    faults.add({ kind: 'answer', status: 429, body: overloaded }, { when: ({ route }) => route === 'resource' });
  }
  const reads = 1_200;
  const startedMs = performance.now();

  for (let index = 0; index < reads; index += 50) {
    const batch = Array.from({ length: 50 }, (_, offset) => gateway.get(probeAt(60_000 + index + offset)));
    for (const { status } of await Promise.all(batch)) assert.equal(status, 429);
  }

  const retried = nodes.reduce((sum, node) => sum + node.reads, 0) - reads;
  const seconds = (performance.now() - startedMs) / 1000;
  // A fifth of the reads, 500 saved up, ten a second; and while some node is not deferred, first attempts are free.
  assert.ok(retried <= reads * 0.2 + 500 + 10 * (seconds + 1) + 500, `${retried} retries`);
});

test('a node that refuses its ledger info as one too many is alive', async (t) => {
  const limiting = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [limiting], config: { upstream: { probeIntervalMs: 20 } } });
  const before = limiting.requestsTo('ledgerInfo');
  limiting.fault = { kind: 'answer', status: 429, body: '' };

  while (limiting.requestsTo('ledgerInfo') < before + 5) await gateway.metric('ledgergate_fleet_head_version');

  assert.equal(gateway.fleet()[0]?.state, 'usable');
});

test('after a pause an accepted submission brings the node back as well', async (t) => {
  const limiting = await fakeNode(t, { head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n, archival: true });
  const gateway = await testGateway(t, { full: [limiting], archival: [other] });
  limiting.faults.add({ kind: 'answer', status: 429, body: overloaded }, { times: 1 });
  let sequenceNumber = 0;
  const submit = () => gateway.post('/transactions', submission({ sequenceNumber: (sequenceNumber += 1) }));
  assert.equal((await submit()).status, 429);
  assert.equal(other.requestsTo('submit'), 0);

  while (limiting.requestsTo('submit') < 2) assert.equal((await submit()).status, 202);
  const before = limiting.requestsTo('submit');
  for (let count = 0; count < 5; count += 1) assert.equal((await submit()).status, 202);

  assert.equal(limiting.requestsTo('submit') - before, 5);
});

test('a look neither tries a node after a pause nor ends the trial', async (t) => {
  const limiting = await fakeNode(t, { head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n, archival: true });
  const gateway = await testGateway(t, {
    full: [limiting],
    archival: [other],
    config: { latest: { maxStalenessMs: 10 } },
  });
  limiting.faults.add(
    { kind: 'answer', status: 429, body: overloaded },
    { when: ({ route }) => route === 'resource', times: 1 },
  );
  await gateway.get(probeAt(60_000));
  const lookedAt = limiting.requestsTo('ledgerInfo');

  while (limiting.requestsTo('ledgerInfo') === lookedAt) await gateway.get('');
  for (let version = 60_001; version < 60_006; version += 1) await gateway.get(probeAt(version));

  assert.equal(limiting.requestsTo('resource'), 6);
});
