import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { configFile } from '../../config/config-file.ts';
import { start } from '../../commands/command-line.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { listen } from '../../support/listen.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

const at = (version: number, struct = 'Probe'): string =>
  `/accounts/0x1/resource/0x1::ledgergate_sample::${struct}?ledger_version=${version}`;

function isRead({ url }: { readonly url: string }): boolean {
  return url.includes('/resource/');
}

/** Persistent connections, one for each client. */
function keptConnections(t: TestContext, count: number): readonly Agent[] {
  const agents = Array.from({ length: count }, () => new Agent({ connections: 1, pipelining: 1 }));
  t.after(() => Promise.all(agents.map((agent) => agent.destroy())));
  return agents;
}

async function statusOver(dispatcher: Agent, url: string): Promise<number | 'cut'> {
  try {
    const { statusCode, body } = await send(url, { dispatcher });
    await body.dump();
    return statusCode;
  } catch {
    return 'cut';
  }
}

test('workers get the connections of one port in turn, and the metrics are of all', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });
  for (let count = 0; count < 10; count += 1) assert.equal((await get(gateway.url + at(600))).status, 200);

  // Each worker has a memory of its own.
  assert.equal(gateway.workers().length, 2);
  assert.equal(node.log.readCount, 2);
  assert.equal(await metric(gateway, 'ledgergate_http_requests_total{route="resource",status="200"}'), 10);
  assert.equal(await metric(gateway, 'ledgergate_cache_lookups_total{tier="memory",outcome="hit"}'), 8);
  assert.equal(await metric(gateway, 'ledgergate_cache_entries{tier="memory"}'), 2);
  assert.equal(await metric(gateway, 'ledgergate_fleet_head_version'), 900);
  assert.equal(await metric(gateway, 'ledgergate_upstream_usable{upstream="full-0"}'), 1);
  assert.equal(await metric(gateway, 'ledgergate_workers'), 2);
  assert.ok((await metric(gateway, 'process_start_time_seconds')) !== undefined);
});

test('the metrics of all workers pass promtool', { skip: !hasPromtool }, async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });
  for (let count = 0; count < 4; count += 1) await get(gateway.url + at(600 + count));

  const { text } = await get(`${gateway.operationsUrl}/metrics`);
  const checked = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });

  assert.deepEqual([checked.status, checked.stderr], [0, '']);
});

test('readiness reports how many workers count a node as usable', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });

  const { status, text } = await get(`${gateway.operationsUrl}/readyz`);
  const reports = JSON.parse(text) as { readonly upstreams: readonly object[]; readonly workers: object };

  assert.equal(status, 200);
  assert.deepEqual(reports.workers, { wanted: 2, answering: 2, ready: 2 });
  assert.partialDeepStrictEqual(reports.upstreams, [{ name: 'full-0', state: 'usable', head: '900', usableBy: 2 }]);
});

test('a killed worker loses its own connections and is replaced; its counts stay', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, log: { level: 'silent' } } });
  const connections = keptConnections(t, 8);
  const url = gateway.url + at(600);
  const ask = () => Promise.all(connections.map((connection) => statusOver(connection, url)));
  // Opened one after another, they are handed out in turn.
  for (const connection of connections) assert.equal(await statusOver(connection, url), 200);
  const counted = 'ledgergate_http_requests_total{route="resource",status="200"}';
  assert.equal(await metric(gateway, counted), 8);
  const [victim = noWorker()] = gateway.workers();

  // Before the next request: four of the connections belong to the other worker, and none of those may fail.
  const rounds: (readonly (number | 'cut')[])[] = [];
  process.kill(victim, 'SIGKILL');
  for (let round = 0; round < 20; round += 1) rounds.push(await ask());
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);

  const faultless = connections.filter((_, index) => rounds.every((round) => round[index] === 200));
  assert.ok(faultless.length >= 4, `${faultless.length}`);
  assert.equal(await metric(gateway, 'ledgergate_worker_restarts_total'), 1);
  assert.ok(((await metric(gateway, counted)) ?? 0) >= 8 + 20 * 4);
  assert.equal(gateway.workers().length, 2);
  assert.ok(!gateway.workers().includes(victim));
  assert.deepEqual(new Set(await ask()), new Set([200]));
});

test('an unacknowledged connection of a killed worker is closed', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, log: { level: 'silent' } } });
  const [victim = noWorker()] = gateway.workers();
  process.kill(victim, 'SIGSTOP');
  const connections = keptConnections(t, 6);
  const outcomes = connections.map((connection) => statusOver(connection, gateway.url + at(600)));
  // It acknowledges none, so after one connection the other worker gets all.
  const answered = new Set<number>();
  for (const [index, outcome] of outcomes.entries()) void outcome.then(() => answered.add(index));
  await until(() => Promise.resolve(answered.size === connections.length - 1));

  process.kill(victim, 'SIGKILL');

  const statuses = await Promise.all(outcomes);
  assert.equal(statuses.filter((status) => status === 'cut').length, 1);
  assert.equal(statuses.filter((status) => status === 200).length, 5);
});

test('workers that are all killed at once are replaced on the same port', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, log: { level: 'silent' } } });

  for (const worker of gateway.workers()) process.kill(worker, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === 2);
  const notReady = await get(`${gateway.operationsUrl}/readyz`);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);

  assert.equal(notReady.status, 503);
  for (let count = 0; count < 4; count += 1) assert.equal((await get(gateway.url + at(600))).status, 200);
});

test('all workers drain when the whole group gets a signal', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: released }, { when: isRead });
  const replies = [];
  for (const version of [600, 601]) {
    const arrived = node.log.next(isRead);
    replies.push(get(gateway.url + at(version)));
    await arrived;
  }

  // Like a terminal's Ctrl-C.
  for (const worker of gateway.workers()) process.kill(worker, 'SIGINT');
  const ended = gateway.stop();
  await gateway.line(/^Stopping/);
  const readiness = await get(`${gateway.operationsUrl}/readyz`);
  release();

  const answers = await Promise.all(replies);
  assert.equal(readiness.status, 503);
  assert.equal((JSON.parse(readiness.text) as { status: string }).status, 'draining');
  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers['connection']]),
    [
      [200, 'close'],
      [200, 'close'],
    ],
  );
  assert.equal(await ended, 0);
});

test('workers do not outlive their primary', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });
  const workers = gateway.workers();

  await gateway.kill();

  assert.equal(workers.length, 2);
  await until(() => Promise.resolve(!workers.some(isAlive)));
});

test('all workers together share the memory of the cache', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const config = { workers: 2, cache: { memory: { maxBytes: '2MiB' } } };
  const gateway = await gatewayProcess(t, { full: [node], config });

  for (let size = 60_000; size < 60_080; size += 1) {
    assert.equal((await get(gateway.url + at(600, `Padded${size}`))).status, 200);
  }

  const held = (await metric(gateway, 'ledgergate_cache_bytes{tier="memory"}')) ?? 0;
  assert.ok(held > 2 ** 20 && held <= 2 * 2 ** 20, `${held} bytes`);
});

test('a port in use is one line and exit code 2, with workers too', async (t) => {
  const node = await fakeNode(t, {});
  const port = await listen(t, createServer());
  const file = configFile(t, `workers: 2\nlog: { level: silent }\nupstreams: [{ name: a, url: "${node.url}" }]\n`);

  const args = ['--host', '127.0.0.1', '--port', String(port), '--operations-port', '0'];
  const { code, err } = await start(t, ['serve', '--config', file, ...args]).ended;

  assert.equal(code, 2);
  assert.match(err, new RegExp(`^--port: listen.port: port ${port} of 127.0.0.1 is in use by another process.*\n$`));
});
