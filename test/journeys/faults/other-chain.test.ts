/** Nodes of another chain, of another dialect, or of software without a route: their effect, and the cache meanwhile. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { ReceivedRequest } from '../../../src/sample/sample-node.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { errorBody } from '../../support/error-body.ts';
import { eventually } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import {
  fetchReply,
  type LogLine,
  type NodeAddress,
  nodeAndGateway,
  probe,
  probeAt,
  testGateway,
  type TestGateway,
  statusesOf,
} from '../../support/gateway.ts';
import { watchStalls } from '../../support/stalls.ts';
import { statusWhen } from '../../support/status.ts';
import { get } from '../../support/workers.ts';

const hit = 'ledgergate; hit; detail=memory';
const miss = 'ledgergate; fwd=miss; detail=full-0';
const isRead = ({ route }: ReceivedRequest): boolean => route !== 'ledgerInfo';
const isLook = ({ route }: ReceivedRequest): boolean => route === 'ledgerInfo';

async function readyz(gateway: TestGateway) {
  const { status, text } = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
  return { status, text };
}

test('answers of another chain that the ledger info does not confirm are refused, and change nothing', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const read = (version: number) => gateway.get(`${probe}?ledger_version=${version}`);
  await read(400);
  node.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: isRead });

  const foreign = [await read(401), await read(402), await read(402), await read(403)];
  node.faults.clear();
  const after = [await read(400), await read(401), await read(402), await read(403)];

  assert.deepEqual(statusesOf(foreign), [503, 503, 503, 503]);
  assert.deepEqual(
    after.map(({ status, headers }) => [status, headers['x-node-chain-id'], headers['cache-status']]),
    [
      [200, '1', hit],
      [200, '1', miss],
      [200, '1', miss],
      [200, '1', miss],
    ],
  );
});

test('another chain that the ledger info confirms turns the ledger over, and its first answer is not stored', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const read = (version: number) => gateway.get(`${probe}?ledger_version=${version}`);
  await read(400);
  node.fault = { kind: 'wrong chain id', chainId: 2 };

  const first = await read(401);
  const again = await read(401);
  const kept = await read(401);

  assert.equal(first.status, 200);
  assert.deepEqual(
    [first, again, kept].map(({ headers }) => [headers['x-node-chain-id'], headers['cache-status']]),
    [
      ['2', miss],
      ['2', miss],
      ['2', hit],
    ],
  );
  assert.notEqual(first.headers['cache-control'], kept.headers['cache-control']);
});

test('while the chain of a node is in doubt, its answers are passed on and not stored', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const read = (version: number) => gateway.get(`${probe}?ledger_version=${version}`);
  const release = node.hold({ when: isLook });
  node.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: isRead, times: 1 });
  const asked = node.log.next(isLook);
  const foreign = read(401);
  await asked;

  const inDoubt = await read(402);
  release();
  await foreign;

  assert.deepEqual([inDoubt.status, inDoubt.headers['x-node-chain-id']], [200, '1']);
  assert.equal(inDoubt.headers['cache-control'], 'no-store');
  assert.equal((await read(402)).headers['cache-status'], miss);
  assert.equal((await read(402)).headers['cache-status'], hit);
});

test('an attempt ends with its bound, also while the look that settles the chain takes longer', async (t) => {
  const doubted = await fakeNode(t, { head: 900n, chainId: 1 });
  const other = await fakeNode(t, { head: 900n, chainId: 1, archival: true });
  const gateway = await testGateway(t, { full: [doubted], archival: [other] });
  const end = Promise.withResolvers<void>();
  t.after(() => end.resolve());
  let looks = 0;
  doubted.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: isLook, times: 1 });
  doubted.faults.add({ kind: 'hold', until: end.promise }, { when: (request) => isLook(request) && (looks += 1) > 1 });
  const stalls = watchStalls(t);
  const startedMs = performance.now();

  // The look that reads of "latest" wait for is bounded by 500 ms, a probe by 2 s.
  const latest = await gateway.get(probe);

  assert.deepEqual([latest.status, latest.headers['x-node-chain-id']], [200, '1']);
  // The probe that hangs is sent over a new connection as well.
  assert.ok(looks >= 3 && other.requestsTo('ledgerInfo') >= 2, `${looks} looks`);
  stalls.judge(performance.now() - startedMs < 1_500, 'an attempt beyond its bound');
});

test('with chainId a fleet of another chain is never asked, and log and /readyz report that', async (t) => {
  const node = await fakeNode(t, { head: 900n, chainId: 2 });
  const lines: string[] = [];
  const onLog = (line: object): void => void lines.push(JSON.stringify(line));
  const gateway = await testGateway(t, { full: [node], config: { chainId: 1 }, onLog });

  const read = await gateway.get(`${probe}?ledger_version=400`);
  const latest = await gateway.get(probe);
  const shared = await gateway.get('/estimate_gas_price');
  const passed = await gateway.get('/estimate_gas_price?x=1');
  const submitted = await gateway.post('/transactions', '{}');

  assert.deepEqual(statusesOf([read, latest, shared, passed, submitted]), [503, 503, 503, 503, 503]);
  assert.equal(node.reads, 0);
  const { status, text } = await readyz(gateway);
  assert.equal(status, 503);
  const { upstreams } = JSON.parse(text) as { readonly upstreams: readonly Readonly<Record<string, unknown>>[] };
  assert.deepEqual(
    upstreams.map(({ state, chainId, reason }) => [state, chainId, reason]),
    [['foreign', 2, 'other chain']],
  );
  assert.equal(lines.filter((line) => line.includes('other chain') && line.includes('full-0')).length, 1);
});

test('without chainId the log names the chain once, and how to pin it; with chainId it does not', async (t) => {
  const away = await fakeNode(t, { head: 900n, chainId: 7 });
  await away.refuse();
  const linesOf = async (chainId?: number) => {
    const lines: unknown[] = [];
    const gateway = await testGateway(t, {
      full: [away, await fakeNode(t, { head: 900n, chainId: 2 })],
      config: { ...(chainId === undefined ? {} : { chainId }), upstream: { probeIntervalMs: 50 } },
      onLog: ({ level, msg, chainId: taken }) => /pins it/.test(String(msg)) && lines.push([level, taken]),
    });
    await gateway.get(probe);
    return lines;
  };

  assert.deepEqual(await linesOf(), [[30, 2]]);
  assert.deepEqual(await linesOf(2), []);
});

test('no worker turns over on answers alone, and all do when the ledger info confirms them', async (t) => {
  // Without a dialect in the file workers take that of the node.
  const node = await fakeNode(t, { head: 900n, chainId: 1, dialect: 'aptos' });
  const gateway = await gatewayProcess(t, {
    full: [node],
    config: { workers: 2, upstream: { probeInterval: '100ms' } },
  });
  const read = async (version: number) => get(`${gateway.url}${probe}?ledger_version=${version}`);
  const chainsOf = async (from: number) => {
    const replies = await Promise.all(Array.from({ length: 8 }, (_, index) => read(from + index)));
    return replies.map(({ status, headers }) => `${status} ${headers['x-aptos-chain-id']}`);
  };
  node.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: isRead });

  const foreign = await chainsOf(400);
  node.faults.clear();
  const own = await chainsOf(500);
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  const turned = await eventually(
    () => chainsOf(600),
    (chains) => chains.every((chain) => chain === '200 2'),
  );

  assert.deepEqual(new Set(foreign), new Set(['503 1']));
  assert.deepEqual(new Set(own), new Set(['200 1']));
  assert.equal(turned.length, 8);
});

// `dialect: auto`: the fleet speaks the dialect of most nodes, decided once; the others are down.

const upstream = { probeIntervalMs: 50 };

async function autoGateway(t: TestContext, full: readonly NodeAddress[]) {
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full, config: { upstream }, onLog: (line) => lines.push(line) }, 'auto');
  return { gateway, taken: () => lines.flatMap(({ dialect }) => (dialect === undefined ? [] : [dialect])), lines };
}

for (const dialect of ['node', 'aptos'] as const) {
  test(`a fleet of the ${dialect} dialect is read without a word in the config, and the log names it once`, async (t) => {
    const { gateway, taken } = await autoGateway(t, [await fakeNode(t, { dialect }), await fakeNode(t, { dialect })]);

    const [miss, hit] = [await gateway.get(probeAt(5)), await gateway.get(probeAt(5), { origin: 'https://page.test' })];

    for (const { status, headers } of [miss, hit]) {
      assert.deepEqual([status, headers[`x-${dialect}-chain-id`]], [200, '1']);
    }
    const exposed = String(hit.headers['access-control-expose-headers']).split(', ');
    assert.deepEqual(
      ['node', 'aptos'].filter((name) => exposed.includes(`x-${name}-ledger-version`)),
      [dialect],
    );
    assert.deepEqual(taken(), [dialect]);
  });
}

test('a node that answers first after the start decides', async (t) => {
  const node = await fakeNode(t, { dialect: 'aptos' });
  await node.refuse();
  const { gateway, taken } = await autoGateway(t, [node]);
  assert.equal((await gateway.get(probeAt(5))).status, 503);
  assert.deepEqual(taken(), []);

  await node.accept();
  const reply = await eventually(
    () => gateway.get(probeAt(5)),
    ({ status }) => status === 200,
  );

  assert.equal(reply.headers['x-aptos-chain-id'], '1');
  assert.deepEqual(taken(), ['aptos']);
});

test('in a fleet of both dialects the odd node is down, is an error of the log, and check names it', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t, { dialect: 'aptos' }), await fakeNode(t, { dialect: 'aptos' })];
  const { gateway, lines } = await autoGateway(t, nodes);
  const file = configFile(
    t,
    `upstreams:\n${nodes.map(({ url }, index) => `  - { name: full-${index}, url: "${url}" }\n`).join('')}`,
  );

  const { nodes: shown, problems } = await statusWhen(gateway, ({ nodes: [odd] }) => odd?.state === 'down');
  const readyz = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
  const { out, code } = await call(['check', file]);
  nodes[1]?.clock.advance(10n);

  assert.deepEqual(
    shown.map(({ reason }) => reason),
    ['other dialect', undefined, undefined],
  );
  assert.deepEqual(problems, ['full-0 is down: other dialect']);
  assert.match(readyz.text, /"name":"full-0","tier":"full","state":"down","reason":"other dialect"/);
  assert.deepEqual(
    lines.filter(({ level }) => level === 50).map(({ upstream: name, reason }) => [name, reason]),
    [['full-0', 'other dialect']],
  );
  assert.equal(code, 1);
  assert.match(out, /upstreams\[0\]\.url: other dialect \(it speaks node, the fleet aptos\)/);
  assert.ok(!/upstreams\[[12]\]/.test(out), out);
  assert.equal((await gateway.get(probeAt(5))).headers['x-aptos-chain-id'], '1');
});

// A node that knows no route of a read has a wrong base path or older software: it decides nothing about the ledger.

const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });
const reads = [
  probeAt(60_000),
  '/accounts/0x1?ledger_version=60000',
  '/accounts/0x1/resources?ledger_version=60000',
  `/transactions/by_hash/0x${'1'.repeat(64)}`,
  `/transactions/wait_by_hash/0x${'1'.repeat(64)}`,
  '/transactions/by_version/60000',
  '/transactions?start=60000&limit=2',
  '/blocks/by_height/15000',
  '/estimate_gas_price',
];

test('the only node has a wrong base path: every read gets 503 with this reason, never its 404', async (t) => {
  const { url } = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [{ url: url.replace('/v1', '/v2') }], config: { chainId: 1 } });

  for (const accept of ['application/json', 'application/x-bcs']) {
    for (const path of reads) {
      const { status, text } = await gateway.get(path, { accept });
      assert.equal(status, 503, `${path}: ${text}`);
      assert.match(text, /1 down: wrong base path|no usable node is known/, path);
    }
  }
  const posted = await gateway.post('/view?ledger_version=60000', view);
  assert.deepEqual([posted.status, posted.text.includes('1 down: wrong base path')], [503, true]);
});

/** The node's software is older than the route of a balance. */
function lacksBalances(node: FakeNode, status: number): void {
  const body = errorBody('web_framework_error', 'not found');
  node.faults.add({ kind: 'answer', status, body }, { when: ({ route }) => route === 'balance' });
}

const balanceAt = (version: number): string => `/accounts/0x1/balance/0x1::coin::T?ledger_version=${version}`;

const ejected = (gateway: TestGateway): Promise<number> =>
  gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}');

for (const status of [404, 405]) {
  test(`${status} of a node without the route: another node answers, and the node keeps its other reads`, async (t) => {
    const older = await fakeNode(t, { head: 90_000n });
    const other = await fakeNode(t, { head: 90_000n });
    const gateway = await testGateway(t, { full: [older, other] });
    lacksBalances(older, status);

    for (let version = 60_000; version < 61_000; version += 100) {
      const direct = await (await fetch(other.url + balanceAt(version))).text();
      assert.equal((await gateway.get(balanceAt(version))).text, direct);
      const others = Array.from({ length: 8 }, (_, index) => gateway.get(probeAt(version + index)));
      assert.ok((await Promise.all(others)).every(({ status: given }) => given === 200));
    }

    assert.ok(older.requestsTo('balance') > 0);
    assert.ok(older.requestsTo('resource') > 0);
    assert.deepEqual([gateway.fleet()[0]?.state, await ejected(gateway)], ['usable', 0]);
  });

  test(`${status} of the only node, which lacks the route: 503 with this reason, other reads are answered`, async (t) => {
    const node = await fakeNode(t, { head: 90_000n });
    const gateway = await testGateway(t, { full: [node] });
    lacksBalances(node, status);

    for (let version = 60_000; version < 60_010; version += 1) {
      const refused = await gateway.get(balanceAt(version));
      assert.equal(refused.status, 503);
      assert.match(refused.text, /no node answered ledger version \d+ \(1 asked, 1 without this route\); try again/);
    }

    assert.equal((await gateway.get(probeAt(60_000))).status, 200);
    assert.deepEqual([gateway.fleet()[0]?.state, await ejected(gateway)], ['usable', 0]);
  });
}

test("a node's 404 to a request that it got as the client wrote it is the answer", async (t) => {
  const node = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [node] });

  const { status, text } = await gateway.get('/no/such/route');

  assert.deepEqual([status, text.includes('web_framework_error')], [404, true]);
});

test('no node has the version yet, and one lacks the route: clients get the 404 of the other', async (t) => {
  const older = await fakeNode(t, { head: 90_000n });
  const other = await fakeNode(t, { head: 90_000n });
  lacksBalances(older, 404);
  for (const full of [
    [older, other],
    [other, older],
  ]) {
    const gateway = await testGateway(t, { full });
    const { status, text } = await gateway.get(balanceAt(100_000));
    assert.deepEqual([status, text.includes('version_not_found')], [404, true]);
  }
});

test('404s of a wrong base path are no sign of life: passed requests do not make the node usable', async (t) => {
  const { url } = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, { full: [{ url: url.replace('/v1', '/v2') }], config: { chainId: 1 } });

  await gateway.get(`${probeAt(60_000)}&x=1`);

  assert.notEqual(gateway.fleet()[0]?.state, 'usable');
});
