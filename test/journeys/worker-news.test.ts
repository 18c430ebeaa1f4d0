// What one worker learns and all have to know, over real processes.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { moduleText, moduleTexts, readGroup } from '../encode/vectors.ts';
import { fakeNode } from '../support/fake-node.ts';
import { fetchReply } from '../support/gateway.ts';
import { gatewayProcess } from '../support/gateway-process.ts';
import { submission } from '../support/submission.ts';
import { vectorNode } from '../support/vector-node.ts';
import { get, metric, until } from '../support/workers.ts';

const json = { 'content-type': 'application/json' };
const post = (url: string, body: string) => fetchReply(url, { method: 'POST', headers: json, body });

test('a quiet node is probed by one worker for all, and by another when that one dies', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = { workers: 3, upstream: { probeInterval: '100ms' }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const probes = (): number => node.log.countOf('ledgerInfo');
  const heads = async (): Promise<string> => (await get(`${gateway.operationsUrl}/readyz`)).text;
  await sleep(500);

  const before = probes();
  await sleep(1_000);
  const inOneSecond = probes() - before;
  node.clock.advance(50n);
  await until(async () => (await metric(gateway, 'ledgergate_fleet_head_version')) === 950);
  const [first = 0] = gateway.workers();
  process.kill(first, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 3);
  node.clock.advance(50n);
  await until(async () => (await metric(gateway, 'ledgergate_fleet_head_version')) === 1000);

  assert.ok(inOneSecond >= 5 && inOneSecond <= 13, `${inOneSecond} probes`);
  assert.match(await heads(), /"usableBy":3/);
});

test('whichever worker is asked for a submitted transaction, the node that took it is asked first', async (t) => {
  // The archival node is ahead, so it takes submissions; who does not know that asks the full node first.
  const full = await fakeNode(t, { head: 900n });
  const archival = await fakeNode(t, { archival: true, head: 950n });
  const upstreams = [
    { name: 'full', url: full.url },
    { name: 'archive', url: archival.url, tier: 'archival' },
  ];
  const gateway = await gatewayProcess(t, { full: [], config: { workers: 3, upstreams } });

  for (let sequenceNumber = 0; sequenceNumber < 6; sequenceNumber += 1) {
    const { status, text } = await post(`${gateway.url}/transactions`, submission({ sequenceNumber }));
    assert.equal(status, 202);
    const { hash } = JSON.parse(text) as { hash: string };
    for (let ask = 0; ask < 3; ask += 1) {
      assert.equal((await get(`${gateway.url}/transactions/by_hash/${hash}`)).status, 200);
    }
  }

  assert.deepEqual([full.log.readCount, archival.log.readCount], [0, 6 * 4]);
});

test('a function that one worker found to differ is left to nodes by all, and by a worker that starts later', async (t) => {
  const vector = readGroup('13-framework.json').find(({ name }) => name === 'coin transfer');
  assert.ok(vector?.expected_hex !== undefined);
  const node = await vectorNode(t, vector.chain_id);
  for (const text of [...moduleTexts, moduleText(vector.abi)]) node.publish(text);
  const otherBytes = JSON.stringify(`${vector.expected_hex.slice(0, -2)}ff`);
  node.encode = () => ({ status: 200, body: otherBytes });
  const config = { workers: 2, encode: { shadow: 1 }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const ask = async () =>
    (await post(`${gateway.url}/transactions/encode_submission`, JSON.stringify(vector.request))).text;

  const first = await ask();
  await until(async () => (await metric(gateway, 'ledgergate_encode_checks_total{result="mismatch"}')) === 1);
  const later = [await ask(), await ask(), await ask(), await ask()];
  for (const worker of gateway.workers()) process.kill(worker, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === 2);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
  const afterwards = [await ask(), await ask()];

  assert.equal(first, JSON.stringify(vector.expected_hex));
  assert.deepEqual(new Set([...later, ...afterwards]), new Set([otherBytes]));
});
