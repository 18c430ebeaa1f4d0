/** The process that waits to take the place of a worker, as a real process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../support/gateway-process.ts';
import { get, isAlive, metric, noWorker } from '../support/workers.ts';

/** The spare, when it waits. */
async function spareOf(gateway: GatewayProcess, not = 0): Promise<number> {
  let found: number | undefined;
  await until(() => (found = gateway.spares().find((spare) => spare !== not)) !== undefined);
  return found ?? noWorker();
}

const quiet = { workers: 2, log: { level: 'silent' } };

test('the spare takes the place of a worker that is lost, is none before, and another one comes', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: quiet });
  const spare = await spareOf(gateway);
  const { text } = await get(`${gateway.operationsUrl}/readyz`);
  const [victim = noWorker()] = gateway.workers();

  process.kill(victim, 'SIGKILL');
  const next = await spareOf(gateway, spare);

  assert.deepEqual((JSON.parse(text) as { workers: object }).workers, { wanted: 2, answering: 2, ready: 2 });
  assert.ok(gateway.workers().includes(spare));
  assert.ok(!gateway.workers().includes(next));
  assert.equal(await metric(gateway, 'ledgergate_workers'), 2);
  assert.equal(await metric(gateway, 'ledgergate_worker_restarts_total'), 1);
  assert.equal((await get(gateway.url)).headers['x-node-ledger-version'], '900');
});

test('a spare that dies is replaced, and no worker is counted as lost', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, log: { level: 'warn' } } });
  const spare = await spareOf(gateway);

  process.kill(spare, 'SIGKILL');
  const next = await spareOf(gateway, spare);

  assert.notEqual(next, spare);
  assert.match(gateway.err(), /the spare process ended/);
  assert.equal(await metric(gateway, 'ledgergate_workers'), 2);
  assert.equal(await metric(gateway, 'ledgergate_worker_restarts_total'), 0);
});

test('the spare ends with the gateway, asked politely or not', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const [stopped, killed] = await Promise.all([
    gatewayProcess(t, { full: [node], config: quiet }),
    gatewayProcess(t, { full: [node], config: quiet }),
  ]);
  const spares = [await spareOf(stopped), await spareOf(killed)];

  // As a service manager does: the whole group.
  for (const spare of spares) process.kill(spare, 'SIGTERM');
  assert.equal(await stopped.stop(), 0);
  await killed.kill();

  await until(() => Promise.resolve(!spares.some(isAlive)));
});

test('a worker that comes while a node says nothing serves with what the others know', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = { ...quiet, upstream: { probeInterval: '1s' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  await spareOf(gateway);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  t.after(() => release());
  const held = node.log.next(({ url }) => url === '/v1');
  node.faults.add({ kind: 'hold', until: released }, { when: ({ url }) => url === '/v1' });
  await held;
  const [victim = noWorker()] = gateway.workers();
  const restarts = async () => metric(gateway, 'ledgergate_worker_restarts_total');

  const startMs = performance.now();
  process.kill(victim, 'SIGKILL');
  await until(async () => (await restarts()) === 1 && (await metric(gateway, 'ledgergate_workers')) === 2);
  const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=600';
  const answers = [await get(gateway.url + path), await get(gateway.url + path)];
  t.diagnostic(`${Math.round(performance.now() - startMs)} ms`);

  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers['x-node-ledger-version']]),
    [
      [200, '900'],
      [200, '900'],
    ],
  );
});
