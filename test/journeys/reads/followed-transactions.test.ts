// Transactions out of pages of the follower are the answers of their node, byte for byte, under the same rules of finality.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { openGateway } from '../../../src/gateway/gateway.ts';
import { GatewayLog } from '../../../src/gateway/log.ts';
import { type Serving, startServing } from '../../../src/gateway/serving.ts';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import type { LedgerVersion } from '../../../src/ledger/version.ts';
import { cutPage } from '../../../src/proxy/reads/follower/page.ts';
import { until } from '../../support/eventually.ts';
import { type FakeNode, fakeNode, type FakeNodeOptions } from '../../support/fake-node.ts';
import { fetchReply, type Reply, testConfig, testGateway, type TestGatewayOptions } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { submission } from '../../support/submission.ts';

const memory = 'ledgergate; hit; detail=memory';
const missed = /^ledgergate; fwd=miss/;
const never = { intervalMs: 3_600_000, pauseMs: 0 };

type Get = (path: string, headers?: Record<string, string>) => Promise<Reply>;

interface Followed {
  readonly get: Get;
  readonly operationsUrl: string;
  readonly serving: Serving;
  readonly close: () => Promise<void>;
  /** Takes transactions of the node as the follower does. */
  readonly take: (node: FakeNode, first: bigint, limit?: number) => Promise<void>;
}

/** A gateway whose pages come from the test. */
async function followed(t: TestContext, options: TestGatewayOptions): Promise<Followed> {
  const config = testConfig({ ...options, config: { follow: { mode: 'off' }, ...options.config } });
  const log = new GatewayLog(config.log);
  const started = Promise.withResolvers<Serving>();
  const gateway = await openGateway(config, { log }, async () => {
    const serving = await startServing(config, { log, forkTimes: never, isOverloaded: () => false });
    started.resolve(serving);
    return serving;
  });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= gateway.close());
  t.after(close);
  const serving = await started.promise;
  const nodes = options.full ?? [];
  return {
    operationsUrl: gateway.operationsUrl,
    serving,
    close,
    get: (path, headers = {}) => fetchReply(gateway.url + path, { method: 'GET', headers }),
    async take(node, first, limit = 10) {
      const path = `/transactions?start=${first}&limit=${limit}`;
      const { status, headers, body } = await fetchReply(node.url + path, { method: 'GET' });
      const info = new Dialect('node').findInfo(headers);
      const upstream = { name: `full-${nodes.indexOf(node)}` };
      const answer = {
        status,
        headers,
        info,
        coding: undefined,
        isFramed: true,
        body,
        upstream,
      };
      const page = await cutPage(answer, first as LedgerVersion, undefined);
      assert.ok(page);
      void serving.applyPeerEvent({ kind: 'page', page });
    },
  };
}

/** One node with head 900, and a gateway that has its transactions from 880 on. */
async function followedNode(
  t: TestContext,
  config: TestGatewayOptions['config'] = {},
  nodeOptions: FakeNodeOptions = {},
): Promise<Followed & { readonly node: FakeNode }> {
  const node = await fakeNode(t, { head: 900n, ...nodeOptions });
  const gateway = await followed(t, { full: [node], config });
  await gateway.take(node, 880n, 21);
  return { node, ...gateway };
}

async function hashAt(node: FakeNode, version: bigint): Promise<string> {
  const { text } = await fetchReply(`${node.url}/transactions/by_version/${version}`, { method: 'GET' });
  return (JSON.parse(text) as { hash: string }).hash;
}

async function metricsAt(operationsUrl: string): Promise<string> {
  return (await fetchReply(`${operationsUrl}/metrics`, { method: 'GET' })).text;
}

const byVersion = (version: bigint): string => `/transactions/by_version/${version}`;
const byHash = (hash: string): string => `/transactions/by_hash/${hash}`;

/** The parts of an answer that do not depend on the moment, or on where it comes from. */
function shown({ status, headers, text }: Reply): unknown {
  const { date: _date, 'x-request-id': _id, 'cache-status': _source, 'server-timing': _times, ...stay } = headers;
  return { status, headers: stay, text };
}

test('by_version and by_hash are answered without a node, as the node answers', async (t) => {
  const { node, get } = await followedNode(t);
  const plain = await testGateway(t, { full: [node], config: { follow: { mode: 'off' } } });
  const hash = await hashAt(node, 891n);

  for (const path of [byVersion(890n), byHash(hash), `/transactions/wait_by_hash/${hash}`, byVersion(900n)]) {
    const [of, asked] = [await fetchReply(node.url + path, { method: 'GET' }), node.reads];
    const first = await get(path);
    const second = await get(path);
    const prepared = await get(path);
    const tag = { 'if-none-match': first.headers['etag'] ?? '' };
    assert.equal((await get(path, tag)).status, 304, path);
    assert.equal(node.reads, asked, path);

    assert.deepEqual(first.body, of.body, path);
    for (const reply of [first, second, prepared]) {
      assert.equal(reply.headers['cache-status'], memory, path);
      assert.deepEqual(shown(reply), shown(first), path);
    }
    // The gateway that asked the node tells nothing else: tag, lifetime, ledger and served version are the same.
    await plain.get(path);
    assert.deepEqual(shown(first), shown(await plain.get(path)), path);
  }
});

test('what the pages do not have is asked of nodes: BCS, older versions, other hashes', async (t) => {
  const { node, get } = await followedNode(t);
  const bcs = { accept: 'application/x-bcs' };
  const paths = [byVersion(890n), byHash(await hashAt(node, 891n))];

  for (const path of paths) {
    const reply = await get(path, bcs);
    const of = await fetchReply(node.url + path, { method: 'GET', headers: bcs });
    assert.match(reply.headers['cache-status'] ?? '', missed);
    assert.deepEqual(reply.body, of.body);
  }
  for (const path of [byVersion(879n), byHash(await hashAt(node, 879n)), byHash(`0x${'ab'.repeat(32)}`)]) {
    assert.match((await get(path)).headers['cache-status'] ?? '', missed, path);
  }
});

test('a pending transaction is asked of its node until a page has its commit', async (t) => {
  const { node, get, take } = await followedNode(t);
  const { hash } = JSON.parse(node.mempool.submit(Buffer.from(submission()), undefined)) as { hash: string };
  const pending = await get(byHash(hash));
  node.clock.head = 905n;
  node.mempool.commitAll(903n);

  await take(node, 900n, 6);
  // The head comes with the page's answer at the appointed process.
  await get(byVersion(905n));
  const asked = node.requestsTo('byHash');
  const committed = await get(byHash(hash));

  assert.match(pending.text, /pending_transaction/);
  assert.equal(pending.headers['cache-control'], 'no-store');
  assert.match(committed.text, /"version":"903"/);
  assert.equal(committed.headers['cache-control'], 'no-cache');
  assert.equal(node.requestsTo('byHash'), asked);
});

test('above the second newest head an answer is provisional, and final once another node is there', async (t) => {
  const [first, second] = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 895n })];
  const { get, take, serving } = await followed(t, { full: [first, second] });
  await take(first, 890n, 11);
  const cacheControl = async (): Promise<string | undefined> => (await get(byVersion(898n))).headers['cache-control'];

  assert.match((await get(byVersion(894n))).headers['cache-control'] ?? '', /max-age=600/);
  assert.equal(await cacheControl(), 'no-cache');
  assert.equal(await cacheControl(), 'no-cache');
  second.clock.head = 900n;
  const info = new Dialect('node').findInfo((await fetchReply(second.url, { method: 'GET' })).headers);
  assert.ok(info);
  void serving.applyPeerEvent({ kind: 'head', upstream: 'full-1', info });

  assert.match((await cacheControl()) ?? '', /max-age=600/);
  assert.equal(first.requestsTo('byVersion') + second.requestsTo('byVersion'), 0);
});

test('of a node that is suspected or gone no page is used', async (t) => {
  const [first, second] = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })];
  const { get, take, serving } = await followed(t, { full: [first, second] });
  await take(first, 880n, 21);
  const suspected = serving.fleet.upstreams.find(({ name }) => name === 'full-0');
  assert.ok(suspected);

  suspected.isSuspect = true;
  assert.match((await get(byVersion(890n))).headers['cache-status'] ?? '', missed);
  suspected.isSuspect = false;
  assert.equal((await get(byVersion(891n))).headers['cache-status'], memory);
  suspected.forkedAt = 893n;
  assert.equal((await get(byVersion(892n))).headers['cache-status'], memory);
  assert.match((await get(byVersion(893n))).headers['cache-status'] ?? '', missed);
  suspected.forkedAt = undefined;
  const { upstreams } = testConfig({ full: [first, second] });
  await serving.fleet.follow({ upstreams: upstreams.slice(1) });

  assert.match((await get(byVersion(894n))).headers['cache-status'] ?? '', missed);
});

test('the store has what was asked for, and nothing else of a page', async (t) => {
  const store = { path: temporaryFolder(t), maxBytes: 64 * 1024 * 1024 };
  const { node, get, close, operationsUrl } = await followedNode(t, { cache: { store } });
  await until(async () => (await metricsAt(operationsUrl)).includes('store_up 1\n'));
  await get(byVersion(890n));
  await until(async () => (await metricsAt(operationsUrl)).includes('store_writes_total{outcome="written"} 1\n'));
  await close();
  const next = await testGateway(t, { full: [node], config: { cache: { store }, follow: { mode: 'off' } } });
  await until(async () => (await next.metric('ledgergate_store_up')) === 1);
  const asked = node.reads;

  assert.equal((await next.get(byVersion(890n))).headers['cache-status'], 'ledgergate; hit; detail=store');
  assert.equal(node.reads, asked);
  assert.match((await next.get(byVersion(891n))).headers['cache-status'] ?? '', missed);
});

test('with the follower, new transactions are answered from its pages, with their own headers', async (t) => {
  const ofTransactions = new Set(['transactions', 'byVersion', 'byHash']);
  const node = await fakeNode(t, {
    head: 900n,
    headers: ({ route }) => (ofTransactions.has(route) ? { 'x-node-release': '7' } : ({} as const)),
  });
  const gateway = await testGateway(t, { full: [node], config: { follow: { mode: 'always' } } });
  const plain = await testGateway(t, { full: [node], config: { follow: { mode: 'off' } } });
  const followedUpTo = async (head: bigint, transactions: number): Promise<void> => {
    node.clock.head = head;
    await until(async () => (await gateway.metric('ledgergate_follower_transactions_total')) >= transactions);
  };
  // The headers are known once a look came after their first answer.
  await until(async () => 'x-node-release' in (await plain.get(byVersion(1n))).headers);
  await until(async () => (await gateway.metric('ledgergate_follower_running')) === 1);
  await gateway.get(byVersion(900n));
  await followedUpTo(910n, 1);
  await followedUpTo(1_000n, 91);

  const asked = (): number => node.requestsTo('byVersion') + node.requestsTo('byHash');

  for (const version of [940n, 970n, 1_000n]) {
    for (const path of [byVersion(version), byHash(await hashAt(node, version))]) {
      const before = asked();
      const reply = await gateway.get(path);
      assert.equal(asked(), before, path);
      assert.equal(reply.headers['cache-status'], memory);
      assert.equal(reply.headers['x-node-release'], '7');
      await plain.get(path);
      assert.deepEqual(shown(reply), shown(await plain.get(path)), path);
    }
  }
  assert.equal(await gateway.metric('ledgergate_follower_distrusted'), 0);
});
