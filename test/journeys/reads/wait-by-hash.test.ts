/** Long polls for transactions: shared by their callers, answered from the cache, and never older than a read before. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { Mempool } from '../../../src/sample/mempool.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, patient, testGateway, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { submission } from '../../support/submission.ts';

const bcs = { accept: 'application/x-bcs' };

/** Submits to the node itself: the gateway knows nothing of it. */
async function submitTo(node: FakeNode, sequenceNumber = 1): Promise<string> {
  const body = submission({ sequenceNumber });
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(`${node.url}/transactions`, { method: 'POST', body, headers });
  return ((await reply.json()) as { hash: string }).hash;
}

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
  const { promise, resolve } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: promise }, { when: ({ route }) => route === 'waitByHash' });
  return resolve;
}

async function waiting(gateway: TestGateway, count: number): Promise<void> {
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) >= count, 25);
}

const hashes = 100;
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

test('a thousand waiters on a hundred hashes cost a hundred calls', async (t) => {
  const node = await fakeNode(t, { head: 900n, keepRequests: 1 });
  const config = { upstream: { ...patient, connections: 2 * hashes + 2 } };
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

test(
  'replicas share a committed answer, and no look-up waits for the wait of another replica',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
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
    await until(async () => (await b.metric('ledgergate_redis_writes_total{outcome="written"}')) >= 1);
    release();
    const waited = await wait;

    assert.deepEqual([pending, committed, waited].map(isPending), [true, false, false]);
    const third = await testGateway(t, { full: [node], config });
    await until(async () => (await third.metric('ledgergate_redis_up')) === 1);
    const before = calls(node);
    const shared = await third.get(waitFor(hash));
    assert.equal(shared.headers['cache-status'], 'ledgergate; hit; detail=redis');
    assert.ok(shared.body.equals(committed.body));
    assert.equal(calls(node), before);
  },
);
