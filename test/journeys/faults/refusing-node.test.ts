/** A node that refuses all reads of a class, by its configuration or against its own headers, is passed over. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const ledger = ledgerHeaders({ version: 90_000n, oldest: 50_000n });

function error(code: string): string {
  return JSON.stringify({ message: 'm', error_code: code, vm_error_code: null });
}

for (const [what, answer, reason] of [
  ['api_disabled', { status: 403, body: error('api_disabled') }, 'refused'],
  ['410 for what its headers show as held', { status: 410, body: error('version_pruned'), headers: ledger }, 'error'],
  [
    '410 for a version that its headers show as pruned',
    {
      status: 410,
      body: error('version_pruned'),
      headers: ledgerHeaders({ version: 90_001n, oldest: 89_000n }),
    },
    undefined,
  ],
] as const) {
  test(`${what}: ${reason !== undefined ? 'the node is passed over after five reads, trials included' : 'a fact about the node, and no failure'}`, async (t) => {
    const refusing = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [refusing, good] });
    refusing.faults.add({ kind: 'answer', ...answer }, { when: ({ route }) => route === 'resource' });
    const ejections = `ledgergate_upstream_ejections_total{upstream="full-0",class="head",reason="${reason ?? 'error'}"}`;
    const startedMs = performance.now();

    // Enough reads for an ejection, for longer than the first pause, so that a trial is made as well.
    for (let version = 60_000; version < 60_040 || performance.now() - startedMs < 1_500; version += 1) {
      assert.equal((await gateway.get(probeAt(version))).status, 200);
    }

    assert.equal(await gateway.metric(ejections), Number(reason !== undefined));
    if (reason !== undefined)
      assert.ok(refusing.requestsTo('resource') <= 7, `${refusing.requestsTo('resource')} reads`);
  });
}
