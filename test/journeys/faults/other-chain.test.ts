/** Answers that report another chain id: their effect, and the cache meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReceivedRequest } from '../../../src/sample/sample-node.ts';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, nodeAndGateway, probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { watchStalls } from '../../support/stalls.ts';
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

  assert.deepEqual(
    foreign.map(({ status }) => status),
    [503, 503, 503, 503],
  );
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
  const look = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: look.promise }, { when: isLook });
  node.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: isRead, times: 1 });
  const asked = node.log.next(isLook);
  const foreign = read(401);
  await asked;

  const inDoubt = await read(402);
  look.resolve();
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

  assert.deepEqual(
    [read, latest, shared, passed, submitted].map(({ status }) => status),
    [503, 503, 503, 503, 503],
  );
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

test('with chainId a node that changes its chain for good never turns the ledger over', async (t) => {
  const { node, gateway } = await nodeAndGateway(
    t,
    { config: { chainId: 1, upstream: { probeIntervalMs: 50 } } },
    { chainId: 1 },
  );
  const read = (version: number) => gateway.get(`${probe}?ledger_version=${version}`);
  await read(400);
  node.fault = { kind: 'wrong chain id', chainId: 2 };

  const foreign = [await read(401), await read(402)];
  const held = await read(400);
  const asked = node.log.countOf('resource');
  await read(403);
  const askedThen = node.log.countOf('resource');
  node.fault = undefined;
  const back = await eventually(
    () => read(404),
    ({ status }) => status === 200,
  );

  assert.deepEqual(
    foreign.map(({ status }) => status),
    [503, 503],
  );
  assert.deepEqual([held.status, held.headers['x-node-chain-id']], [200, '1']);
  assert.match(held.headers['cache-status'] ?? '', /^ledgergate; hit; detail=memory/);
  assert.equal(askedThen, asked);
  assert.equal(back.headers['x-node-chain-id'], '1');
  assert.match((await read(400)).headers['cache-status'] ?? '', /^ledgergate; hit/);
});

test('no worker turns over on answers alone, and all do when the ledger info confirms them', async (t) => {
  const node = await fakeNode(t, { head: 900n, chainId: 1 });
  const gateway = await gatewayProcess(t, {
    full: [node],
    config: { workers: 2, upstream: { probeInterval: '100ms' } },
  });
  const read = async (version: number) => get(`${gateway.url}${probe}?ledger_version=${version}`);
  const chainsOf = async (from: number) => {
    const replies = await Promise.all(Array.from({ length: 8 }, (_, index) => read(from + index)));
    return replies.map(({ status, headers }) => `${status} ${headers['x-node-chain-id']}`);
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

test('with chainId several workers report a node of another chain', async (t) => {
  const node = await fakeNode(t, { head: 900n, chainId: 1 });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, chainId: 'testnet' } });

  const { status, text } = await get(`${gateway.operationsUrl}/readyz`);

  assert.equal((await get(`${gateway.url}${probe}?ledger_version=400`)).status, 503);
  assert.deepEqual(
    [status, /"state":"foreign","reason":"other chain","since":"[^"]+","chainId":1/.test(text)],
    [503, true],
  );
  assert.match(gateway.err(), /other chain/);
  assert.equal(node.reads, 0);
});
