import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { get } from '../../support/workers.ts';

const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=600';

test('a purge reaches the memory of every worker', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 3 } });
  const readByAll = async (): Promise<void> => {
    for (let count = 0; count < 6; count += 1) assert.equal((await get(gateway.url + path)).status, 200);
  };
  await readByAll();
  assert.equal(node.log.countOf('resource'), 3);

  const purged = await fetch(`${gateway.operationsUrl}/admin/purge`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ account: '0x1' }),
  });

  assert.equal(purged.status, 200);
  const { complete, memory } = (await purged.json()) as { readonly complete: boolean; readonly memory: number };
  assert.deepEqual([complete, memory], [true, 3]);
  await readByAll();
  assert.equal(node.log.countOf('resource'), 6);
});

test('a drain reaches every worker, and those that start later', async (t) => {
  const [drained, other] = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })];
  const gateway = await gatewayProcess(t, { full: [drained, other], config: { workers: 2 } });
  const post = async (action: string, name = 'full-0') => {
    const reply = await fetch(`${gateway.operationsUrl}/admin/upstreams/${name}/${action}`, { method: 'POST' });
    return [reply.status, await reply.json()];
  };
  const readAll = async (from: number): Promise<void> => {
    for (let at = from; at < from + 20; at += 1) {
      assert.equal((await get(gateway.url + path.replace('600', String(at)))).status, 200);
    }
  };

  assert.deepEqual(await post('drain'), [200, { upstream: 'full-0', isDrained: true, inFlight: 0 }]);
  await readAll(100);
  for (const worker of gateway.workers()) process.kill(worker, 'SIGKILL');
  await until(async () => (await get(`${gateway.operationsUrl}/readyz`)).text.includes('"ready":2'));
  await readAll(200);

  assert.equal(drained.log.countOf('resource'), 0);
  assert.deepEqual(await post('resume'), [200, { upstream: 'full-0', isDrained: false, inFlight: 0 }]);
  await post('drain', 'full-1');
  await readAll(300);
  assert.equal(drained.log.countOf('resource'), 20);
  assert.equal((await post('drain', 'full-9'))[0], 404);
});

test('one worker explains a request', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });

  const answer = await fetch(`${gateway.operationsUrl}/admin/explain?target=${encodeURIComponent(`/v1${path}`)}`);
  const refused = await fetch(`${gateway.operationsUrl}/admin/explain`);

  assert.equal(answer.status, 200);
  assert.match(await answer.text(), /"version": "600"/);
  assert.equal(refused.status, 400);
  assert.equal(node.log.countOf('resource'), 0);
});

test('a request that no message can carry is refused, and no process ends', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });
  const nested = '['.repeat(60_000) + ']'.repeat(60_000);

  const refused = await fetch(`${gateway.operationsUrl}/admin/purge`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"read":${nested}}`,
  });

  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /read.* must be an object/);
  assert.equal((await get(gateway.url + path)).status, 200);
});
