import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mempool } from '../../src/sample/mempool.ts';
import { recordedTransactions } from '../../src/sample/recorded.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { submission } from '../support/submission.ts';

interface Transaction {
  readonly hash: string;
  readonly type: string;
  readonly version?: string;
  readonly sender?: string;
}

async function submit(node: FakeNode): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const reply = await fetch(`${node.url}/transactions`, { method: 'POST', body: submission(), headers });
  assert.deepEqual([reply.status, reply.headers.get('x-node-ledger-version')], [202, '1000']);
  return ((await reply.json()) as Transaction).hash;
}

async function find(node: FakeNode, path: string): Promise<{ status: number; body: Transaction }> {
  const reply = await fetch(`${node.url}/transactions/${path}`);
  return { status: reply.status, body: (await reply.json()) as Transaction };
}

test('a submitted transaction is pending, then committed at a version', async (t) => {
  const node = await fakeNode(t);
  const hash = await submit(node);

  const pending = await find(node, `by_hash/${hash}`);
  node.mempool.commitAll(999n);
  const committed = await find(node, `by_hash/${hash}`);

  assert.deepEqual([pending.status, pending.body.type, pending.body.version], [200, 'pending_transaction', undefined]);
  assert.deepEqual([committed.body.type, committed.body.version], ['user_transaction', '999']);
  assert.deepEqual([committed.body.hash, committed.body.sender], [hash, '0x1']);
});

test('a transaction commits by itself at the head after its time', async (t) => {
  let nowMs = 0;
  const node = await fakeNode(t, { mempool: new Mempool({ pendingForMs: 300, now: () => nowMs }) });
  const hash = await submit(node);

  nowMs = 299;
  const before = await find(node, `by_hash/${hash}`);
  nowMs = 300;
  const after = await find(node, `by_hash/${hash}`);
  node.clock.advance(50n);
  const later = await find(node, `by_hash/${hash}`);

  assert.deepEqual(
    [before, after, later].map(({ body }) => body.version),
    [undefined, '1000', '1000'],
  );
});

test('a node that has not reached the commit still calls the transaction pending', async (t) => {
  const mempool = new Mempool({ pendingForMs: Infinity });
  const [ahead, behind] = [await fakeNode(t, { mempool }), await fakeNode(t, { mempool, head: 900n })];
  const hash = await submit(ahead);
  mempool.commitAll(950n);

  assert.equal((await find(ahead, `by_hash/${hash}`)).body.type, 'user_transaction');
  assert.equal((await find(behind, `by_hash/${hash}`)).body.type, 'pending_transaction');
});

test('waiting ends when the transaction is committed', async (t) => {
  const node = await fakeNode(t);
  const hash = await submit(node);
  const asked = node.log.next();

  const waiting = find(node, `wait_by_hash/${hash}`);
  await asked;
  node.mempool.commitAll(1000n);

  assert.equal((await waiting).body.type, 'user_transaction');
});

test('waiting for an unknown hash is a 404 at once', async (t) => {
  const node = await fakeNode(t);

  const { status } = await find(node, `wait_by_hash/${'ab'.repeat(32)}`);

  assert.equal(status, 404);
});

test('a pruned transaction is a 404 by hash, and a 410 by version', async (t) => {
  const recorded = recordedTransactions.find(({ version }) => version === 36n);
  assert.ok(recorded);
  const [full, archival] = [await fakeNode(t, { oldest: 37n }), await fakeNode(t, { archival: true })];

  assert.equal((await find(full, `by_hash/${recorded.hash}`)).status, 404);
  assert.equal((await find(full, 'by_version/36')).status, 410);
  assert.equal((await find(archival, `by_hash/${recorded.hash}`)).status, 200);
  assert.equal((await find(archival, 'by_version/36')).status, 200);
});

test('every held version has a transaction; above head there is none', async (t) => {
  const node = await fakeNode(t);

  const [held, above] = [await find(node, 'by_version/777'), await find(node, 'by_version/1001')];

  assert.deepEqual([held.status, held.body.version], [200, '777']);
  assert.deepEqual(above, {
    status: 404,
    body: {
      message: 'Transaction not found by Ledger version(1001)',
      error_code: 'transaction_not_found',
      vm_error_code: null,
    },
  });
});

test('in BCS the first byte distinguishes a pending transaction from one on chain', async (t) => {
  const node = await fakeNode(t);
  const hash = await submit(node);
  const firstByte = async (): Promise<number | undefined> => {
    const reply = await fetch(`${node.url}/transactions/by_hash/${hash}`, { headers: { accept: 'application/x-bcs' } });
    return new Uint8Array(await reply.arrayBuffer())[0];
  };

  const pending = await firstByte();
  node.mempool.commitAll(1000n);

  assert.deepEqual([pending, await firstByte()], [1, 0]);
});
