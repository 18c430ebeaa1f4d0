/** The last attempt of a request belongs to the node that is most likely to answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway } from '../../support/gateway.ts';

const boom = '{"message":"boom","error_code":"internal_error","vm_error_code":null}';
const version = 60_000;
const reads = {
  'a version': `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`,
  'a block': '/blocks/by_height/15000',
  'a hash': `/transactions/by_hash/0x${'ab'.repeat(32)}`,
  'a passed-through version': `/accounts/0x1?ledger_version=${version}&x=1`,
  'a passed-through block': '/blocks/by_height/15000?x=1',
};

function asked(nodes: readonly FakeNode[]): number {
  return nodes.reduce((sum, node) => sum + node.reads, 0);
}

for (const [what, path] of Object.entries(reads)) {
  test(`${what} that three full nodes fail is answered by the archive within three attempts`, async (t) => {
    const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest: 50_000n, head: 90_000n })));
    const archive = await fakeNode(t, { archival: true, head: 90_000n });
    const gateway = await testGateway(t, { full, archival: [archive] });
    for (const node of full) node.faults.add({ kind: 'answer', status: 500, body: boom });
    const direct = await fetch(archive.url + path);

    const reply = await gateway.get(path);

    assert.deepEqual([reply.status, reply.text], [direct.status, await direct.text()]);
    assert.deepEqual([asked(full), archive.reads], [2, 2]);
  });
}

for (const [what, path] of Object.entries(reads)) {
  test(`${what} that only the archive holds is asked there again after one error`, async (t) => {
    const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest: 70_000n, head: 90_000n })));
    const archive = await fakeNode(t, { archival: true, head: 90_000n });
    const gateway = await testGateway(t, { full, archival: [archive] });
    const direct = await fetch(archive.url + path);
    archive.faults.add({ kind: 'answer', status: 500, body: boom }, { times: 1 });

    const reply = await gateway.get(path);

    assert.deepEqual([reply.status, reply.text], [direct.status, await direct.text()]);
  });
}

test('an archive that fails at everything is asked twice at most, however many nodes lack the version', async (t) => {
  const full = await Promise.all([1, 2, 3].map(() => fakeNode(t, { oldest: 70_000n, head: 90_000n })));
  const archive = await fakeNode(t, { archival: true, head: 90_000n });
  const gateway = await testGateway(t, { full, archival: [archive] });
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
