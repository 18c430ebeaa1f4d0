import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agent, request as send } from 'undici';
import type { SampleFault } from '../../support/sample-faults.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { submission } from '../../support/submission.ts';
import { errorBody } from '../../support/error-body.ts';

const transfer = submission();

test('a read after a submission does not share the read that began before it', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const elsewhere = await fakeNode(t, { head: 900n });
  const { hash } = JSON.parse(await (await fetch(`${elsewhere.url}/transactions`, posted(transfer))).text()) as {
    hash: string;
  };
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
  const { hash } = JSON.parse(await (await fetch(`${archival.url}/transactions`, posted(transfer))).text()) as {
    hash: string;
  };
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
    assert.deepEqual(
      replies.map(({ status }) => status),
      [503, 503],
    );
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
  const agent = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => agent.close());
  const own = async (path: string) => {
    const response = await send(gateway.url + path, { dispatcher: agent });
    return { status: response.statusCode, headers: response.headers, text: await response.body.text() };
  };
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
  const agent = new Agent({ connections: 1, pipelining: 1 });
  t.after(() => agent.close());
  const own = async (path: string) => {
    const response = await send(gateway.url + path, { dispatcher: agent });
    return { status: response.statusCode, text: await response.body.text() };
  };
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

function posted(body: string): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': 'application/json' } };
}
