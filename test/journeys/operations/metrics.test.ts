// Metrics of a gateway against the events that the test causes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeVectors } from '../../../src/sample/recorded.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, probe, testGateway, type TestGateway, probeAt } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';
import type { Asked } from '../../support/tls.ts';
import { transports } from '../../support/transports.ts';

const padded = (bytes: number) => `/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}`;

function saved(gateway: TestGateway, how: string): Promise<number> {
  return gateway.metric(`ledgergate_saved_upstream_requests_total{how="${how}"}`);
}

function isFirst({ url }: { readonly url: string }): boolean {
  return url.includes('ledger_version=600');
}

/** All of a histogram's observations, and those at most `le`. */
async function observed(
  gateway: TestGateway,
  name: string,
  le: string,
): Promise<readonly [count: number, below: number]> {
  return [await gateway.metric(`${name}_count`), await gateway.metric(`${name}_bucket{le="${le}"}`)];
}

test('saved requests are those answered without a node', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const path = `${padded(5_000)}?ledger_version=600`;
  const release = node.hold({ when: ({ url }) => url.includes('Padded5000') });

  const arrived = node.log.next(({ url }) => url.includes('Padded5000'));
  const together = [gateway.get(path), gateway.get(path)];
  await arrived;
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) === 2);
  release();
  await Promise.all(together);
  for (let hit = 0; hit < 3; hit += 1) await gateway.get(path);
  // A HEAD has no body, and saves its node the same request; nor has an answer that is there already.
  await gateway.send('HEAD', path);
  const etag = (await gateway.get(path)).headers['etag'] ?? '';
  assert.equal((await gateway.get(path, { 'if-none-match': etag })).status, 304);

  const counts = await Promise.all(['collapsed', 'memory', 'redis', 'local'].map((how) => saved(gateway, how)));
  assert.deepEqual(counts, [1, 6, 0, 0]);
  assert.equal(node.log.countOf('resource'), 1);
});

test('a signing message that is encoded here saves a request; errors and the ledger info save nothing', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const vector = encodeVectors.find(({ name, chainId }) => name === 'coin transfer' && chainId === 1);

  assert.equal((await gateway.post('/transactions/encode_submission', vector?.request ?? '')).status, 200);
  await gateway.post('/transactions/encode_submission', '{');
  await gateway.get('');
  await gateway.get('/nothing/there');

  assert.equal(await gateway.metric('ledgergate_encode_requests_total{outcome="local",reason=""}'), 1);
  assert.equal(await saved(gateway, 'local'), 1);
});

test('a hit in Redis saves a request, and its look-up is timed', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t, { head: 900n });
  const redis = redisAt(server.url, { timeoutMs: 2_000 });
  const config = { cache: { redis } };
  const [first, second] = [
    await testGateway(t, { full: [node], config }),
    await testGateway(t, { full: [node], config }),
  ];
  const path = `${padded(3_000)}?ledger_version=600`;
  await first.get(path);
  await until(async () => (await first.metric('ledgergate_redis_writes_total{outcome="written"}')) === 1);

  await second.get(path);

  assert.equal(await saved(second, 'redis'), 1);
  assert.deepEqual(await observed(second, 'ledgergate_redis_lookup_duration_seconds', '+Inf'), [1, 1]);
  const seconds = await second.metric('ledgergate_redis_lookup_duration_seconds_sum');
  assert.ok(seconds > 0 && seconds < 2, `${seconds} s`);
});

test('staleness is the age of the state that reads of latest share, also of hits', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: 10_000 } } });

  await gateway.get(probe);
  await gateway.get(probe);
  assert.deepEqual(await observed(gateway, 'ledgergate_served_staleness_seconds', '+Inf'), [2, 2]);
  const young = await gateway.metric('ledgergate_served_staleness_seconds_sum');
  await sleep(300);
  await gateway.get(probe);
  await gateway.get('/accounts/0x1?x=1');
  // A read that names its version is of no age.
  await gateway.get(`${probe}?ledger_version=600`);

  const [count, below] = await observed(gateway, 'ledgergate_served_staleness_seconds', '0.25');
  assert.equal(count, 4);
  assert.ok(below <= 2);
  const added = (await gateway.metric('ledgergate_served_staleness_seconds_sum')) - young;
  assert.ok(added >= 0.6 && added < 10, `${added} s`);
});

test('lag is the distance from the version of a read of latest to the head', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: 10_000 } } });
  await gateway.get(probe);
  assert.deepEqual(await observed(gateway, 'ledgergate_served_version_lag_versions', '0.0'), [1, 1]);

  // Another answer reports a new head, which reads of latest need not follow yet.
  node.clock.head = 975n;
  await gateway.get(`${probe}?ledger_version=600`);
  await gateway.get(probe);
  await gateway.get(probe);

  assert.equal(await gateway.metric('ledgergate_fleet_head_version'), 975);
  assert.deepEqual(await observed(gateway, 'ledgergate_served_version_lag_versions', '50.0'), [3, 1]);
  assert.deepEqual(await observed(gateway, 'ledgergate_served_version_lag_versions', '100.0'), [3, 3]);
  assert.equal(await gateway.metric('ledgergate_served_version_lag_versions_sum'), 150);
});

test('with latest.maxStaleness 0 only the lag is observed', async (t) => {
  const { gateway } = await nodeAndGateway(t);

  await gateway.get(probe, { 'ledgergate-max-staleness': '0ms' });

  assert.deepEqual(await observed(gateway, 'ledgergate_served_staleness_seconds', '+Inf'), [0, 0]);
  assert.deepEqual(await observed(gateway, 'ledgergate_served_version_lag_versions', '0.0'), [1, 1]);
});

test('an edge that moves has its speed and a margin; one that stands has none', async (t) => {
  const stalls = watchStalls(t);
  const moving = await fakeNode(t, { oldest: 1_000n, head: 900_000n });
  const standing = await fakeNode(t, { oldest: 1_000n, head: 900_000n });
  const gateway = await testGateway(t, { full: [moving, standing], config: { upstream: { probeIntervalMs: 100 } } });
  const of = (what: string, upstream: number) =>
    gateway.metric(`ledgergate_upstream_edge_${what}{upstream="full-${upstream}"}`);
  assert.equal(await of('speed_versions_per_second', 0), 0);

  const startedMs = performance.now();
  const moves = setInterval(() => {
    moving.clock.oldest = 1_000n + BigInt(Math.round(performance.now() - startedMs) * 10);
  }, 20);
  t.after(() => clearInterval(moves));
  await until(async () => performance.now() - startedMs > 1_500 && (await of('margin_versions', 0)) > 0);

  const speed = await of('speed_versions_per_second', 0);
  stalls.judge(speed > 5_000 && speed < 15_000, `${speed} versions a second`);
  // Within the next tenth of a second it moves by a thousand.
  const margin = await of('margin_versions', 0);
  assert.ok(margin >= speed * 0.04, `${margin} versions`);
  assert.deepEqual([await of('speed_versions_per_second', 1), await of('margin_versions', 1)], [0, 0]);
});

test('only requests that waited for a place are in the histogram of waits', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { upstream: { connections: 1 } } });
  await gateway.get(`${probe}?ledger_version=500`);
  assert.deepEqual(await observed(gateway, 'ledgergate_upstream_queue_wait_seconds', '+Inf'), [0, 0]);
  const release = node.hold({ when: isFirst });

  const arrived = node.log.next(isFirst);
  const first = gateway.get(`${probe}?ledger_version=600`);
  await arrived;
  const second = gateway.get(`${probe}?ledger_version=601`);
  await until(async () => (await gateway.metric('ledgergate_upstream_queue_requests')) === 1);
  await sleep(110);
  release();
  assert.deepEqual([(await first).status, (await second).status], [200, 200]);

  assert.deepEqual(await observed(gateway, 'ledgergate_upstream_queue_wait_seconds', '0.1'), [1, 0]);
});

test('malformed bytes are counted once, a hang-up is not', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)], times: { headMs: 200, checkMs: 50 } });
  const { port } = gateway;
  const sent = async (bytes: string): Promise<void> => {
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.on('error', () => undefined).resume();
    socket.write(bytes);
    await once(socket, 'close');
  };

  await sent('nonsense\r\n\r\n');
  await sent(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(200_000)}\r\n\r\n`);
  await sent('GET / HTTP/1.1\r\nHost: a\r\n');
  const counted = await gateway.metric('ledgergate_http_broken_requests_total');
  const leaving = connect(port, '127.0.0.1');
  await once(leaving, 'connect');
  leaving.write('GET / HT');
  await until(async () => (await gateway.metric('ledgergate_http_connections')) === 1);
  leaving.resetAndDestroy();
  await until(async () => (await gateway.metric('ledgergate_http_connections')) === 0);

  assert.equal(counted, 3);
  assert.equal(await gateway.metric('ledgergate_http_broken_requests_total'), 3);
});

test('before the first request there are the build, the bound of memory, and all series of an upstream at 0', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { cache: { memory: { maxBytes: 12_345_678 } } } });

  const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });

  assert.match(
    text,
    new RegExp(`ledgergate_build_info\\{version="\\d[^"]*",node="${process.version}",dialect="node"\\} 1\n`),
  );
  for (const series of [
    'ledgergate_cache_max_bytes{tier="memory"} 12345678',
    'ledgergate_upstream_failures_total{upstream="full-0",kind="bad answer"} 0',
    'ledgergate_upstream_requests_total{upstream="full-0",status="5xx"} 0',
    'ledgergate_upstream_ejections_total{upstream="full-0",class="view",reason="error share"} 0',
    'ledgergate_http_requests_total{route="resource",status="503"} 0',
    'ledgergate_audits_total{result="disagreement"} 0',
    'ledgergate_encode_checks_total{result="mismatch"} 0',
    'ledgergate_retries_total{outcome="refused"} 0',
    'ledgergate_log_lines_total{level="error"} 0',
  ]) {
    assert.ok(text.includes(`\n${series}\n`), series);
  }
});

// Bytes of answers by route and outcome are those that clients received, whatever they came over.

const name = 'ledgergate_http_response_bytes_total';

/** The series of the family, by route and outcome. */
async function counted({ operationsUrl }: TestGateway): Promise<Readonly<Record<string, number>>> {
  const { text } = await fetchReply(`${operationsUrl}/metrics`, { method: 'GET' });
  const series = text.matchAll(new RegExp(`^${name}\\{route="(\\w+)",outcome="(\\w+)"\\} (\\d+)$`, 'gm'));
  return Object.fromEntries([...series].map(([, route, outcome, bytes]) => [`${route} ${outcome}`, Number(bytes)]));
}

const paddedAt = (bytes: number) =>
  `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}?ledger_version=600`;
const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: ['0x1'] });
const posted = { method: 'POST', headers: { 'content-type': 'application/json' } };
const gzip = { 'accept-encoding': 'gzip' };

/** Requests by route and outcome; each has a body of its own, or none. */
const asked: readonly (readonly [series: string, request: Asked])[] = [
  ['resource miss', { path: paddedAt(5_000) }],
  ['resource memory', { path: paddedAt(5_000) }],
  ['resource memory', { path: paddedAt(5_000) }],
  ['resource memory', { path: paddedAt(5_000), headers: gzip }],
  ['resource memory', { path: paddedAt(5_000), headers: gzip }],
  ['resource memory', { path: paddedAt(5_000), method: 'HEAD' }],
  ['resource memory', { path: paddedAt(5_000), headers: { 'if-none-match': '*' } }],
  ['resource miss', { path: paddedAt(200_000) }],
  ['resource memory', { path: paddedAt(200_000) }],
  ['resource refused', { path: `/v1${probeAt(7)}x` }],
  ['view miss', { path: '/v1/view?ledger_version=600', ...posted, body: view }],
  ['view memory', { path: '/v1/view?ledger_version=600', ...posted, body: view }],
  ['ledger_info local', { path: '/v1' }],
  ['ledger_info local', { path: '/v1', method: 'HEAD' }],
  ['account passed', { path: '/v1/accounts/0x1?x=1' }],
  ['account passed', { path: '/v1/accounts/0x1?x=1', method: 'HEAD' }],
  ['none refused', { path: '/elsewhere' }],
];

for (const [transport, start] of Object.entries(transports)) {
  test(`bytes of bodies are counted as clients receive them, over ${transport}`, async (t) => {
    const { gateway, ask } = await start(t, { full: [await fakeNode(t, { head: 900n })] });

    const received: Record<string, number> = {};
    const lengths: number[] = [];
    for (const [series, request] of asked) {
      const { body } = await ask(request);
      received[series] = (received[series] ?? 0) + body.length;
      lengths.push(body.length);
    }

    assert.deepEqual(await counted(gateway), received);
    const [miss = 0, hit = 0, , coded = 0, , head, unchanged] = lengths;
    assert.deepEqual([hit === miss, coded > 0 && coded < hit, head, unchanged], [true, true, 0, 0]);
  });
}

test('of a streamed answer that its client cuts off, the bytes that were sent are counted', async (t) => {
  const piece = Buffer.alloc(10_000, ' ');
  const server = createServer((request, response) => {
    const isPassed = request.url?.includes('x=1') === true;
    response.writeHead(200, { ...ledgerHeaders({ version: 900n }), 'content-type': 'application/json' });
    if (isPassed) response.write(piece);
    else response.end('{}');
  });
  const url = `http://127.0.0.1:${await listen(t, server)}/v1`;
  const gateway = await testGateway(t, { full: [{ url }] });

  const [response] = (await once(get(`${gateway.url}/accounts/0x1?x=1`, { agent: false }), 'response')) as [
    IncomingMessage,
  ];
  let bytes = 0;
  for await (const part of response) {
    bytes += (part as Buffer).length;
    if (bytes === piece.length) break;
  }

  await until(async () => (await counted(gateway))['account passed'] === piece.length);
});
