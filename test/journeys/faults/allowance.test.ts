/** `upstreams[].maxRequestsPerSecond`: a metered node gets no more requests, whatever clients send. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { shareOf } from '../../../src/gateway/settings.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { probeAt, testConfig, testGateway, type LogLine, type TestGatewayOptions } from '../../support/gateway.ts';
import { never, request, senderOf, type Answer } from '../../support/sender.ts';
import { get } from '../../support/workers.ts';

const ledger = { oldest: 50_000n, head: 90_000n };
const refusals = 'ledgergate_upstream_allowance_refusals_total{upstream="archive-0"}';
const tokens = 'ledgergate_upstream_allowance_tokens{upstream="archive-0"}';

/** The node with an allowance. */
const metered = ({ url }: FakeNode, maxRequestsPerSecond: number | undefined) => ({ url, maxRequestsPerSecond });

/** A full node, an archive, and options of a gateway that may send `perSecond` requests to the archive. */
async function meteredArchive(t: TestContext, perSecond: number | undefined) {
  const full = await fakeNode(t, ledger);
  const archive = await fakeNode(t, { ...ledger, archival: true });
  const options = { full: [full], archival: [metered(archive, perSecond)] } satisfies TestGatewayOptions;
  return { full, archive, options };
}

/** Reads versions from 0 on, each once, until `isOver`, more at a time than any burst. Returns the answers by status. */
async function readOld(read: (path: string) => Promise<{ readonly status: number }>, isOver: () => boolean) {
  const counts = new Map<number, number>();
  for (let version = 0; !isOver(); version += 100) {
    const batch = Array.from({ length: 100 }, (_, offset) => read(probeAt(version + offset)));
    for (const { status } of await Promise.all(batch)) counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return counts;
}

test('an archive at 20 requests a second: a burst and the rate arrive, the others get 503, and full nodes are unaffected', async (t) => {
  const lines: LogLine[] = [];
  const { full, archive, options } = await meteredArchive(t, 20);
  const startedMs = performance.now();
  const gateway = await testGateway(t, {
    ...options,
    onLog: (line) => {
      if (/allowance/.test(String(line['msg']))) lines.push(line);
    },
  });
  // The burst, and the rate of some two seconds.
  const isOver = (): boolean => archive.reads >= 60;
  let recent = 60_000;
  const readRecent = async (): Promise<void> => {
    while (!isOver()) {
      assert.equal((await gateway.get(probeAt((recent += 1)))).status, 200);
    }
  };

  const [old] = await Promise.all([readOld((path) => gateway.get(path), isOver), readRecent()]);

  const seconds = (performance.now() - startedMs) / 1_000;
  assert.deepEqual(
    [...old.keys()].sort((a, b) => a - b),
    [200, 503],
  );
  // Probes are among them.
  assert.ok(archive.requests <= 20 + 20 * seconds, `${archive.requests} requests in ${seconds} s`);
  assert.equal(old.get(200), archive.reads);
  assert.equal(full.reads, recent - 60_000);
  assert.equal(await gateway.metric(refusals), old.get(503));
  assert.ok((await gateway.metric(tokens)) <= 20);
  assert.deepEqual(
    lines.map(({ level, upstream }) => [level, upstream]),
    [[40, 'archive-0']],
  );
});

test('a read beyond the allowance gets 503 at once, with the whole seconds until the next token', async (t) => {
  const { archive, options } = await meteredArchive(t, 0.1);
  const startedMs = performance.now();
  // The first probe takes the only token.
  const gateway = await testGateway(t, options);

  const reply = await gateway.get(probeAt(7));

  assert.equal(reply.status, 503);
  assert.match(reply.text, /"error_code":"internal_error"/);
  const [waitS, passedS] = [Number(reply.headers['retry-after']), (performance.now() - startedMs) / 1_000];
  assert.ok(waitS <= 10 && waitS >= 10 - passedS, `${waitS} s after ${passedS} s`);
  assert.equal(archive.reads, 0);
  assert.equal(await gateway.metric('ledgergate_upstream_queue_wait_seconds_count'), 0);
});

test('hits take no token', async (t) => {
  const { archive, options } = await meteredArchive(t, 2);
  const gateway = await testGateway(t, options);

  for (let times = 0; times < 50; times += 1) assert.equal((await gateway.get(probeAt(7))).status, 200);

  assert.equal(archive.reads, 1);
});

test('an archive without a token is passed over for another archive', async (t) => {
  const full = await fakeNode(t, ledger);
  const archives = await Promise.all([1, 2].map(() => fakeNode(t, { ...ledger, archival: true })));
  const [first, second] = archives as [FakeNode, FakeNode];
  const startedMs = performance.now();
  const gateway = await testGateway(t, { full: [full], archival: [metered(first, 2), second] });

  for (let version = 0; version < 100; version += 1) {
    assert.equal((await gateway.get(probeAt(version))).status, 200);
  }

  const seconds = (performance.now() - startedMs) / 1_000;
  assert.ok(first.requests <= 2 + 2 * seconds, `${first.requests} requests`);
  assert.equal(first.reads + second.reads, 100);
  assert.equal(await gateway.metric(refusals), 0);
});

test('audits leave half of the burst to reads that only the archive holds', async (t) => {
  const { full, archive, options } = await meteredArchive(t, 10);
  const startedMs = performance.now();
  const gateway = await testGateway(t, { ...options, config: { upstream: { audit: 1 } } });

  for (let version = 60_000; version < 60_050; version += 1) {
    assert.equal((await gateway.get(probeAt(version))).status, 200);
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  const audited = archive.reads;
  const old = await Promise.all([1, 2, 3, 4].map((version) => gateway.get(probeAt(version))));

  assert.ok(audited > 0 && audited <= 5 + 10 * seconds, `${audited} audits in ${seconds} s`);
  assert.deepEqual(
    old.map(({ status }) => status),
    [200, 200, 200, 200],
  );
  assert.equal(full.reads, 50);
});

test('a hedge leaves the last token to a read that has failed elsewhere', async (t) => {
  const slow = await fakeNode(t, ledger);
  const spare = await fakeNode(t, { ...ledger, archival: true });
  const upstream = { timeoutMs: 400, hedge: { quantile: 0.5, share: 1 } };
  const gateway = await testGateway(t, { full: [slow], archival: [spare], config: { upstream } });
  for (let version = 60_000; version < 60_030; version += 1) await gateway.get(probeAt(version));
  const before = spare.reads;
  // A burst of one token, and no second one for minutes.
  await gateway.reloads.take(testConfig({ full: [slow], archival: [metered(spare, 0.005)], config: { upstream } }));
  slow.faults.add({ kind: 'hang' });

  const reply = await gateway.get(probeAt(70_000));

  assert.equal(reply.status, 200);
  assert.equal(spare.reads, before + 1);
  assert.equal(await gateway.metric('ledgergate_upstream_failures_total{upstream="full-0",kind="timeout"}'), 1);
});

test('probes are sent without a token and count as used', async (t) => {
  const node = await fakeNode(t, ledger);
  const options = { full: [metered(node, 5)], config: { upstream: { probeIntervalMs: 20 } } };
  const gateway = await testGateway(t, options);

  await until(() => node.requestsTo('ledgerInfo') > 30);

  assert.ok((await gateway.metric('ledgergate_upstream_allowance_tokens{upstream="full-0"}')) < 0);
  assert.equal((await gateway.get(probeAt(60_000))).status, 503);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
});

test('a reload changes the rate, and the node keeps its connections and its state', async (t) => {
  const { full, archive, options } = await meteredArchive(t, 0.001);
  const gateway = await testGateway(t, options);
  const probes = archive.requestsTo('ledgerInfo');
  assert.equal((await gateway.get(probeAt(1))).status, 503);

  const changeTo = (perSecond: number | undefined) =>
    gateway.reloads.take(testConfig({ full: [full], archival: [metered(archive, perSecond)] }));
  await changeTo(1_000);
  await until(async () => (await gateway.get(probeAt(2))).status === 200);
  await changeTo(undefined);
  const replies = await Promise.all(Array.from({ length: 60 }, (_, index) => gateway.get(probeAt(100 + index))));

  assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([200]));
  assert.equal(await gateway.metric(tokens), 0);
  assert.equal(archive.requestsTo('ledgerInfo'), probes);
  assert.deepEqual(gateway.reloads.status?.needsRestart, []);
});

test('a read whose connection is lost is sent once more only with a token', async (t) => {
  let received = 0;
  const lose: Answer = ({ socket }) => {
    received += 1;
    socket.destroy();
  };
  const { sender, upstream } = await senderOf(t, lose, { connections: 4 });
  await assert.rejects(sender.whole(request('/one'), never));
  assert.equal(received, 2);
  upstream.allowance.change(1, performance.now());

  await assert.rejects(sender.whole(request('/one'), never));

  assert.equal(received, 3);
});

test('a request that is never sent takes no token', async (t) => {
  const { sender, server, upstream } = await senderOf(t, () => undefined, { connections: 4 });
  await new Promise((resolve) => server.close(resolve));
  upstream.allowance.change(1, performance.now());

  await assert.rejects(sender.whole(request('/one'), never));

  assert.equal(upstream.allowance.tokens(performance.now()), 1);
});

test('workers divide the allowance', async (t) => {
  const { full, archive } = await meteredArchive(t, 10);
  const upstreams = [
    { name: 'full', url: full.url },
    { name: 'archive', url: archive.url, tier: 'archival', maxRequestsPerSecond: 10 },
  ];
  const startedMs = performance.now();
  const config = { workers: 2, upstreams, upstream: { probeInterval: '1h' }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [], config });
  const beganMs = performance.now();

  const counts = await readOld(
    (path) => get(gateway.url + path),
    () => performance.now() - beganMs >= 1_000,
  );

  const seconds = (performance.now() - startedMs) / 1_000;
  assert.deepEqual(
    [...counts.keys()].sort((a, b) => a - b),
    [200, 503],
  );
  assert.ok(archive.requests <= 10 + 10 * seconds, `${archive.requests} requests in ${seconds} s`);
  assert.deepEqual(
    shareOf(testConfig({ full: [metered(full, 10), full] }), 4).upstreams.map((node) => node.maxRequestsPerSecond),
    [2.5, undefined],
  );
});
