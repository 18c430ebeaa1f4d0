/** Reads of history with a version that the client has seen: the part of it that grows is not older than that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway } from '../../support/gateway.ts';

const account = '/accounts/0x5a000001';

/** Lists and blocks that run into the head at version 1,000; a node with the head 985 has a part of them. */
const growing: readonly ((n: number) => string)[] = [
  (n) => `/transactions?start=${970 + n}&limit=100`,
  (n) => `/transactions/auxiliary_info?start_version=${970 + n}&limit=100`,
  () => '/blocks/by_height/49',
  () => '/blocks/by_height/49?with_transactions=true',
  (n) => `/blocks/by_version/${980 + (n % 5)}`,
  (n) => `${account}/events/3?start=${40 + (n % 10)}&limit=50`,
  (n) => `${account}/events/3?limit=${10 + n}`,
  (n) => `${account}/transactions?limit=${10 + n}`,
  (n) => `/transactions?limit=${10 + n}`,
];

for (const path of growing) {
  test(`${path(0)} with a version that the client has seen is answered by a node that has reached it`, async (t) => {
    const behind = await fakeNode(t, { head: 985n });
    const fresh = await fakeNode(t, { head: 1_000n });
    const gateway = await testGateway(t, { full: [behind, fresh], config: { upstream: { probeIntervalMs: 10 } } });
    for (let n = 0; n < 10; n += 1) {
      const own = await (await fetch(fresh.url + path(n))).text();
      const reply = await gateway.get(path(n), { 'ledgergate-min-version': '1000' });
      assert.deepEqual([reply.status, reply.text], [200, own]);
    }
  });
}
