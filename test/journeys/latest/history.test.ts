// Many clients over lagging and restarting nodes, through one gateway, its workers, and two gateways, one of which is
// killed in the middle; test/support/history.ts checks the observations against the promises of docs/consistency.md.
// LEDGERGATE_HISTORY_OPERATIONS sets the number of operations; the figure of the project's claims is taken with 100000.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { live } from '../../support/clients.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { findViolations, type Observation } from '../../support/history.ts';
import { laggingWorld } from '../../support/lagging-world.ts';
import { naiveProxy } from '../../support/naive-proxy.ts';

const operations = Number(process.env['LEDGERGATE_HISTORY_OPERATIONS'] ?? 1_500);

const see = (client: string, kind: Observation['kind'], version: bigint, startMs: number, endMs: number) => ({
  client,
  kind,
  version,
  startMs,
  endMs,
});

test('the checker finds a state that goes back and a write that is not seen, and lets overlap pass', () => {
  const back = [see('a', 'read', 10n, 0, 1), see('a', 'read', 9n, 2, 3)];
  const unseen = [see('a', 'commit', 10n, 0, 1), see('a', 'read', 9n, 2, 3)];
  const overlapping = [see('a', 'read', 10n, 0, 5), see('a', 'read', 9n, 2, 3)];
  const others = [see('a', 'read', 10n, 0, 1), see('b', 'read', 9n, 2, 3)];

  assert.deepEqual(
    findViolations(back).map(({ promise }) => promise),
    ['monotonic reads'],
  );
  assert.deepEqual(
    findViolations(unseen).map(({ promise }) => promise),
    ['read your writes'],
  );
  assert.deepEqual([...findViolations(overlapping), ...findViolations(others)], []);
});

test('a round-robin balancer in front of the same nodes breaks both promises', async (t) => {
  const world = await laggingWorld(t);
  const proxy = await naiveProxy(t, world.nodes);

  // A missed write is a matter of timing, so the clients go on until both violations occurred.
  const broken = new Set<string>();
  for (let round = 0; round < 20 && broken.size < 2; round += 1) {
    const { history } = await live(t, world, { urls: [proxy.url], operations: 2_000 });
    for (const { promise } of findViolations(history)) broken.add(promise);
  }

  assert.deepEqual([...broken].sort(), ['monotonic reads', 'read your writes']);
});

test('through one gateway, without tokens, no client reads an older state than another did before', async (t) => {
  const world = await laggingWorld(t);
  const gateway = await gatewayProcess(t, { full: world.nodes, config: { upstream: { probeInterval: '50ms' } } });

  const { history, told } = await live(t, world, { urls: [gateway.url], operations: 2_000, tokens: false });

  const reads = history.filter(({ kind }) => kind === 'read');
  for (const seen of [reads, told.versions, told.times]) {
    assert.deepEqual(
      findViolations(seen, () => 'all'),
      [],
    );
  }
  assert.deepEqual(findViolations(history), []);
  assert.ok(reads.length > 1_600);
});

test('through one gateway of three workers no read and no header goes back on one connection', async (t) => {
  const world = await laggingWorld(t);
  const config = { workers: 3, upstream: { probeInterval: '50ms' } };
  const gateway = await gatewayProcess(t, { full: world.nodes, config });
  assert.equal(gateway.workers().length, 3);

  const { history, told } = await live(t, world, { urls: [gateway.url], operations, tokens: false });

  const reads = history.filter(({ kind }) => kind === 'read');
  // Within the delay of events between workers these may go back.
  const across = findViolations(reads, () => 'all');
  t.diagnostic(`${across.length} of ${reads.length} reads were behind another connection's`);
  assert.deepEqual(
    findViolations(history, ({ connection }) => connection),
    [],
  );
  assert.deepEqual(findViolations(told.versions), []);
  assert.deepEqual(findViolations(told.times), []);
  assert.ok(reads.length > operations * 0.8);
  assert.ok(told.versions.length > operations && told.times.length > operations);
});

test(`${operations} operations by token over three workers, a connection for each, violate nothing`, async (t) => {
  const world = await laggingWorld(t);
  const config = { workers: 3, latest: { waitForVersion: '1s' }, upstream: { probeInterval: '50ms' } };
  const gateway = await gatewayProcess(t, { full: world.nodes, config });

  const { history, unknown } = await live(t, world, { urls: [gateway.url], operations, shortLived: true });

  assert.deepEqual(findViolations(history), []);
  assert.equal(unknown, 0);
  assert.ok(history.filter(({ kind }) => kind === 'read').length > operations * 0.8);
});

test(`${operations} operations over two gateway processes, one killed and started again, violate nothing`, async (t) => {
  const world = await laggingWorld(t);
  const options = {
    full: world.nodes,
    config: { latest: { waitForVersion: '1s' }, upstream: { probeInterval: '50ms' } },
  };
  const [steady, restarting] = await Promise.all([gatewayProcess(t, options), gatewayProcess(t, options)]);
  let backMs = Infinity;

  const { history, refused, unknown, cut } = await live(t, world, {
    urls: [steady.url, restarting.url],
    operations,
    async midway() {
      await restarting.kill();
      await restarting.restart();
      backMs = performance.now();
    },
  });

  const reads = history.filter(({ kind }) => kind === 'read').length;
  const afterRestart = history.filter(({ through, startMs }) => through === 1 && startMs > backMs).length;
  t.diagnostic(
    `${reads} reads, ${history.length - reads} commits seen, ${refused} answered 503, ${cut} cut off, ` +
      `${afterRestart} seen through the restarted process`,
  );
  assert.deepEqual(findViolations(history), []);
  assert.equal(unknown, 0);
  assert.ok(reads > operations * 0.8);
  assert.ok(cut > 0);
  assert.ok(afterRestart > operations * 0.05);
});
