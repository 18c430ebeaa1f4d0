import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeAndGateway, twoTiers } from '../../support/gateway.ts';

const pinned = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=800';

test('a version on a path that ignores it neither stops the gateway nor moves a window', async (t) => {
  const { gateway } = await twoTiers(t, {}, { head: 1_000n });

  for (const version of ['999999999999', '1000', '999']) {
    await gateway.get(`/blocks/by_height/1?ledger_version=${version}`);
  }
  const reply = await gateway.get(pinned);

  assert.equal(reply.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
});

test('a health check that no node can pass takes no node out', async (t) => {
  const { gateway } = await nodeAndGateway(t, {}, { head: 1_000n });

  const statuses = [];
  for (let round = 0; round < 3; round += 1) {
    statuses.push((await gateway.get('/-/healthy?duration_secs=0')).status);
  }

  assert.deepEqual(statuses, [503, 503, 503]);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
});
