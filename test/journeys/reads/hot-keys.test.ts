// Reads of "latest" in an open loop: requests come when they come, whether or not earlier ones are answered.
// LEDGERGATE_HOT_SECONDS and LEDGERGATE_HOT_RATE set the length and the requests per second; the figure of the
// project's claims is taken with 10 and 1000.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { Pool } from 'undici';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { createSampleNode } from '../../support/sample-node.ts';
import { testGateway } from '../../support/gateway.ts';

const seconds = Number(process.env['LEDGERGATE_HOT_SECONDS'] ?? 2);
const requestsPerSecond = Number(process.env['LEDGERGATE_HOT_RATE'] ?? 400);
const keys = 20;
const boundMs = 200;

test(`${keys} hot keys read at latest for ${seconds} s cost one upstream read per key and bound, and are never staler`, async (t) => {
  const ledger = { startHead: 1_000_000n, startMs: Date.now() };
  const node = await createSampleNode({ clock: advancingClock(ledger), keepRequests: 1 });
  t.after(() => node.close());
  const gateway = await testGateway(t, { full: [node], config: { latest: { maxStalenessMs: boundMs } } });
  const pool = new Pool(new URL(gateway.url).origin, { connections: 1_000 });
  t.after(() => pool.close());
  const seen = { hits: 0, misses: 0, stale: 0, failed: 0 };

  const read = async (turn: number): Promise<void> => {
    const path = `/v1/accounts/0x5a0000${(turn % keys).toString(16).padStart(2, '0')}/resource/0x1::ledgergate_sample::Probe`;
    const askedMs = Date.now();
    const { statusCode, headers, body } = await pool.request({ method: 'GET', path });
    const version = /"ledger_version":"(\d+)"/.exec(await body.text())?.[1];
    if (statusCode !== 200 || version === undefined) {
      seen.failed += 1;
      return;
    }
    seen[String(headers['cache-status']).includes('; hit') ? 'hits' : 'misses'] += 1;
    // The ledger's version one bound before the request, by the node's own clock.
    const due = advancingClock({ ...ledger, now: () => askedMs - boundMs }).read().version;
    if (BigInt(version) < due) seen.stale += 1;
  };
  const pending: Promise<void>[] = [];
  const startMs = performance.now();
  for (let turn = 0; turn < seconds * requestsPerSecond; turn += 1) {
    const dueMs = startMs + (turn * 1_000) / requestsPerSecond;
    if (performance.now() < dueMs) await sleep(Math.max(1, dueMs - performance.now()));
    pending.push(read(turn));
  }
  await Promise.all(pending);

  const bounds = (performance.now() - startMs) / boundMs;
  const [reads, looks] = [node.requestsTo('resource'), node.requestsTo('ledgerInfo')];
  const [readsPerBound, looksPerBound] = [reads / bounds, looks / bounds].map((count) => count.toFixed(1));
  t.diagnostic(`${JSON.stringify(seen)}; per ${boundMs} ms: ${readsPerBound} reads, ${looksPerBound} looks`);
  assert.deepEqual({ stale: seen.stale, failed: seen.failed }, { stale: 0, failed: 0 });
  // Each look at the ledger costs at most one read of each key, and there is about one look per bound.
  assert.ok(reads <= keys * looks);
  assert.ok(looks <= bounds * 1.05 + 3);
});
