/** Callers that wait for a commit are answered by the follower; a node is asked once for each hash. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { patient, probe, testGateway, type TestGateway, type TestGatewayOptions } from '../../support/gateway.ts';
import { submission } from '../../support/submission.ts';

const waitFor = (hash: string): string => `/transactions/wait_by_hash/${hash}`;
const lookUp = (hash: string): string => `/transactions/by_hash/${hash}`;

/** A node, and a gateway whose follower has begun. */
async function followed(
  t: TestContext,
  config: TestGatewayOptions['config'] = {},
): Promise<{ readonly node: FakeNode; readonly gateway: TestGateway }> {
  const node = await fakeNode(t, { head: 900n, keepRequests: 1 });
  const follow = { mode: 'always', minReads: 20 } as const;
  const gateway = await testGateway(t, { full: [node], config: { upstream: patient, follow, ...config } });
  await until(async () => (await gateway.metric('ledgergate_follower_pages_total{result="taken"}')) > 0, 25);
  return { node, gateway };
}

/** Submits to the node itself: the gateway knows nothing of it. */
async function submitTo(node: FakeNode, sequenceNumber = 1): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const body = submission({ sequenceNumber });
  const reply = await fetch(`${node.url}/transactions`, { method: 'POST', body, headers });
  return ((await reply.json()) as { hash: string }).hash;
}

/** Commits all that is pending, each at a version of its own. Returns the new head. */
function commit({ node }: { readonly node: FakeNode }): bigint {
  const next = node.mempool.commitEach(node.clock.head + 1n);
  node.clock.head = next - 1n;
  return next - 1n;
}

function calls({ node }: { readonly node: FakeNode }): readonly number[] {
  return [node.requestsTo('byHash'), node.requestsTo('waitByHash')];
}

const isPending = ({ text }: { readonly text: string }): boolean => text.includes('"pending_transaction"');

const hashes = 500;
const waitersEach = 2;

test('a thousand waiters on 500 hashes cost a call for each hash, and get the answer of the node', async (t) => {
  const { node, gateway } = await followed(t);
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
  await until(() => node.requestsTo('byHash') >= hashes, 25);

  const head = commit({ node });
  const served = await Promise.all(waits);
  const asked = calls({ node });

  assert.equal(head, 900n + BigInt(hashes));
  assert.deepEqual(asked, [hashes, 0]);
  const bodies = new Map(
    await Promise.all(
      submitted.map(async (hash) => [hash, await (await fetch(node.url + lookUp(hash))).text()] as const),
    ),
  );
  for (const { hash, text } of served) assert.equal(text, bodies.get(hash));
  const byFollower = await gateway.metric('ledgergate_waits_answered_total{by="follower"}');
  assert.ok(byFollower >= hashes, `${byFollower} waits answered by the follower`);
});

test('a transaction that stays pending is answered after a second, and again without a call, byte for byte', async (t) => {
  const { node, gateway } = await followed(t);
  const hash = await submitTo(node);
  const startMs = performance.now();
  const first = await gateway.get(waitFor(hash));
  const tookMs = performance.now() - startMs;
  const second = await gateway.get(waitFor(hash));
  const asked = calls({ node });
  const own = await (await fetch(node.url + lookUp(hash))).text();

  assert.ok(tookMs >= 990, `${tookMs} ms`);
  assert.deepEqual(asked, [1, 0]);
  for (const reply of [first, second]) {
    assert.equal(reply.status, 200);
    assert.equal(reply.text, own);
    assert.equal(reply.headers['cache-control'], 'no-store');
    assert.equal(reply.headers['etag'], undefined);
    assert.equal(reply.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0; collapsed');
  }
});

test('a look-up of a pending transaction is shared for a second, and answered anew at the commit', async (t) => {
  const { node, gateway } = await followed(t);
  const hash = await submitTo(node);
  const [first, second] = [await gateway.get(lookUp(hash)), await gateway.get(lookUp(hash))];
  const asked = calls({ node });
  commit({ node });
  await until(async () => !isPending(await gateway.get(lookUp(hash))), 25);
  const committed = await gateway.get(lookUp(hash));

  assert.deepEqual([first, second].map(isPending), [true, true]);
  assert.equal(first.text, second.text);
  assert.deepEqual(asked, [1, 0]);
  assert.equal(committed.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.equal(committed.text, await (await fetch(node.url + lookUp(hash))).text());
});

test('a hash that no node knows is a 404 at once', async (t) => {
  const { node, gateway } = await followed(t);
  const hash = `0x${'ab'.repeat(32)}`;
  const startMs = performance.now();
  const reply = await gateway.get(waitFor(hash));

  assert.ok(performance.now() - startMs < 900);
  assert.equal(reply.status, 404);
  assert.equal(reply.text, await (await fetch(node.url + lookUp(hash))).text());
});

test('a wait that the follower answers binds the later reads of its connection, and of its client', async (t) => {
  const latest = { maxStalenessMs: 10_000 };
  const { node, gateway } = await followed(t, { latest });
  const agent = new Agent({ connections: 1, pipelining: 1 });
  const elsewhere = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => Promise.all([agent.close(), elsewhere.close()]));
  const ask = async (path: string, dispatcher: Agent) => {
    const reply = await send(gateway.url + path, { dispatcher });
    return { text: await reply.body.text(), served: reply.headers['ledgergate-served-version'] };
  };
  const before = await ask(probe, agent);
  const hash = await submitTo(node);
  const wait = ask(waitFor(hash), agent);
  await until(() => node.requestsTo('byHash') === 1);
  const head = commit({ node });
  const answered = await wait;
  const [next, other] = [await ask(probe, agent), await ask(probe, elsewhere)];

  assert.equal(before.served, '900');
  assert.equal(isPending(answered), false);
  assert.deepEqual(calls({ node }), [1, 0]);
  assert.deepEqual([next.served, other.served], [String(head), String(head)]);
});

test('waits in BCS are long polls of a node', async (t) => {
  const { node, gateway } = await followed(t);
  const hash = await submitTo(node);
  commit({ node });
  const reply = await gateway.get(waitFor(hash), { accept: 'application/x-bcs' });
  assert.equal(reply.body[0], 0);
  assert.deepEqual(calls({ node }), [0, 1]);
});
