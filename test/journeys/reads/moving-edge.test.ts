// A pruning edge that moves a hundred times faster than on today's networks. LEDGERGATE_EDGE_READS sets the number of
// reads; the figure of the project's claims is taken with 100000.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pool } from 'undici';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { createSampleNode } from '../../support/sample-node.ts';
import { testGateway } from '../../support/gateway.ts';

const reads = Number(process.env['LEDGERGATE_EDGE_READS'] ?? 2_500);
const versionsPerSecond = 20_000;
const reach = 5_000;
const clients = 32;

test(`${reads} reads on both sides of an edge moving at 20,000 versions a second are all answered 200`, async (t) => {
  const moving = { startHead: 2_000_000n, versionsPerSecond, startMs: Date.now() };
  const full = await createSampleNode({ clock: advancingClock({ ...moving, window: 1_000_000n, pruneStep: 500n }) });
  const archival = await createSampleNode({ clock: advancingClock(moving) });
  t.after(() => Promise.all([full.close(), archival.close()]));
  const gateway = await testGateway(t, {
    full: [full],
    archival: [archival],
    config: { upstream: { probeIntervalMs: 200 } },
  });
  const pool = new Pool(new URL(gateway.url).origin, { connections: clients });
  t.after(() => pool.close());
  const times: number[] = [];
  const seen = { ok: 0, wrong: 0, wellAbove: 0, wellAboveFromFull: 0 };

  const client = async (first: number): Promise<void> => {
    for (let turn = first; turn < reads; turn += clients) {
      const offset = BigInt(((turn * 7919) % (2 * reach)) - reach);
      const version = full.ledger().oldestVersion + offset;
      const path = `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
      const askedMs = performance.now();
      const { statusCode, headers, body } = await pool.request({ method: 'GET', path });
      times.push(performance.now() - askedMs);
      const text = await body.text();
      const isRight = statusCode === 200 && text.includes(`"ledger_version":"${version}"`);
      seen[isRight ? 'ok' : 'wrong'] += 1;
      if (!isRight) t.diagnostic(`${version}: ${statusCode} ${text}`);
      if (offset < 2_000n || String(headers['cache-status']).includes('hit')) continue;
      seen.wellAbove += 1;
      if (String(headers['cache-status']).includes('detail=full-0')) seen.wellAboveFromFull += 1;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));

  const repaired = await gateway.metric('ledgergate_pruned_answers_repaired_total');
  t.diagnostic(`${JSON.stringify(seen)}, full ${full.reads}, archival ${archival.reads}, repaired ${repaired}`);
  assert.deepEqual({ ok: seen.ok, wrong: seen.wrong }, { ok: reads, wrong: 0 });
  // The edge moves 2,000 versions in 100 ms: where reads take nearly as long, nothing near it is surely held.
  const medianMs = times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
  if (medianMs > 15) t.diagnostic(`a busy machine: half of the reads took ${Math.round(medianMs)} ms and more`);
  else assert.ok(seen.wellAboveFromFull > seen.wellAbove * 0.5, 'the full node serves what it surely holds');
});
