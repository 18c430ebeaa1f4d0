import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { Mempool } from '../../../src/sample/mempool.ts';
import { errorBody } from '../../support/error-body.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import {
  nodeAndGateway,
  patient,
  probe,
  testGateway,
  type TestGateway,
  type TestGatewayOptions,
  statusesOf,
} from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { untilUp, written } from '../../support/redis-replica.ts';
import { redisAt, redisTest } from '../../support/redis-server.ts';
import type { SampleFault } from '../../support/sample-faults.ts';
import { submission } from '../../support/submission.ts';

const transfer = submission();

/** Submits to the node itself: the gateway knows nothing of it. */
async function submitTo(node: FakeNode, sequenceNumber = 1): Promise<string> {
  const body = submission({ sequenceNumber });
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(`${node.url}/transactions`, { method: 'POST', body, headers });
  return ((await reply.json()) as { hash: string }).hash;
}

/** GET over one connection of its own. */
function connectionTo(t: TestContext, gateway: TestGateway) {
  const agent = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => agent.close());
  return async (path: string) => {
    const { statusCode: status, headers, body } = await send(gateway.url + path, { dispatcher: agent });
    return { status, headers, text: await body.text() };
  };
}

test('a read after a submission does not share the read that began before it', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const elsewhere = await fakeNode(t, { head: 900n });
  const hash = await submitTo(elsewhere);
  const gateway = await testGateway(t, { full: [node] });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const unknown = errorBody('transaction_not_found', `Transaction not found by Transaction hash(${hash})`);
  node.faults.add({ kind: 'hold', until: released }, { when: ({ route }) => route === 'byHash', times: 1 });
  node.faults.add(
    { kind: 'answer', status: 404, body: unknown },
    { when: ({ route }) => route === 'byHash', times: 1 },
  );
  const arrived = node.log.next();
  const before = gateway.get(`/transactions/by_hash/${hash}`);
  await arrived;

  const submitted = await gateway.post('/transactions', transfer);
  const after = gateway.get(`/transactions/by_hash/${hash}`);
  // The first read is answered only now; the other has a flight of its own.
  await Promise.race([after, new Promise((resolve) => setTimeout(resolve, 1_000).unref())]);
  release();

  assert.equal(submitted.status, 202);
  assert.equal((await before).status, 404);
  assert.equal((await after).status, 200);
});

test('a transaction that no full node holds is read from the archival node, however many full nodes there are', async (t) => {
  const full = await Promise.all([1, 2, 3, 4].map(() => fakeNode(t, { oldest: 500n, head: 900n })));
  const archival = await fakeNode(t, { archival: true, head: 900n });
  const gateway = await testGateway(t, { full, archival: [archival] });
  const hash = await submitTo(archival);
  archival.mempool.commitAll(120n);

  const found = await gateway.get(`/transactions/by_hash/${hash}`);
  const unknown = await gateway.get(`/transactions/by_hash/0x${'ab'.repeat(32)}`);

  assert.deepEqual([found.status, unknown.status], [200, 404]);
  assert.match(found.text, /"version":"120"/);
  assert.equal(archival.requestsTo('byHash'), 2);
});

const silences: readonly (readonly [string, SampleFault | 'gone'])[] = [
  ['is busy', { kind: 'answer', status: 429, body: 'slow down', contentType: 'text/plain' }],
  ['sheds load', { kind: 'answer', status: 503, body: errorBody('overloaded', 'Server is shedding load') }],
  ['hangs', { kind: 'hang' }],
  ['has something before it that answers', { kind: 'html' }],
  ['is gone', 'gone'],
];

for (const [what, fault] of silences) {
  test(`while the node that accepted a transaction ${what}, no client receives 404`, async (t) => {
    const taker = await fakeNode(t, { head: 900n, oldest: 500n });
    const others = [await fakeNode(t, { head: 899n, oldest: 500n }), await fakeNode(t, { head: 899n })];
    const config = { upstream: { timeoutMs: 300 } };
    const gateway = await testGateway(t, { full: [taker, ...others], config });
    const { hash } = JSON.parse((await gateway.post('/transactions', transfer)).text) as { hash: string };
    const before = await gateway.get(`/transactions/by_hash/${hash}`);

    if (fault === 'gone') await taker.refuse();
    else taker.fault = fault;
    const replies = [
      await gateway.get(`/transactions/by_hash/${hash}`),
      await gateway.get(`/transactions/wait_by_hash/${hash}`),
    ];

    assert.equal(before.status, 200);
    assert.deepEqual(statusesOf(replies), [503, 503]);
  });
}

const impossible = JSON.stringify({
  type: 'user_transaction',
  version: '18446744073709551615',
  hash: `0x${'ab'.repeat(32)}`,
  success: true,
});

test('a transaction above the head of its node is not cached, and raises no floor', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const own = connectionTo(t, gateway);
  const fault = {
    kind: 'answer',
    status: 200,
    body: impossible,
    headers: ledgerHeaders({ version: 900n, chainId: 1 }),
  } as const;
  node.faults.add(fault, { when: ({ route }) => route === 'byHash' });

  const shown = await own(`/transactions/by_hash/0x${'ab'.repeat(32)}`);
  const read = await own(probe);
  await own(`/transactions/by_hash/0x${'ab'.repeat(32)}`);

  assert.equal(shown.text, impossible);
  assert.equal(shown.headers['cache-control'], 'no-store');
  assert.deepEqual([read.status, read.headers['ledgergate-served-version']], [200, '900']);
  assert.equal(node.requestsTo('byHash'), 2);
});

test('a transaction whose node is not believed raises no floor either', async (t) => {
  const liar = await fakeNode(t, { head: 900n });
  const honest = await Promise.all([fakeNode(t, { head: 900n }), fakeNode(t, { head: 901n })]);
  const gateway = await testGateway(t, { full: [liar, ...honest] });
  const own = connectionTo(t, gateway);
  const lie = {
    kind: 'answer',
    status: 200,
    body: impossible,
    headers: ledgerHeaders({ version: 2n ** 64n - 1n, chainId: 1 }),
  } as const;
  for (const node of [liar, ...honest]) node.faults.add(lie, { when: ({ route }) => route === 'byHash' });

  await own(`/transactions/by_hash/0x${'ab'.repeat(32)}`);
  const read = await own(probe);

  assert.equal(read.status, 200);
});

// Long polls for transactions: shared by their callers, answered from the cache, and never older than a read before.

const bcs = { accept: 'application/x-bcs' };

function isPending({ text }: { readonly text: string }): boolean {
  return text.includes('"pending_transaction"');
}

const waitFor = (hash: string): string => `/transactions/wait_by_hash/${hash}`;
const lookUp = (hash: string): string => `/transactions/by_hash/${hash}`;

function calls(...nodes: readonly FakeNode[]): number {
  return nodes.reduce((sum, node) => sum + node.requestsTo('waitByHash') + node.requestsTo('byHash'), 0);
}

/** The node takes waits, and answers them once `release` is called. */
function holdWaits(node: FakeNode): () => void {
  const resolve = node.hold({ when: ({ route }) => route === 'waitByHash' });
  return resolve;
}

async function waiting(gateway: TestGateway, count: number): Promise<void> {
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) >= count, 25);
}

const hashes = 20;
const waitersEach = 10;

/** Each waiter's text, once all of `hashes` were asked for `waitersEach` times at once. */
async function crowdOf(t: TestContext, gateway: TestGateway, submitted: readonly string[]) {
  const agent = new Agent({ connections: hashes * waitersEach, pipelining: 1 });
  t.after(() => agent.close());
  return submitted.flatMap((hash) =>
    Array.from({ length: waitersEach }, async () => {
      const reply = await send(gateway.url + waitFor(hash), { dispatcher: agent });
      return { hash, status: reply.statusCode, text: await reply.body.text() };
    }),
  );
}

test('without the follower 200 waiters on 20 hashes cost 20 long polls', async (t) => {
  const node = await fakeNode(t, { head: 900n, keepRequests: 1 });
  const config = { follow: { mode: 'off' }, upstream: { ...patient, connections: 2 * hashes + 2 } } as const;
  const gateway = await testGateway(t, { full: [node], config });
  const submitted = await Promise.all(Array.from({ length: hashes }, (_, at) => submitTo(node, at)));
  const release = holdWaits(node);

  const asked = await crowdOf(t, gateway, submitted);
  await waiting(gateway, asked.length);
  node.mempool.commitAll(850n);
  release();
  const replies = await Promise.all(asked);

  for (const { hash, status, text } of replies) {
    assert.equal(status, 200);
    assert.ok(text.includes(hash) && text.includes('"user_transaction"'), text);
  }
  t.diagnostic(`${replies.length} waiters, ${calls(node)} node calls`);
  assert.deepEqual([node.requestsTo('waitByHash'), node.requestsTo('byHash')], [hashes, 0]);
});

test('a wait without a place at the node is shared while it waits for one', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { upstream: { ...patient, connections: 3 } } });
  const [one, other] = [await submitTo(node, 1), await submitTo(node, 2)];
  const release = holdWaits(node);
  const first = gateway.get(waitFor(one));
  await until(() => calls(node) === 1);

  const others = Array.from({ length: waitersEach }, () => gateway.get(waitFor(other)));
  await waiting(gateway, 1 + waitersEach);
  const during = calls(node);
  node.mempool.commitAll(850n);
  release();
  const replies = await Promise.all([first, ...others]);

  assert.equal(during, 1);
  assert.deepEqual(
    replies.map(isPending),
    replies.map(() => false),
  );
  assert.equal(calls(node), 2);
});

for (const [asked, then] of [
  [waitFor, lookUp],
  [lookUp, waitFor],
  [waitFor, waitFor],
] as const) {
  const [first, second] = [asked('{h}'), then('{h}')];
  test(`a committed answer of ${first} answers ${second}, in both forms and to HEAD`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t);
    const hash = await submitTo(node);
    node.mempool.commitAll(850n);

    for (const headers of [{}, bcs]) {
      const before = calls(node);
      const one = await gateway.get(asked(hash), headers);
      const other = await gateway.get(then(hash), headers);
      const head = await gateway.send('HEAD', then(hash), { headers });
      const tag = one.headers['etag'] ?? '';
      const again = await gateway.get(then(hash), { ...headers, 'if-none-match': tag });

      assert.deepEqual([one.status, other.status, head.status, again.status], [200, 200, 200, 304]);
      assert.ok(one.body.equals(other.body));
      for (const reply of [other, head, again]) {
        assert.equal(reply.headers['cache-status'], 'ledgergate; hit; detail=memory');
        assert.equal(reply.headers['etag'], tag);
      }
      assert.equal(head.headers['content-length'], String(one.body.length));
      assert.equal(calls(node), before + 1);
    }
  });
}

test('GET and HEAD of one pending hash share one wait', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const hash = await submitTo(node);
  const release = holdWaits(node);
  const asked = [gateway.get(waitFor(hash)), gateway.send('HEAD', waitFor(hash))];
  await waiting(gateway, 2);
  node.mempool.commitAll(850n);
  release();

  const [get, head] = await Promise.all(asked);

  assert.deepEqual([get?.status, head?.status, head?.body.length], [200, 200, 0]);
  assert.equal(head?.headers['content-length'], String(get?.body.length));
  assert.equal(calls(node), 1);
});

/** Two nodes with one mempool, the first of which is behind. */
async function splitFleet(t: TestContext) {
  const mempool = new Mempool({ pendingForMs: Infinity });
  const late = await fakeNode(t, { head: 800n, mempool });
  const early = await fakeNode(t, { head: 900n, mempool });
  const hash = await submitTo(early);
  return { late, early, hash };
}

test('a wait that began before the commit holds up no look-up after it, and ends with what that found', async (t) => {
  const { late, early, hash } = await splitFleet(t);
  const gateway = await testGateway(t, { full: [late, early] });
  const release = [late, early].map(holdWaits);
  // Both nodes would answer "pending" to a wait that they take now.
  const body = `{"hash":"${hash}","type":"pending_transaction"}`;
  const headers = ledgerHeaders({ version: 900n, chainId: 1 });
  const pending = { kind: 'answer', status: 200, body, headers } as const;
  for (const node of [late, early]) node.faults.add(pending, { when: ({ route }) => route === 'waitByHash' });
  const wait = gateway.get(waitFor(hash));
  await until(() => calls(late, early) === 1);

  early.mempool.commitAll(850n);
  late.clock.head = 900n;
  const found = await gateway.get(lookUp(hash));
  const next = await gateway.get(waitFor(hash));
  for (const end of release) end();
  const waited = await wait;

  assert.deepEqual([found, next, waited].map(isPending), [false, false, false]);
  assert.equal(next.headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('a pending answer is never kept, by no route', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const hash = await submitTo(node);
  for (const headers of [{}, bcs]) {
    const pending = [await gateway.get(waitFor(hash), headers), await gateway.get(lookUp(hash), headers)];
    for (const reply of pending) {
      assert.equal(reply.headers['cache-control'], 'no-store');
      assert.equal(reply.headers['etag'], undefined);
    }
  }
  node.mempool.commitAll(850n);
  for (const headers of [{}, bcs]) {
    assert.equal(
      (await gateway.get(lookUp(hash), headers)).headers['cache-status'],
      'ledgergate; fwd=miss; detail=full-0',
    );
  }
});

redisTest(
  'replicas share a committed answer, and no look-up waits for the wait of another replica',
  async (t, server) => {
    const node = await fakeNode(t, { head: 900n });
    const config = { cache: { redis: redisAt(server.url) } };
    const [a, b] = [await testGateway(t, { full: [node], config }), await testGateway(t, { full: [node], config })];
    const hash = await submitTo(node);
    const release = holdWaits(node);
    const wait = a.get(waitFor(hash));
    await until(() => node.requestsTo('waitByHash') === 1);

    const pending = await b.get(lookUp(hash));
    node.mempool.commitAll(850n);
    const committed = await b.get(lookUp(hash));
    await written(b, 1);
    release();
    const waited = await wait;

    assert.deepEqual([pending, committed, waited].map(isPending), [true, false, false]);
    const third = await testGateway(t, { full: [node], config });
    await untilUp(third);
    const before = calls(node);
    const shared = await third.get(waitFor(hash));
    assert.equal(shared.headers['cache-status'], 'ledgergate; hit; detail=redis');
    assert.ok(shared.body.equals(committed.body));
    assert.equal(calls(node), before);
  },
);

// With the follower, callers that wait for a commit are answered by its pages; a node is asked once for each hash.

/** A node, and a gateway whose follower has begun. */
async function followedNode(t: TestContext, config: TestGatewayOptions['config'] = {}) {
  const node = await fakeNode(t, { head: 900n, keepRequests: 1 });
  const follow = { mode: 'always', minReads: 20 } as const;
  const gateway = await testGateway(t, { full: [node], config: { upstream: patient, follow, ...config } });
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="taken"}')) > 0, 25);
  return { node, gateway };
}

/** Commits all that is pending, each at a version of its own. Returns the new head. */
function commit({ clock, mempool }: FakeNode): bigint {
  clock.head = mempool.commitEach(clock.head + 1n) - 1n;
  return clock.head;
}

test('200 waiters on 20 hashes cost a call for each hash, and get the answer of the node', async (t) => {
  const { node, gateway } = await followedNode(t);
  const unknown = `0x${'ab'.repeat(32)}`;
  const startMs = performance.now();
  const absent = await gateway.get(waitFor(unknown));
  assert.ok(performance.now() - startMs < 900, 'at once');
  assert.equal(absent.status, 404);
  assert.equal(absent.text, await (await fetch(node.url + lookUp(unknown))).text());

  const before = node.requestsTo('byHash');
  const submitted = await Promise.all(Array.from({ length: hashes }, (_, at) => submitTo(node, at)));
  const agent = new Agent({ connections: hashes * waitersEach, pipelining: 1 });
  t.after(() => agent.close());
  // A client asks again behind a second, as it does at a node.
  const waitOf = async (hash: string): Promise<{ readonly hash: string; readonly text: string }> => {
    const reply = await send(gateway.url + waitFor(hash), { dispatcher: agent });
    const text = await reply.body.text();
    return isPending({ text }) ? waitOf(hash) : { hash, text };
  };
  const waits = submitted.flatMap((hash) => Array.from({ length: waitersEach }, () => waitOf(hash)));
  await until(() => node.requestsTo('byHash') - before >= hashes, 25);
  const head = commit(node);
  const served = await Promise.all(waits);

  assert.equal(head, 900n + BigInt(hashes));
  assert.deepEqual([node.requestsTo('byHash') - before, node.requestsTo('waitByHash')], [hashes, 0]);
  for (const hash of submitted) {
    const own = await (await fetch(node.url + lookUp(hash))).text();
    const texts = served.filter((one) => one.hash === hash).map(({ text }) => text);
    assert.deepEqual(new Set(texts), new Set([own]));
  }
  const byFollower = await gateway.metric('ledgergate_waits_answered_total{by="follower"}');
  assert.ok(byFollower >= hashes, `${byFollower} waits answered by the follower`);
});

test('a wait that the follower answers binds the later reads of its connection, and of its client', async (t) => {
  const { node, gateway } = await followedNode(t, { latest: { maxStalenessMs: 10_000 } });
  const [agent, elsewhere] = [connectionTo(t, gateway), connectionTo(t, gateway)];
  const before = await agent(probe);
  const hash = await submitTo(node);
  const wait = agent(waitFor(hash));
  await until(() => node.requestsTo('byHash') === 1);
  const head = commit(node);
  const answered = await wait;
  const served = [before, await agent(probe), await elsewhere(probe)].map(
    (reply) => reply.headers['ledgergate-served-version'],
  );

  assert.equal(isPending(answered), false);
  assert.equal(calls(node), 1);
  assert.deepEqual(served, ['900', String(head), String(head)]);
});
