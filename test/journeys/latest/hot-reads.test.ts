/**
 * Reads of "latest" that clients repeat: made at the next shared state ahead of their first client, and in an open loop,
 * where requests come whether or not earlier ones are answered. LEDGERGATE_HOT_SECONDS and LEDGERGATE_HOT_RATE set the
 * length and the requests per second of the loop; the figure of the project's claims is taken with 10 and 1000.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { until } from '../../support/eventually.ts';
import { nodeAndGateway, probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { createSampleNode } from '../../support/sample-node.ts';

/** A shared state lasts for two seconds, in which a busy machine makes some reads. */
const config = { latest: { maxStalenessMs: 2_000 } };
const resultsOf = (result: string): string => `ledgergate_hot_reads_total{result="${result}"}`;
const misses = 'ledgergate_cache_reads_total{kind="resource",result="miss"}';
/** No client repeats it. */
const other = probe.replace('0x1/', '0x2/');

/** Asks for the read within one state; the first version is 900. */
async function poll(gateway: TestGateway, path: string, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    const { headers } = await gateway.get(path);
    assert.equal(headers['ledgergate-served-version'], '900');
  }
}

/** Waits until reads share the state at version 950, and the first client reads of it. */
async function renewed(gateway: TestGateway): Promise<void> {
  await until(async () => (await gateway.get('')).text.includes('"ledger_version":"950"'), 20);
  assert.equal((await gateway.get(other)).headers['ledgergate-served-version'], '950');
}

test('of what clients repeat, one of them waits at the next state, and none of the others', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config });
  const polled = Array.from({ length: 8 }, (_, index) => probe.replace('0x1/', `0xa${index}/`));
  await Promise.all(polled.map((path) => poll(gateway, path, 3)));
  assert.equal(node.reads, polled.length);
  node.clock.advance(50n);
  await renewed(gateway);
  await until(async () => (await gateway.metric(resultsOf('ahead'))) === polled.length, 20);

  for (const path of polled) {
    const { headers } = await gateway.get(path);
    assert.equal(headers['ledgergate-served-version'], '950');
    assert.match(headers['cache-status'] ?? '', /; hit/);
  }
  assert.equal(node.reads, 2 * polled.length + 1, 'one call for each read and state');
  assert.equal(await gateway.metric(misses), polled.length + 1, 'a read ahead is no miss of a client');
});

test('a client that comes while the read ahead is in flight joins it', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config });
  await poll(gateway, probe, 3);
  const held = Promise.withResolvers<void>();
  t.after(() => held.resolve());
  node.faults.add(
    { kind: 'hold', until: held.promise },
    { when: ({ url }) => !url.includes('0x2/') && url.includes('/resource/') },
  );
  node.clock.advance(50n);
  await renewed(gateway);
  await until(() => node.reads === 3, 20);
  const joined = gateway.get(probe);
  await until(async () => (await gateway.metric(misses)) === 3);
  held.resolve();

  assert.match((await joined).headers['cache-status'] ?? '', /collapsed/);
  assert.equal(node.reads, 3);
});

// An open loop.

const seconds = Number(process.env['LEDGERGATE_HOT_SECONDS'] ?? 1);
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
