/** Nodes whose histories differ, behind a gateway: reported by name and version, and their answers are not kept. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, probeAt, testGateway, type LogLine } from '../../support/gateway.ts';

test('answers of nodes that differ are dropped and not kept from the fork on, until the nodes agree', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t)] as const;
  const lines: LogLine[] = [];
  const forkTimes = { intervalMs: 10, pauseMs: 0 };
  const gateway = await testGateway(t, { full: nodes, forkTimes, onLog: (line) => lines.push(line) });
  const count = () => nodes.reduce((sum, { log }) => sum + log.countOf('resource'), 0);
  const readsOf = async (...versions: readonly number[]): Promise<number> => {
    const before = count();
    for (const version of versions) assert.equal((await gateway.get(probeAt(version))).status, 200);
    return count() - before;
  };
  const areMarked = (mark: string | undefined) => gateway.fleet().every(({ forkedAt }) => forkedAt === mark);
  assert.equal(await readsOf(900, 900), 1);

  nodes[1].clock.fork(799n, 'fork');
  await until(() => areMarked('800'));

  assert.equal(await readsOf(900, 900, 800), 3);
  assert.equal(await readsOf(799, 799), 1);
  const { text } = await fetchReply(`${gateway.operationsUrl}/status.json`, { method: 'GET' });
  const { problems } = JSON.parse(text) as { readonly problems: readonly string[] };
  const problem = '2 nodes have another history than others from version 800 on (full-0, full-1)';
  assert.deepEqual(problems, [problem]);
  assert.equal(await gateway.metric('ledgergate_upstream_forked{upstream="full-1"}'), 1);
  const logged = lines.filter(({ level }) => level === 50);
  assert.deepEqual(
    logged.map(({ upstream, other, version }) => `${String(upstream)} ${String(other)} ${String(version)}`),
    ['full-0 full-1 800', 'full-1 full-0 800'],
  );

  nodes[1].clock.fork(10_000n, '');
  await until(() => areMarked(undefined));
  assert.equal(await readsOf(900, 900), 1);
  assert.equal(await gateway.metric('ledgergate_upstream_forked{upstream="full-1"}'), 0);
});

test('of three nodes, only answers of the one that differs are not kept', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t), await fakeNode(t)] as const;
  nodes[2].clock.fork(799n, 'fork');
  const gateway = await testGateway(t, { full: nodes, forkTimes: { intervalMs: 10, pauseMs: 0 } });
  await until(() => gateway.fleet()[2]?.forkedAt === '800');
  const versions = Array.from({ length: 60 }, (_, at) => 900 + at);
  const count = () => nodes.map(({ log }) => log.countOf('resource'));

  for (const version of versions) await gateway.get(probeAt(version));
  const [, , forked = 0] = count();
  const before = count();
  for (const version of versions) await gateway.get(probeAt(version));

  assert.equal(
    count().reduce((sum, reads, at) => sum + reads - (before[at] ?? 0), 0),
    forked,
  );
});
