/** `health_check_failed` answers a question about the node; under any other path it is a failure of that node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const unhealthy = {
  kind: 'answer',
  status: 503,
  body: '{"message":"old","error_code":"health_check_failed","vm_error_code":null}',
} as const;

for (const [what, headers] of [
  ['with ledger headers', ledgerHeaders({ version: 90_000n })],
  ['without ledger headers', {}],
] as const) {
  test(`health_check_failed ${what} fails no read beside a healthy node, and ejects the node`, async (t) => {
    const sick = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [sick, good] });
    sick.faults.add({ ...unhealthy, headers }, { when: ({ route }) => route !== 'ledgerInfo' });

    const own = await Promise.all(Array.from({ length: 10 }, (_, index) => gateway.get(probeAt(60_000 + index))));
    const passed = await gateway.get('/accounts/0x1?ledger_version=60000&x=1');

    assert.deepEqual(
      [...own, passed].map(({ status }) => status),
      Array.from({ length: 11 }, () => 200),
    );
    assert.ok(sick.requestsTo('resource') >= 5, 'the sick node was asked');
    assert.equal(await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}'), 1);
  });
}

test('health_check_failed is the answer to a health check, and another node is not asked', async (t) => {
  const nodes = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })];
  const gateway = await testGateway(t, { full: nodes });
  for (const node of nodes) node.faults.add(unhealthy, { when: ({ route }) => route === 'healthy' });

  const reply = await gateway.get('/-/healthy?duration_secs=1');

  assert.deepEqual([reply.status, reply.text], [503, unhealthy.body]);
  assert.equal(
    nodes.reduce((sum, node) => sum + node.requestsTo('healthy'), 0),
    1,
  );
});
