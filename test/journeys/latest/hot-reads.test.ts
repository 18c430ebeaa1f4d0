/** Reads that clients repeat are made at the next shared state ahead of their first client. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { nodeAndGateway, probe, type TestGateway } from '../../support/gateway.ts';

/** A shared state lasts for a second, in which a busy machine makes some reads. */
const config = { latest: { maxStalenessMs: 1_000 } };
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

test('after two reads within a state, none is made ahead', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config });
  await poll(gateway, probe, 2);
  node.clock.advance(50n);
  await renewed(gateway);

  assert.equal(node.reads, 2);
  assert.equal((await gateway.get(probe)).headers['ledgergate-served-version'], '950');
  assert.equal(node.reads, 3);
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

test('a gateway that drains its clients reads nothing ahead of them', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config, drainDelayMs: 3_000 });
  await poll(gateway, probe, 3);
  const closing = gateway.close();
  node.clock.advance(50n);
  await renewed(gateway);

  assert.equal(await gateway.metric(resultsOf('skipped')), 1);
  assert.equal(node.reads, 2);
  await closing;
});
