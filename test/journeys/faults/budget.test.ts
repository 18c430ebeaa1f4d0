/** One request costs no more than its budget, and nodes in trouble get no storm of retries. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { shareOf } from '../../../src/gateway/settings.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import {
  nodeAndGateway,
  pooledGet,
  probeAt,
  testConfig,
  testGateway,
  type LogLine,
  type TestGatewayOptions,
} from '../../support/gateway.ts';
import { never, request, senderOf, type Answer } from '../../support/sender.ts';
import { watchStalls } from '../../support/stalls.ts';

const boom = '{"message":"boom","error_code":"internal_error","vm_error_code":null}';

/** Answers 500 to those reads of the node that `times` names by their number. */
function fail(node: FakeNode, times: (read: number) => boolean): void {
  let reads = 0;
  const when = ({ route }: { readonly route?: string | undefined }) => route === 'resource' && times((reads += 1));
  node.faults.add({ kind: 'answer', status: 500, body: boom }, { when });
}

function asked(nodes: readonly FakeNode[]): number {
  return nodes.reduce((sum, node) => sum + node.reads, 0);
}

test('retries, hedges and the archive together stay within the attempts of one request', async (t) => {
  const { full, archive, gateway } = await threeAndArchive(t, 50_000n);
  for (const node of [...full, archive]) node.faults.add({ kind: 'answer', status: 500, body: boom });

  const reply = await gateway.get(probeAt(60_000));

  assert.equal(asked([...full, archive]), 3);
  assert.equal(reply.status, 500);
  assert.equal(reply.text, boom);
});

test('with the share of retries used up, a node that is passed over gets the reads that no other answers', async (t) => {
  const nodes = [await fakeNode(t, { head: 90_000n }), await fakeNode(t, { head: 90_000n })] as const;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { connections: 256 } } });
  const [healed] = nodes;
  let version = 1_000;
  const get = pooledGet(t, gateway);
  const read = async () => (await get(probeAt((version += 1)))).status;
  // Passed over for its share of errors: only trials beside answered reads end that, and soon no read is answered.
  fail(healed, (read) => read % 3 === 0);
  await until(async () => {
    await read();
    return (await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}')) > 0;
  });
  healed.faults.clear();
  for (const node of nodes) fail(node, () => true);
  // Each read takes a retry, of 500 and of a share of the reads: many at once, because retries come back with time.
  await until(async () => {
    await Promise.all(Array.from({ length: 300 }, read));
    return (await gateway.metric('ledgergate_retries_total{outcome="refused"}')) > 0;
  });

  healed.faults.clear();
  await until(async () => (await read()) === 200);
  const statuses: number[] = [];
  for (let turn = 0; turn < 20; turn += 1) statuses.push(...(await Promise.all(Array.from({ length: 10 }, read))));

  assert.deepEqual(new Set(statuses), new Set([200]));
});

test('when everything hangs, each kind of read is answered 503 within the deadline, not a sum of bounds', async (t) => {
  const stalls = watchStalls(t);
  const nodes = await Promise.all([1, 2].map(() => fakeNode(t, { head: 90_000n })));
  const upstream = { timeoutMs: 400, deadlineMs: 600 };
  const latest = { waitForVersionMs: 400 };
  const gateway = await testGateway(t, { full: nodes, config: { upstream, latest } });
  for (const node of nodes) node.fault = { kind: 'hang' };
  const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });
  const resource = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
  const calls = {
    pinned: () => gateway.get(probeAt(60_000)),
    latest: () => gateway.get(resource),
    'latest, from a node': () => gateway.get(resource, { 'ledgergate-max-staleness': '0ms' }),
    'latest, seen newer': () => gateway.get(resource, { 'ledgergate-min-version': '90500' }),
    view: () => gateway.post('/view', view),
    'the newest transactions': () => gateway.get('/transactions'),
    'the gas price': () => gateway.get('/estimate_gas_price'),
    passed: () => gateway.get('/accounts/0x1/resources?x=1'),
    'ledger info': () => gateway.get(''),
  };
  for (const [name, call] of Object.entries(calls)) {
    const startedMs = performance.now();
    const reply = await call();
    const tookMs = performance.now() - startedMs;
    assert.equal(reply.status, 503, name);
    assert.equal((JSON.parse(reply.text) as { error_code: string }).error_code, 'internal_error', name);
    assert.equal(reply.headers['retry-after'], '1', name);
    assert.equal(reply.headers['x-node-ledger-version'], '90000', name);
    assert.doesNotMatch(reply.text, /127\.0\.0\.1|full-0/, name);
    stalls.judge(tookMs < 1_200, `${name}: ${Math.round(tookMs)} ms`);
  }
});

test('a client that hangs up cancels its work, unless others wait for it too', async (t) => {
  const { node, gateway } = await nodeAndGateway(
    t,
    { config: { upstream: { timeoutMs: 10_000, deadlineMs: 10_000 } } },
    { head: 90_000n },
  );
  const inFlight = () => gateway.metric('ledgergate_upstream_in_flight_requests{upstream="full-0"}');
  const release = node.hold({ when: ({ route }) => route === 'resource' });
  const ask = () => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write(`GET /v1${probeAt(60_000)} HTTP/1.1\r\nHost: a\r\n\r\n`);
    return socket;
  };

  const alone = ask();
  await until(async () => (await inFlight()) >= 1);
  alone.destroy();
  await until(async () => (await inFlight()) === 0);

  const [one, other] = [ask(), gateway.get(probeAt(60_000))];
  await until(async () => (await inFlight()) >= 1);
  one.destroy();
  release();
  assert.equal((await other).status, 200);
});

test('when every node fails, the retries of all requests are a share of them', async (t) => {
  const nodes = await Promise.all([1, 2, 3].map(() => fakeNode(t, { head: 90_000n, archival: true })));
  const gateway = await testGateway(t, { full: nodes });
  for (const node of nodes)
    node.faults.add({ kind: 'answer', status: 500, body: boom }, { when: ({ route }) => route === 'resource' });
  const reads = 700;
  const get = pooledGet(t, gateway);
  const startedMs = performance.now();

  for (let index = 0; index < reads; index += 50) {
    const batch = Array.from({ length: 50 }, (_, offset) => get(probeAt(60_000 + index + offset)));
    for (const { status } of await Promise.all(batch)) assert.equal(status, 500);
  }

  const retried = asked(nodes) - reads;
  const seconds = (performance.now() - startedMs) / 1000;
  // A fifth of the requests, the saved balances of all nodes and of each, ten a second and five of each; without a budget
  // it would be two to a request.
  assert.ok(retried <= reads * 0.2 + 500 + 3 * 32 + (10 + 3 * 5) * (seconds + 1), `${retried} retries`);
  assert.ok((await gateway.metric('ledgergate_retries_total{outcome="refused"}')) > 0);
});

// The last attempt of a request belongs to the node that is most likely to answer.

const version = 60_000;
const reads = {
  'a version': `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`,
  'a hash': `/transactions/by_hash/0x${'ab'.repeat(32)}`,
  'a passed-through block': '/blocks/by_height/15000?x=1',
};

/** Three full nodes from version `oldest` on, and an archive. */
async function threeAndArchive(t: TestContext, oldest: bigint) {
  const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest, head: 90_000n })));
  const archive = await fakeNode(t, { archival: true, head: 90_000n });
  return { full, archive, gateway: await testGateway(t, { full, archival: [archive] }) };
}

test('reads that three full nodes fail are answered by the archive within three attempts each', async (t) => {
  const { full, archive, gateway } = await threeAndArchive(t, 50_000n);
  // Looks are answered, so that no node is down for the next read.
  for (const node of full)
    node.faults.add({ kind: 'answer', status: 500, body: boom }, { when: ({ route }) => route !== 'ledgerInfo' });
  for (const [what, path] of Object.entries(reads)) {
    const direct = await fetch(archive.url + path);
    const before = [asked(full), archive.reads] as const;

    const reply = await gateway.get(path);

    assert.deepEqual([reply.status, reply.text], [direct.status, await direct.text()], what);
    assert.deepEqual([asked(full) - before[0], archive.reads - before[1]], [2, 1], what);
  }
});

test('reads that only the archive holds are sent to it once more after an error', async (t) => {
  const { archive, gateway } = await threeAndArchive(t, 70_000n);
  for (const [what, path] of Object.entries(reads)) {
    const direct = await fetch(archive.url + path);
    archive.faults.add({ kind: 'answer', status: 500, body: boom }, { times: 1 });

    const reply = await gateway.get(path);

    assert.deepEqual([reply.status, reply.text], [direct.status, await direct.text()], what);
  }
});

test('an archive that fails at everything is asked twice at most, however many nodes lack the version', async (t) => {
  const { archive, gateway } = await threeAndArchive(t, 70_000n);
  archive.faults.add({ kind: 'answer', status: 500, body: boom });

  const reply = await gateway.get(reads['a version']);

  assert.equal(reply.status, 503);
  assert.equal(archive.reads, 2);
});

test('a node that was asked twice leaves the others the attempts that they have without that', async (t) => {
  const fresh = await fakeNode(t, { head: 90_000n });
  const [slow, well] = [await fakeNode(t, { head: 89_000n }), await fakeNode(t, { head: 89_000n })];
  const gateway = await testGateway(t, {
    full: [fresh, slow, well],
    config: { upstream: { probeIntervalMs: 50, timeoutMs: 400 }, latest: { waitForVersionMs: 4_000 } },
  });
  const isRead = { when: ({ route }: { readonly route?: string | undefined }) => route === 'resource' };
  fresh.faults.add({ kind: 'answer', status: 500, body: boom }, isRead);
  slow.faults.add({ kind: 'hang' }, isRead);

  const reply = gateway.get(probeAt(90_000));
  // The others have not reached the version, so the node that failed is asked once more, and then they are waited for.
  await until(() => Promise.resolve(fresh.reads === 2));
  slow.clock.head = 90_000n;
  await until(() => Promise.resolve(slow.reads === 1));
  well.clock.head = 90_000n;

  assert.equal((await reply).status, 200);
});

// `upstreams[].maxRequestsPerSecond`: a metered node gets no more requests, whatever clients send.

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
  for (let version = 0; !isOver(); version += 40) {
    const batch = Array.from({ length: 40 }, (_, offset) => read(probeAt(version + offset)));
    for (const { status } of await Promise.all(batch)) counts.set(status, (counts.get(status) ?? 0) + 1);
    await sleep(50);
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
  // The burst, and the rate of some second.
  const isOver = (): boolean => archive.reads >= 40;
  let recent = 60_000;
  const readRecent = async (): Promise<void> => {
    while (!isOver()) {
      assert.equal((await gateway.get(probeAt((recent += 1)))).status, 200);
      await sleep(10);
    }
  };

  const [old] = await Promise.all([readOld(pooledGet(t, gateway), isOver), readRecent()]);

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

  for (let times = 0; times < 10; times += 1) assert.equal((await gateway.get(probeAt(7))).status, 200);

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
  const replies = await Promise.all(Array.from({ length: 40 }, (_, index) => gateway.get(probeAt(100 + index))));

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

  const counts = await readOld(pooledGet(t, gateway), () => performance.now() - beganMs >= 1_000);

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
