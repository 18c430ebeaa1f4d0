/** Audits: two nodes disagree on a pinned read, the read is dropped, and both are reported. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, type LogLine, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { redisTest } from '../../support/redis-server.ts';
import { get, metric } from '../../support/workers.ts';

const lie = '{"type":"0x1::ledgergate_sample::Probe","data":{"address":"0x1","ledger_version":"7"}}';
const truthAt = (version: number): string => lie.replace('"7"', `"${version}"`);

interface Fixture extends TestGateway {
  /** Lines about disagreements. */
  readonly alarms: readonly LogLine[];
  audited(result: string, count: number): Promise<number>;
}

async function gatewayOf(
  t: TestContext,
  full: readonly FakeNode[],
  config: NonNullable<Parameters<typeof testGateway>[1]['config']> = {},
): Promise<Fixture> {
  const alarms: LogLine[] = [];
  const gateway = await testGateway(t, {
    full,
    config: { ...config, upstream: { audit: 1, ...config.upstream } },
    onLog: (line) => {
      if (/differently/.test(String(line['msg']))) alarms.push(line);
    },
  });
  const audited = (result: string, count: number): Promise<number> =>
    eventually(
      () => gateway.metric(`ledgergate_audits_total{result="${result}"}`),
      (value) => value >= count,
    );
  return { ...gateway, alarms, audited };
}

/** Asked first, because its window is the shorter one. */
const shallow = (t: TestContext): Promise<FakeNode> => fakeNode(t, { oldest: 500n });

function isProbe({ url }: { readonly url: string }): boolean {
  return url.includes('Probe');
}

/** The node answers reads of the probe with these bytes, as good as any other answer of it. */
function answers(node: FakeNode, body: string, times = Infinity): void {
  const headers = ledgerHeaders({ version: 1000n, oldest: node.clock.oldest, chainId: node.chainId });
  node.faults.add({ kind: 'answer', status: 200, body, headers }, { when: isProbe, times });
}

/** Reads that were drawn for an audit so far. */
async function drawn({ operationsUrl }: TestGateway): Promise<number> {
  const { text } = await fetchReply(`${operationsUrl}/metrics`, { method: 'GET' });
  const counts = [...text.matchAll(/^ledgergate_audits_total\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
  return counts.reduce((sum, count) => sum + count, 0);
}

const entries = (gateway: TestGateway): Promise<number> => gateway.metric('ledgergate_cache_entries{tier="memory"}');

redisTest(
  'an audit detects a lying node: both are reported, the read is dropped everywhere and repeated',
  async (t, server) => {
    const target = { kind: 'single', url: server.url } as const;
    const cache = { redis: { target, keyPrefix: 'lg', timeoutMs: 500, ttlMs: 60_000 } };
    const [liar, good] = [await shallow(t), await fakeNode(t)];
    const gateway = await gatewayOf(t, [liar, good], { cache });
    const replica = await gatewayOf(t, [liar, good], { cache, upstream: { audit: 0 } });
    answers(liar, lie);
    const release = good.hold({ when: isProbe });

    const first = await gateway.get(probeAt(600));
    // Before the audit comes to its end, everybody has it.
    await eventually(
      () => gateway.metric('ledgergate_redis_writes_total{outcome="written"}'),
      (count) => count === 1,
    );
    const second = await replica.get(probeAt(600));
    release();
    await gateway.audited('disagreement', 1);
    const references = () => server.run((client) => client.keys('lg:*|resource|*'));
    await eventually(
      async () => [await entries(gateway), await entries(replica), (await references()).length],
      (left) => left.join() === '0,0,0',
    );
    liar.faults.clear();
    const [again, there] = [await gateway.get(probeAt(600)), await replica.get(probeAt(600))];

    assert.deepEqual([first.text, second.text], [lie, lie]);
    assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=redis');
    assert.match(again.headers['cache-status'] ?? '', /fwd=miss/);
    assert.deepEqual([again.text, there.text], [truthAt(600), truthAt(600)]);
    assert.equal(await gateway.metric('ledgergate_audit_disagreements_total{upstream="full-0",other="full-1"}'), 1);
    const [alarm, ...more] = gateway.alarms;
    assert.equal(more.length, 0);
    const { level, time: _time, pid: _pid, hostname: _host, msg: _msg, digests, ...told } = alarm ?? {};
    assert.deepEqual(told, {
      upstream: 'full-0',
      other: 'full-1',
      route: 'resource',
      version: 600,
      statuses: [200, 200],
      firstDifference: lie.indexOf('7'),
    });
    assert.equal(new Set(digests as string[]).size, 2);
    assert.equal(level, 50);
    assert.doesNotMatch(JSON.stringify(alarm), /0x1|Probe/);
    const { text } = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
    const { audit } = JSON.parse(text) as { audit: { disagreements: readonly object[] } };
    assert.partialDeepStrictEqual(audit.disagreements, [
      { upstreams: ['full-0', 'full-1'], count: 1, lost: { 'full-0': 0, 'full-1': 0 } },
    ]);
  },
);

/** Three nodes that are asked in this order: each goes deeper than the one before it. */
async function threeNodes(t: TestContext): Promise<readonly [FakeNode, FakeNode, FakeNode]> {
  return [await shallow(t), await fakeNode(t, { oldest: 300n }), await fakeNode(t, { oldest: 0n })];
}

const votes: readonly (readonly [liars: readonly number[], loser: string | undefined])[] = [
  [[0], 'full-0'],
  [[1], 'full-1'],
  // Each node answers something else.
  [[0, 1], undefined],
];

for (const [liars, loser] of votes) {
  test(`a third node has the casting vote: with ${liars.length} that lie ${loser ?? 'no node'} loses`, async (t) => {
    const nodes = await threeNodes(t);
    const gateway = await gatewayOf(t, nodes);
    for (const index of liars) answers(nodes[index] ?? nodes[0], lie.replace('7', `${index}`));

    await gateway.get(probeAt(600));
    await eventually(
      async () => gateway.alarms.length,
      (count) => count === 1,
    );

    const [alarm] = gateway.alarms;
    const { upstream, other, third } = alarm ?? {};
    assert.deepEqual([upstream, other, third, alarm?.['loser']], ['full-0', 'full-1', 'full-2', loser]);
    assert.equal(await gateway.metric('ledgergate_audit_disagreements_total{upstream="full-0",other="full-1"}'), 1);
  });
}

test('nodes that agree are counted, and the answer stays', async (t) => {
  const nodes = [await shallow(t), await fakeNode(t)];
  const gateway = await gatewayOf(t, nodes);
  const paths = [
    probeAt(600),
    '/accounts/0x1/module/coin?ledger_version=600',
    '/accounts/0x1/module/none?ledger_version=600',
  ];

  const statuses: number[] = [];
  for (const path of paths) statuses.push((await gateway.get(path)).status);
  await gateway.audited('equal', 3);
  const again = await gateway.get(probeAt(600));

  assert.deepEqual(statuses, [200, 200, 404]);
  assert.equal(again.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.deepEqual(gateway.alarms, []);
});

const inconclusive = [
  ['fails', { kind: 'unavailable' }],
  ['says pruned', { kind: 'pruned' }],
  ['hangs', { kind: 'hang' }],
] as const;

for (const [what, fault] of inconclusive) {
  test(`a second node that ${what} proves nothing`, async (t) => {
    const [one, other] = [await shallow(t), await fakeNode(t)];
    const gateway = await gatewayOf(t, [one, other], { upstream: { audit: 1, timeoutMs: 300 } });
    other.faults.add(fault, { when: isProbe });

    const reply = await gateway.get(probeAt(600));
    await gateway.audited('inconclusive', 1);

    assert.equal(reply.status, 200);
    assert.deepEqual([gateway.alarms, await entries(gateway)], [[], 1]);
  });
}

test('only a node that surely holds the version is asked', async (t) => {
  const [archive, full] = [await fakeNode(t), await fakeNode(t, { oldest: 500n })];
  const gateway = await gatewayOf(t, [archive, full]);

  await gateway.get(probeAt(100));
  await gateway.audited('no second node', 1);

  assert.equal(full.requestsTo('resource'), 0);
});

test('at most four audits are in flight, further ones are skipped, and no client waits', async (t) => {
  const [one, other] = [await shallow(t), await fakeNode(t)];
  const gateway = await gatewayOf(t, [one, other]);
  const release = other.hold({ when: isProbe });

  for (let version = 600; version < 606; version += 1) assert.equal((await gateway.get(probeAt(version))).status, 200);
  await gateway.audited('skipped', 2);
  release();
  await gateway.audited('equal', 4);

  assert.equal(other.requestsTo('resource'), 4);
});

test('hits, reads with a share of 0, and answers that are not stored are not audited', async (t) => {
  const nodes = [await shallow(t), await fakeNode(t)];
  const gateway = await gatewayOf(t, nodes, { upstream: { audit: 0 } });
  const auditing = await gatewayOf(t, nodes);

  await gateway.get(probeAt(600));
  for (let count = 0; count < 3; count += 1) await auditing.get(probeAt(600));
  await auditing.get(probeAt(5_000));
  await auditing.audited('equal', 1);

  assert.deepEqual([await drawn(gateway), await drawn(auditing)], [0, 1]);
});

test('a disagreement in one worker drops the read in all', async (t) => {
  const nodes = [await shallow(t), await fakeNode(t)] as const;
  const config = { workers: 2, log: { level: 'silent' }, upstream: { audit: 1 } } as const;
  const gateway = await gatewayProcess(t, { full: nodes, config });
  const release = nodes[1].hold({ when: isProbe });
  // One of the two audits gets another answer.
  answers(nodes[1], lie, 1);

  // Connections are handed out in turn.
  for (let count = 0; count < 4; count += 1) await get(gateway.url + probeAt(600));
  const before = await metric(gateway, 'ledgergate_cache_entries{tier="memory"}');
  release();

  assert.equal(before, 2);
  await eventually(
    () => metric(gateway, 'ledgergate_cache_entries{tier="memory"}'),
    (held) => held === 0,
  );
  assert.equal(await metric(gateway, 'ledgergate_audits_total{result="disagreement"}'), 1);
  assert.equal(await metric(gateway, 'ledgergate_audits_total{result="equal"}'), 1);
});
