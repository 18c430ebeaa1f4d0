// What one worker learns and all have to know, over real processes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { Agent, request as send } from 'undici';
import { moduleText, moduleTexts, readGroup } from '../encode/vectors.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { fetchReply } from '../support/gateway.ts';
import { gatewayProcess } from '../support/gateway-process.ts';
import { ledgerHeaders } from '../support/ledger-info.ts';
import { watchStalls } from '../support/stalls.ts';
import { submission } from '../support/submission.ts';
import { vectorNode } from '../support/vector-node.ts';
import { get, isAlive, metric, noWorker } from '../support/workers.ts';

const json = { 'content-type': 'application/json' };
const post = (url: string, body: string) => fetchReply(url, { method: 'POST', headers: json, body });

test('a quiet node is probed by one worker for all, and by another when that one dies', async (t) => {
  const stalls = watchStalls(t);
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
  const [first = noWorker()] = gateway.workers();
  process.kill(first, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 3);
  node.clock.advance(50n);
  await until(async () => (await metric(gateway, 'ledgergate_fleet_head_version')) === 1000);

  stalls.judge(inOneSecond >= 5 && inOneSecond <= 13, `${inOneSecond} probes`);
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

test('a worker that was stuck tells nothing older than the others have told meanwhile', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = { workers: 2, upstream: { probeInterval: '100ms' }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const agents = Array.from({ length: 4 }, () => new Agent({ connections: 1 }));
  t.after(() => Promise.all(agents.map((agent) => agent.destroy())));
  const told = async (connection: number): Promise<bigint> => {
    const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=600';
    const { headers, body } = await send(gateway.url + path, { dispatcher: agents[connection]! });
    await body.dump();
    return BigInt(String(headers['x-node-ledger-version']));
  };
  // Opened one after the other: the even ones are of one worker, the odd ones of the other.
  for (const connection of agents.keys()) assert.equal(await told(connection), 900n);

  const [stuck = noWorker()] = gateway.workers();
  process.kill(stuck, 'SIGSTOP');
  t.after(() => isAlive(stuck) && process.kill(stuck, 'SIGCONT'));
  const first = await Promise.race([told(0).then(() => 0), told(1).then(() => 1)]);
  node.clock.advance(50n);
  await until(async () => (await told(first)) === 950n);
  // Asked now, and read by the worker before anything it has missed.
  const asked = told(3 - first);
  await sleep(50);
  process.kill(stuck, 'SIGCONT');

  assert.equal(await asked, 950n);
});

test('a ledger that is another one is followed by all workers', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = { workers: 2, upstream: { probeInterval: '100ms' }, log: { level: 'silent' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const told = async () => (await get(gateway.url)).headers['x-node-ledger-version'];
  assert.deepEqual([await told(), await told()], ['900', '900']);

  node.clock.head = 500n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await until(async () => (await told()) === '500');
  // Connections go to each in turn.
  const afterwards = [await told(), await told(), await told(), await told()];

  assert.deepEqual(new Set(afterwards), new Set(['500']));
});

test('a list of transactions from near the head is not ahead of the ledger headers beside it', async (t) => {
  let head = 900n;
  const server = createServer((request, response) => {
    const start = /start=(\d+)/.exec(request.url ?? '')?.[1];
    const list = Array.from({ length: 10 }, (_, at) => ({ version: String(BigInt(start ?? '0') + BigInt(at)) }));
    const headers = { ...ledgerHeaders({ version: head }), 'content-type': 'application/json' };
    response.writeHead(200, headers).end(start === undefined ? '{}' : JSON.stringify(list));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const gateway = await gatewayProcess(t, {
    full: [{ url }],
    config: { workers: 2, upstream: { probeInterval: '1h' } },
  });

  for (let round = 0; round < 20; round += 1) {
    head += 5n;
    const { status, text, headers } = await get(`${gateway.url}/transactions?start=${head - 9n}`);
    const last = (JSON.parse(text) as { version: string }[]).at(-1)?.version;
    assert.deepEqual([status, last], [200, String(head)]);
    assert.ok(BigInt(headers['x-node-ledger-version'] ?? -1) >= head, `round ${round}`);
  }
});
