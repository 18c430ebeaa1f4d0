// Two workers on one port: what they share, what the operations port makes of both, and how they end.
import assert from 'node:assert/strict';
import { createServer, connect, type Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { configFile } from '../../config/config-file.ts';
import { start } from '../../commands/command-line.ts';
import { askPurge, purge } from '../../support/admin.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { type LogLine, probeAt } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { kindsOf, statusWhen } from '../../support/status.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';

const nodes = [await fakeNode({ after }, { head: 900n }), await fakeNode({ after }, { head: 900n })] as const;
/** For all tests but the last, which use it one after the other. */
const gateway = await gatewayProcess(
  { after },
  {
    full: nodes,
    config: {
      workers: 2,
      cache: { memory: { maxBytes: '2MiB' } },
      upstream: { hedge: false, audit: 0, probeInterval: '500ms' },
    },
  },
);

const reads = (): number => nodes[0].log.countOf('resource') + nodes[1].log.countOf('resource');
const restarts = async (): Promise<number> => (await metric(gateway, 'ledgergate_worker_restarts_total')) ?? 0;
const untilBoth = () => until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);

/** A status with both workers: a busy machine may leave out one that answers late. */
const merged = () =>
  statusWhen(gateway, ({ workers, nodes: [node] }) => workers?.answering === 2 && node?.usableBy === 2);

/** So many reads in a row: connections are handed out in turn. */
async function readTimes(times: number, path: string): Promise<void> {
  for (let count = 0; count < times; count += 1) assert.equal((await get(gateway.url + path)).status, 200);
}

/** Reads that no worker has in memory, of 20 versions. */
async function readAll(from: number): Promise<void> {
  for (let at = from; at < from + 20; at += 1) await readTimes(1, probeAt(at));
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

test('workers get the connections of one port in turn, and the metrics are of all', async () => {
  await readTimes(10, probeAt(600));

  // Each worker has a memory of its own.
  assert.equal(gateway.workers().length, 2);
  assert.equal(reads(), 2);
  assert.equal(await metric(gateway, 'ledgergate_http_requests_total{route="resource",status="200"}'), 10);
  assert.equal(await metric(gateway, 'ledgergate_cache_lookups_total{tier="memory",outcome="hit"}'), 8);
  assert.equal(await metric(gateway, 'ledgergate_cache_entries{tier="memory"}'), 2);
  assert.equal(await metric(gateway, 'ledgergate_fleet_head_version'), 900);
  assert.equal(await metric(gateway, 'ledgergate_upstream_usable{upstream="full-0"}'), 1);
  assert.equal(await metric(gateway, 'ledgergate_workers'), 2);
  assert.ok((await metric(gateway, 'process_start_time_seconds')) !== undefined);
});

test('readiness reports how many workers count a node as usable', async () => {
  const { status, text } = await get(`${gateway.operationsUrl}/readyz`);
  const reports = JSON.parse(text) as { readonly upstreams: readonly object[]; readonly workers: object };

  assert.equal(status, 200);
  assert.deepEqual(reports.workers, { wanted: 2, answering: 2, ready: 2 });
  assert.partialDeepStrictEqual(reports.upstreams[0], { name: 'full-0', state: 'usable', head: '900', usableBy: 2 });
});

test('each worker reports the health; neither body nor head has an address or a name of a node', async () => {
  for (let round = 0; round < 4; round += 1) {
    const { status, headers, text } = await get(`${gateway.url}/-/health`);
    assert.deepEqual([status, (JSON.parse(text) as { status: string }).status], [200, 'serving']);
    const all = text + JSON.stringify(headers);
    for (const secret of ['full-', ...nodes.map(({ url }) => new URL(url).host)])
      assert.equal(all.includes(secret), false);
  }
});

test('all workers together share the memory of the cache', async () => {
  for (let size = 60_000; size < 60_080; size += 1) await readTimes(1, probeAt(600).replace('Probe', `Padded${size}`));

  const held = (await metric(gateway, 'ledgergate_cache_bytes{tier="memory"}')) ?? 0;
  assert.ok(held > 2 ** 20 && held <= 2 * 2 ** 20, `${held} bytes`);
});

test('a purge reaches the memory of every worker', async () => {
  const before = reads();
  await readTimes(4, probeAt(601));
  assert.equal(reads(), before + 2);

  const { complete, memory } = await purge(gateway, { read: { target: `/v1${probeAt(601)}` } });

  assert.deepEqual([complete, memory], [true, 2]);
  await readTimes(4, probeAt(601));
  assert.equal(reads(), before + 4);
});

test('one worker explains a request', async () => {
  const before = reads();
  const explain = `${gateway.operationsUrl}/admin/explain`;
  const answer = await get(`${explain}?target=${encodeURIComponent(`/v1${probeAt(602)}`)}`);

  assert.equal(answer.status, 200);
  assert.match(answer.text, /"version": "602"/);
  assert.equal((await get(explain)).status, 400);
  assert.equal(reads(), before);
});

test('a request that no message can carry is refused, and no process ends', async () => {
  const nested = '['.repeat(60_000) + ']'.repeat(60_000);

  const refused = await askPurge(gateway, `{"read":${nested}}`);

  assert.equal(refused.status, 400);
  assert.match(refused.text, /read.* must be an object/);
  await readTimes(2, probeAt(600));
  assert.equal(await restarts(), 0);
});

test('the status page merges all workers', async () => {
  const before = await merged();
  await readTimes(6, probeAt(600));
  const status = await merged();

  assert.equal(status.workers?.wanted, 2);
  assert.equal(status.windows[2]?.requests, (before.windows[2]?.requests ?? 0) + 6);
  const found = status.events.filter(({ kind, fields }) => kind === 'node usable' && fields['upstream'] === 'full-0');
  // A worker may have the event from its peer alone.
  const finders = found.reduce((sum, { workers = 1 }) => sum + workers, 0);
  assert.ok(finders >= 1 && finders <= 2, String(finders));
});

test('a killed worker loses its own connections and is replaced; its counts stay, and the page reports it', async (t) => {
  const connections = keptConnections(t, 8);
  const url = gateway.url + probeAt(600);
  const ask = () => Promise.all(connections.map((connection) => statusOver(connection, url)));
  // Opened one after another, they are handed out in turn.
  for (const connection of connections) assert.equal(await statusOver(connection, url), 200);
  const counted = 'ledgergate_http_requests_total{route="resource",status="200"}';
  const before = (await metric(gateway, counted)) ?? 0;
  const [victim = noWorker()] = gateway.workers();

  // Before the next request: four of the connections belong to the other worker, and none of those may fail.
  const rounds: (readonly (number | 'cut')[])[] = [];
  process.kill(victim, 'SIGKILL');
  for (let round = 0; round < 20; round += 1) rounds.push(await ask());
  const status = await statusWhen(
    gateway,
    (facts) => kindsOf(facts).includes('worker back') && facts.workers?.answering === 2,
  );

  const faultless = connections.filter((_, index) => rounds.every((round) => round[index] === 200));
  assert.ok(faultless.length >= 4, `${faultless.length}`);
  assert.equal(await restarts(), 1);
  assert.ok(((await metric(gateway, counted)) ?? 0) >= before + 20 * 4);
  assert.equal(gateway.workers().length, 2);
  assert.ok(!gateway.workers().includes(victim));
  assert.deepEqual(new Set(await ask()), new Set([200]));
  assert.deepEqual(
    kindsOf(status).filter((kind) => kind.startsWith('worker')),
    ['worker back', 'worker lost'],
  );
});

test('workers that are all killed at once are replaced on the same port, and know which node is drained', async () => {
  const [drained, other] = nodes;
  const post = async (action: string, name = 'full-0') => {
    const reply = await fetch(`${gateway.operationsUrl}/admin/upstreams/${name}/${action}`, { method: 'POST' });
    return [reply.status, await reply.json()];
  };
  const before = drained.log.countOf('resource');

  assert.deepEqual(await post('drain'), [200, { upstream: 'full-0', isDrained: true, inFlight: 0 }]);
  await readAll(100);
  for (const worker of gateway.workers()) process.kill(worker, 'SIGKILL');
  await until(async () => (await restarts()) === 3);
  const notReady = await get(`${gateway.operationsUrl}/readyz`);
  await until(async () => (await get(`${gateway.operationsUrl}/readyz`)).text.includes('"ready":2'));
  await readAll(200);

  assert.equal(notReady.status, 503);
  assert.equal(drained.log.countOf('resource'), before);
  assert.deepEqual(await post('resume'), [200, { upstream: 'full-0', isDrained: false, inFlight: 0 }]);
  await post('drain', 'full-1');
  const asked = other.log.countOf('resource');
  await readAll(300);
  assert.equal(other.log.countOf('resource'), asked);
  await post('resume', 'full-1');
  assert.equal((await post('drain', 'full-9'))[0], 404);
});

function connection(t: TestContext): Socket {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
  t.after(() => socket.destroy());
  return socket.on('error', () => undefined);
}

test('a hung worker is killed and replaced, and its connections close, unacknowledged ones included', async (t) => {
  const before = await restarts();
  const [stuck = noWorker()] = gateway.workers();
  process.kill(stuck, 'SIGSTOP');
  t.after(() => isAlive(stuck) && process.kill(stuck, 'SIGKILL'));

  // It gets one of two connections, and does not acknowledge it.
  const answers = [connection(t), connection(t)].map(
    (socket) =>
      new Promise<string>((resolve) => {
        socket.on('close', () => resolve('closed'));
        socket.on('data', (data) => resolve(String(data).slice(0, 12)));
        socket.write(`GET /v1${probeAt(600)} HTTP/1.1\r\nHost: gateway\r\n\r\n`);
      }),
  );
  const [how] = await Promise.all([gateway.line(/a worker exited.*no answer|no answer.*a worker exited/), ...answers]);

  assert.match(how.input, /no answer for 10 s/);
  assert.deepEqual(new Set(await Promise.all(answers)), new Set(['closed', 'HTTP/1.1 200']));
  await untilBoth();
  assert.equal(await metric(gateway, 'ledgergate_worker_hangs_total'), 1);
  assert.equal(await restarts(), before + 1);
  assert.ok(!gateway.workers().includes(stuck));
  await readTimes(4, probeAt(600));
});

test('an outage that each worker finds is one of the gateway', async () => {
  for (const node of nodes) await node.refuse();
  const { events } = await statusWhen(gateway, ({ state }) => state === 'outage');
  for (const node of nodes) await node.accept();
  await until(async () => (await get(`${gateway.operationsUrl}/readyz`)).text.includes('"ready":2'));

  const down = events.filter(({ kind, fields }) => kind === 'node down' && fields['upstream'] === 'full-0');
  const finders = down.reduce((sum, { workers = 1 }) => sum + workers, 0);
  assert.ok(finders >= 1 && finders <= 2, String(finders));
});

function isRead({ url }: { readonly url: string }): boolean {
  return url.includes('/resource/');
}

test('all workers drain when the whole group gets a signal, and the primary alone wrote the audit log', async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  for (const node of nodes) node.faults.add({ kind: 'hold', until: released }, { when: isRead });
  const replies = [];
  for (const version of [800, 801]) {
    const arrived = Promise.race(nodes.map((node) => node.log.next(isRead)));
    replies.push(get(gateway.url + probeAt(version)));
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
  const lines = gateway.err().trim().split('\n');
  const audited = lines.map((line) => JSON.parse(line) as LogLine).filter(({ msg }) => msg === 'audit');
  assert.deepEqual(
    audited.map(({ action, status }) => `${String(action)} ${String(status)}`),
    ['purge 200', 'purge 400', 'drain 200', 'resume 200', 'drain 200', 'resume 200', 'drain 404'],
  );
  for (const { level, operator, pid } of audited)
    assert.deepEqual([level, operator, pid], [35, 'loopback', gateway.pid]);
});

test('a port in use is one line and exit code 2, with workers too', async (t) => {
  const port = await listen(t, createServer());
  const file = configFile(t, `workers: 2\nlog: { level: silent }\nupstreams: [{ name: a, url: "${nodes[0].url}" }]\n`);

  const args = ['--host', '127.0.0.1', '--port', String(port), '--operations-port', '0'];
  const { code, err } = await start(t, ['serve', '--config', file, ...args]).ended;

  assert.equal(code, 2);
  assert.match(err, new RegExp(`^--port: listen.port: port ${port} of 127.0.0.1 is in use by another process.*\n$`));
});
