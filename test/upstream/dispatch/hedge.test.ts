import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { until } from '../../support/eventually.ts';
import { never, request, senderOf } from '../../support/sender.ts';

test('a hedge that HTTP forbids at its node takes the first attempt along', async (t) => {
  const { sender, fleet } = await senderOf(
    t,
    // The request hangs, and its hedge gets a header that no request may have.
    () => {
      for (const upstream of fleet.upstreams) Object.assign(upstream, { headers: { 'x-key': 'a\nb' } });
    },
    { nodes: 2, connections: 4, limits: { timeoutMs: 20_000, hedge: { quantile: 0.9, share: 1 } } },
  );
  const read = { ...request('/x'), need: { kind: 'head', min: LedgerVersion.of(0n) } } as const;
  for (const { latencies } of fleet.upstreams)
    for (let count = 0; count < 30; count += 1) latencies.head.record(500, performance.now());

  await assert.rejects(sender.whole(read, never), /cannot be sent on/);

  await until(() => fleet.upstreams.every(({ inFlight }) => inFlight === 0));
});
