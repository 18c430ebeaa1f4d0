/** When an outage begins and ends, and whose word counts meanwhile. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Outage } from '../../src/upstream/outage.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

function nodeOf(t: TestContext): Upstream {
  const url = new URL('http://127.0.0.1:9/v1');
  const upstream = new Upstream({ name: 'n', url, tier: 'full', connections: 1, connectTimeoutMs: 1_000 });
  t.after(() => upstream.close());
  return upstream;
}

function answers(upstream: Upstream): void {
  upstream.recordAnswer(1, 0);
  upstream.adopt(ledgerInfo({ version: 1000n }), 0);
}

function isLost(upstream: Upstream): void {
  for (let failures = 0; failures < 2; failures += 1) upstream.recordFailure(1, 0);
}

test('it begins with the last node that could be asked, and ends with the first that can be again', (t) => {
  const nodes = [nodeOf(t), nodeOf(t)] as const;
  const outage = new Outage();
  const step = (nowMs: number) => [outage.update(nodes, nowMs), outage.sinceMs];

  assert.deepEqual(step(1), [undefined, undefined], 'nobody ever answered');
  isLost(nodes[0]);
  assert.deepEqual(step(2), [undefined, undefined]);
  answers(nodes[0]);
  assert.deepEqual(step(3), [undefined, undefined]);
  isLost(nodes[0]);
  assert.deepEqual(step(4), ['begins', 4]);
  assert.deepEqual(step(5), [undefined, 4]);
  answers(nodes[1]);
  assert.deepEqual(step(6), ['ends', undefined]);
});

test('meanwhile those count that were lost with the last one, not those that were gone long before', (t) => {
  const [gone, early, last, never] = [nodeOf(t), nodeOf(t), nodeOf(t), nodeOf(t)];
  const nodes = [gone, early, last, never];
  const outage = new Outage();
  for (const node of [gone, early, last]) answers(node);
  outage.update(nodes, 0);
  isLost(gone);
  outage.update(nodes, 1_000);
  isLost(early);
  outage.update(nodes, 40_000);
  assert.deepEqual(outage.speakers(nodes), [last]);
  isLost(last);
  assert.equal(outage.update(nodes, 50_000), 'begins');

  assert.deepEqual(outage.speakers(nodes), [early, last]);
});
