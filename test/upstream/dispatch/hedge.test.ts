import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { until } from '../../support/eventually.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
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

test('a node that fails hedges is compared with the nodes that answer those reads', async (t) => {
  const info = ledgerInfo({ version: 900n });
  const headers = [...new Dialect('node').list(info)];
  const { sender, fleet, counted } = await senderOf(
    t,
    ({ headers: { host } }, response) => {
      const isWrong = host?.endsWith(`:${wrong?.name.slice(1)}`) === true;
      // Its own headers contradict the 410.
      if (isWrong) response.writeHead(410, headers).end('{"error_code":"version_pruned"}');
      else setTimeout(() => response.writeHead(200, headers).end('{}'), 100);
    },
    { nodes: 2, connections: 4, limits: { hedge: { quantile: 0.5, share: 1 } } },
  );
  const [, wrong] = fleet.upstreams;
  for (const upstream of fleet.upstreams) fleet.observe(upstream, info, performance.now());
  fleet.ledger.settle();
  // The others are asked first.
  Object.assign(wrong ?? {}, { weight: 1e-9 });
  const read = { ...request('/x'), need: { kind: 'version', version: LedgerVersion.of(800n) } } as const;
  for (let reads = 0; reads < 5; reads += 1) {
    for (const { latencies } of fleet.upstreams)
      for (let count = 0; count < 30; count += 1) latencies.head.record(5, performance.now());
    assert.equal((await sender.whole(read, never)).status, 200);
  }

  assert.equal(await counted('ledgergate_hedges_total', 'outcome', 'lost'), 5);
  assert.equal(await counted('ledgergate_pruned_answers_repaired_total'), 5);
  assert.equal(wrong?.ejections.head.reason, 'error');
});
