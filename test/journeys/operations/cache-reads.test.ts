/** Counts of reads by kind: hits, misses, and reads that nobody repeated, against the requests of the test. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operations } from '../../../src/cache/kinds.ts';
import { purge } from '../../support/admin.ts';
import { until } from '../../support/eventually.ts';
import { fc } from '../../support/fast-check.ts';
import { fetchReply, nodeAndGateway, probe, probeAt, type TestGateway } from '../../support/gateway.ts';
import { submission } from '../../support/submission.ts';

const viewBody = '{"function":"0x1::coin::balance","type_arguments":[],"arguments":["0x1"]}';
const padded = (bytes: number, version: number) =>
  `/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}?ledger_version=${version}`;

type Counts = Readonly<Record<string, number>>;

/** The series of a counter that are not 0, by their label values. */
async function countsOf(gateway: TestGateway, family: string): Promise<Counts> {
  const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  const series = [...text.matchAll(new RegExp(`^${family}\\{(.*)\\} (\\d+)$`, 'gm'))];
  const counts = series.map(([, labels = '', value]) => [
    [...labels.matchAll(/"([^"]*)"/g)].map(([, label]) => label).join(': '),
    Number(value),
  ]);
  return Object.fromEntries(counts.filter(([, value]) => value !== 0)) as Counts;
}

const reads = (gateway: TestGateway): Promise<Counts> => countsOf(gateway, 'ledgergate_cache_reads_total');
const neverRead = (gateway: TestGateway): Promise<Counts> => countsOf(gateway, 'ledgergate_cache_never_read_total');

test('every kind has its hits and its misses', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const { hash } = JSON.parse((await gateway.post('/transactions', submission())).text) as { hash: string };
  node.mempool.commitAll(120n);
  for (const version of [600, 600, 600, 601]) {
    await gateway.get(probeAt(version));
    await gateway.get(`/accounts/0x1/module/coin?ledger_version=${version}`);
    await gateway.post(`/view?ledger_version=${version}`, viewBody);
    await gateway.get(`/transactions/by_hash/${hash}`);
  }

  assert.deepEqual(await reads(gateway), {
    'resource: hit': 2,
    'resource: miss': 2,
    'module: hit': 2,
    'module: miss': 2,
    'view: hit': 2,
    'view: miss': 2,
    'transaction: hit': 3,
    'transaction: miss': 1,
  });
});

test('with little memory a repeated read misses again, and one that nobody repeated is never read', async (t) => {
  const config = { cache: { memory: { maxBytes: 200_000 } } };
  const { gateway } = await nodeAndGateway(t, { config });
  await gateway.get(padded(20_000, 600));
  await gateway.get(padded(20_000, 600));
  for (let size = 20_001; size <= 20_015; size += 1) await gateway.get(padded(size, 600));
  await gateway.get(padded(20_000, 600));

  const counts = await reads(gateway);
  assert.deepEqual(counts, { 'resource: hit': 1, 'resource: miss': 17 });
  const evicted = await gateway.metric('ledgergate_cache_evictions_total');
  assert.ok(evicted >= 7, `${evicted} evicted`);
  // One of them had a hit.
  assert.deepEqual(await neverRead(gateway), { resource: evicted - 1 });
});

for (const [title, request] of [
  ['a read', { read: { target: `/v1${probeAt(600)}` } }],
  ['an account', { account: '0x1' }],
  ['everything', { everything: true }],
] as const) {
  test(`after a purge of ${title} the next read misses; hits of prepared answers are reads`, async (t) => {
    const { gateway } = await nodeAndGateway(t);
    const read = () => gateway.get(probeAt(600));
    // The first hit parses the target, later ones have a prepared answer.
    for (let round = 0; round < 4; round += 1) await read();
    await purge(gateway, request);
    await read();
    assert.deepEqual(await neverRead(gateway), {});
    await purge(gateway, request);
    await read();

    assert.deepEqual(await reads(gateway), { 'resource: hit': 3, 'resource: miss': 3 });
    assert.deepEqual(await neverRead(gateway), { resource: 1 });
  });
}

test('of 50 callers at once each counts one miss', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const release = node.hold({ when: ({ url }) => url.includes('Probe') });
  const crowd = Array.from({ length: 50 }, () => gateway.get(probeAt(600)));
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) === 50);
  release();
  await Promise.all(crowd);

  assert.deepEqual(await reads(gateway), { 'resource: miss': 50 });
  assert.equal(await gateway.metric('ledgergate_coalesced_requests_total'), 49);
});

test('hits and misses of a kind are its reads, and look-ups are their sums, after any sequence', async (t) => {
  const config = { cache: { memory: { maxBytes: 40_000 } } };
  const { gateway } = await nodeAndGateway(t, { config });
  const step = fc.record({
    what: fc.constantFrom('resource', 'module', 'view', 'transaction', 'latest', 'purge'),
    at: fc.nat({ max: 5 }),
    method: fc.constantFrom('GET', 'HEAD'),
  });
  const expected: Record<string, number> = Object.fromEntries(operations.map((kind) => [kind, 0]));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      for (const { what, at, method } of steps) {
        const version = 600 + at;
        if (what === 'purge') await purge(gateway, at === 0 ? { everything: true } : { account: '0x1' });
        else if (what === 'view') await gateway.post(`/view?ledger_version=${version}`, viewBody);
        else if (what === 'module') await gateway.send(method, `/accounts/0x1/module/coin?ledger_version=${version}`);
        else if (what === 'transaction') await gateway.send(method, `/transactions/by_hash/0x${String(at).repeat(64)}`);
        else if (what === 'latest') await gateway.send(method, probe);
        else await gateway.send(method, padded(1_000 + at, version));
        const kind = what === 'latest' ? 'resource' : what;
        if (kind !== 'purge') expected[kind] = (expected[kind] ?? 0) + 1;
      }
      const counts = Object.entries(await reads(gateway));
      const sum = (is: (name: string) => boolean): number =>
        counts.filter(([name]) => is(name)).reduce((total, [, count]) => total + count, 0);
      for (const kind of operations)
        assert.equal(
          sum((name) => name.startsWith(`${kind}: `)),
          expected[kind],
          kind,
        );
      const lookups = (outcome: string) =>
        gateway.metric(`ledgergate_cache_lookups_total{tier="memory",outcome="${outcome}"}`);
      assert.equal(
        await lookups('hit'),
        sum((name) => name.endsWith(': hit')),
      );
      assert.equal(
        await lookups('miss'),
        sum((name) => name.endsWith(': miss')),
      );
    }),
    { numRuns: 12 },
  );
});
