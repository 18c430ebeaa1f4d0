import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, nodeAndGateway, testGateway, twoTiers, type TestGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { answersIn, exchangeRaw } from '../../support/raw-http.ts';
import { redisAt, redisTest } from '../../support/redis-server.ts';
import type { Told } from '../../support/tls.ts';
import { transports } from '../../support/transports.ts';

/** For tests that change nothing of it. */
const node = await fakeNode({ after }, { head: 900n });

const account = '/accounts/0x1/resource/0x1::account::Account';

test('the metrics have look-ups, windows and lag of each upstream', async (t) => {
  const full = await fakeNode(t, { oldest: 500n, head: 900n });
  const archival = await fakeNode(t, { archival: true, head: 890n });
  const gateway = await testGateway(t, { full: [full], archival: [archival] });

  await gateway.get(`${account}?ledger_version=600`);
  await gateway.get(`${account}?ledger_version=600`);

  const samples = {
    'ledgergate_cache_lookups_total{tier="memory",outcome="hit"}': 1,
    'ledgergate_cache_lookups_total{tier="memory",outcome="miss"}': 1,
    'ledgergate_cache_entries{tier="memory"}': 1,
    'ledgergate_http_requests_total{route="resource",status="200"}': 2,
    'ledgergate_upstream_requests_total{upstream="full-0",status="2xx"}': 1,
    'ledgergate_upstream_oldest_version{upstream="full-0"}': 500,
    'ledgergate_upstream_head_version{upstream="archive-0"}': 890,
    'ledgergate_upstream_lag_versions{upstream="archive-0"}': 10,
    ledgergate_fleet_head_version: 900,
    ledgergate_fleet_oldest_version: 0,
    ledgergate_http_in_flight_requests: 0,
  };
  for (const [sample, value] of Object.entries(samples)) assert.equal(await gateway.metric(sample), value, sample);
});

test('a request leaves the in-flight count when its client hangs up', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  node.fault = { kind: 'hang' };
  const arrived = node.log.next();
  const client = new AbortController();
  const gone = fetch(`${gateway.url}${account}?ledger_version=600`, { signal: client.signal });
  await arrived;

  client.abort();
  await assert.rejects(gone);

  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) === 0);
});

test('liveness and readiness answer on the operations port, without addresses', async (t) => {
  const { gateway } = await nodeAndGateway(t);

  const alive = await fetchReply(`${gateway.operationsUrl}/livez`, { method: 'GET' });
  const ready = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });

  assert.deepEqual([alive.status, ready.status], [200, 200]);
  assert.match(ready.text, /"name":"full-0".*"state":"usable"/);
  assert.doesNotMatch(ready.text, /127\.0\.0\.1/);
});

test('an operator that does not finish a request loses its connection', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  const socket = connect(Number(new URL(gateway.operationsUrl).port), '127.0.0.1');
  t.after(() => socket.destroy());
  let said = '';
  socket.on('data', (chunk) => (said += String(chunk)));

  socket.write('GET /livez HTTP/1.1\r\nHost: localhost\r\n');
  await once(socket, 'close', { signal: AbortSignal.timeout(15_000) });

  assert.match(said, /^HTTP\/1\.1 408 [^]*\r\nDate: /);
  assert.equal((await fetchReply(`${gateway.operationsUrl}/livez`, { method: 'GET' })).status, 200);
});

test('malformed requests to the operations port are refused with a date, behind the answers to those before them', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  const port = Number(new URL(gateway.operationsUrl).port);
  const good = 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const json = 'Content-Type: application/json\r\n';
  const rows = [
    ['Q\r\n\r\n', [400]],
    [`GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ${'y'.repeat(70_000)}\r\n\r\n`, [431]],
    [`${good}Q\r\n\r\n`, [200, 400]],
    [
      `${good}${good}POST /admin/purge HTTP/1.1\r\nHost: localhost\r\n${json}Transfer-Encoding: chunked\r\n\r\nxyz`,
      [200, 200, 400],
    ],
  ] as const;

  for (const [bytes, statuses] of rows) {
    const answers = answersIn(await exchangeRaw(port, bytes));
    assert.deepEqual(
      answers.map(({ status }) => status),
      statuses,
    );
    for (const { head } of answers) assert.match(head, /^Date: \w{3}, .* GMT\r$/im);
  }
});

// One rule for every route of the operations port: a page that uses DNS rebinding reads nothing.

const token = 'a-token-of-the-operators';
const close = 'Connection: close\r\n';

/** Every route, spellings of routes, and targets of none. */
const requests = [
  'GET /livez',
  'GET /readyz',
  'GET /metrics',
  'GET /status',
  'GET /status.json',
  'HEAD /status.json',
  'GET /%73tatus.json',
  'GET /admin/explain?target=/v1',
  'GET /admin/usage',
  'GET /admin/log',
  'PUT /admin/log',
  'POST /admin/purge',
  'GET /nothing',
  'GET /%zz',
  'OPTIONS /metrics',
  'OPTIONS *',
];

async function statusesOf(port: number, heads: readonly string[]): Promise<readonly (readonly number[])[]> {
  return Promise.all(
    heads.map(async (head) => {
      const said = await exchangeRaw(port, `${head}${close}\r\n`);
      return head.startsWith('HEAD') ? [Number(said.slice(9, 12))] : answersIn(said).map(({ status }) => status);
    }),
  );
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

for (const workers of [1, 2]) {
  test(`with ${workers} process(es), no route answers a foreign host; a listed one passes`, async (t) => {
    const full = [await fakeNode(t)];
    const operations = { host: '127.0.0.1', port: 0, token, hosts: ['gateway.example'] };
    const { operationsUrl } =
      workers === 1
        ? await testGateway(t, { full, config: { operations } })
        : await gatewayProcess(t, { full, config: { workers, operations } });
    const port = portOf(operationsUrl);
    const authorised = `Authorization: Bearer ${token}\r\n`;
    const foreign = requests.map((line) => `${line} HTTP/1.1\r\nHost: evil.example:${port}\r\n${authorised}`);
    const double = requests.map((line) => `${line} HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n${authorised}`);
    const absolute = requests
      .filter((line) => line.includes(' /'))
      .map((line) => `${line.replace(' /', ' http://evil.example/')} HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorised}`);

    assert.deepEqual(new Set((await statusesOf(port, foreign)).flat()), new Set([421]));
    assert.deepEqual(new Set((await statusesOf(port, double)).flat()), new Set([400]));
    assert.deepEqual(new Set((await statusesOf(port, absolute)).flat()), new Set([421]));
    const heads = ['GET /livez HTTP/1.1\r\nHost: Gateway.Example:9090\r\n', 'GET /livez HTTP/1.0\r\n'];
    assert.deepEqual((await statusesOf(port, heads)).flat(), [200, 200]);
  });
}

// `GET {basePath}/-/health`: clients learn whether the endpoint serves, over every transport, and nothing of its nodes.

type Facts = Readonly<Record<string, unknown>>;

const path = '/v1/-/health';
const factsOf = (text: string): Facts => JSON.parse(text) as Facts;
const withoutAge = ({ age_ms: _, ...facts }: Facts): Facts => facts;

/** Keys are required, and none is sent. */
const access = accessConfig({ plans: { free: planConfig({ requests: 1 }) } });

function headerOf({ headers }: Told, name: string): string | undefined {
  return headers.find(([known]) => known === name)?.[1];
}

for (const [transport, start] of Object.entries(transports)) {
  test(`clients without a key get the health over ${transport}, and no node is asked`, async (t) => {
    const node = await fakeNode(t, { head: 900n, chainId: 7 });
    const { gateway, ask } = await start(t, { full: [node], access });
    const before = node.requests;

    const answers: Told[] = [];
    for (let round = 0; round < 5; round += 1)
      answers.push(await ask({ path, headers: { origin: 'https://a.example' } }));
    const head = await ask({ path, method: 'HEAD' });
    const posted = await ask({ path, method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } });

    for (const answer of answers) {
      assert.equal(answer.status, 200);
      const facts = factsOf(answer.body.toString());
      const { chain_id, ledger_version, ledger_timestamp, age_ms, status, ...more } = facts;
      assert.deepEqual([status, chain_id, ledger_version, more], ['serving', 7, '900', {}]);
      assert.match(String(ledger_timestamp), /^\d+$/);
      assert.equal(typeof age_ms, 'number');
      assert.equal(headerOf(answer, 'cache-control'), 'no-store');
      assert.equal(headerOf(answer, 'access-control-allow-origin'), 'https://a.example');
      assert.equal(headerOf(answer, 'ratelimit'), undefined);
    }
    assert.deepEqual([head.status, head.body.length], [200, 0]);
    assert.equal(Number(headerOf(head, 'content-length')) > 0, true);
    // A key is required of every other request, also of one that has no route.
    assert.equal(posted.status, 401);
    assert.equal(node.requests, before);
    assert.equal(await gateway.metric('ledgergate_http_requests_total{route="health",status="200"}'), 6);
    assert.equal(await gateway.metric('ledgergate_access_requests_total{plan="free",outcome="local"}'), 0);
  });
}

test('other methods get 405 here, and no node gets them', async (t) => {
  const gateway = await testGateway(t, { full: [node] });
  const before = node.requests;

  const replies = await Promise.all(
    (['POST', 'PUT', 'DELETE'] as const).map((method) => gateway.send(method, '/-/health')),
  );

  assert.deepEqual(
    replies.map(({ status, headers }) => [status, headers['allow']]),
    replies.map(() => [405, 'GET, HEAD']),
  );
  assert.equal(node.requests, before);
});

test('a key that is sent along is neither charged nor checked', async (t) => {
  const key = testKey('a');
  const { path: file } = keysFile(t, [key]);
  const config = { ...access, keys: { file, redis: false } };
  const gateway = await testGateway(t, { full: [node], access: config });
  const authorization = `Bearer ${key.text}`;

  const statuses: number[] = [];
  for (let round = 0; round < 4; round += 1) statuses.push((await gateway.get('/-/health', { authorization })).status);
  statuses.push((await gateway.get('/-/health', { authorization: 'Bearer none' })).status);
  const read = await gateway.get('', { authorization });

  assert.deepEqual(statuses, [200, 200, 200, 200, 200]);
  // The only request of the plan is left.
  assert.deepEqual([read.status, read.headers['ratelimit']?.startsWith('"requests";r=0')], [200, true]);
});

test('an overloaded process answers, and reports that it is degraded', async (t) => {
  const gateway = await testGateway(t, { full: [node], isOverloaded: () => true });

  const health = await gateway.get('/-/health');
  const read = await gateway.get('/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7');

  assert.deepEqual([health.status, factsOf(health.text)['status'], read.status], [200, 'degraded', 503]);
});

async function statusOf(gateway: TestGateway): Promise<unknown> {
  return factsOf((await gateway.get('/-/health')).text)['status'];
}

redisTest('while requests are refused because Redis cannot count them, the endpoint is degraded', async (t, server) => {
  const config = { cache: { memory: { maxBytes: 1e7 }, redis: redisAt(server.url, { ttlMs: 10_000 }) } };
  const plans = { free: planConfig({ requests: 1_000 }) };
  const start = (whenRedisIsDown: 'refuse' | 'local') =>
    testGateway(t, { full: [node], config, access: accessConfig({ anonymous: 'free', plans, whenRedisIsDown }) });
  const [strict, lenient] = [await start('refuse'), await start('local')];
  assert.deepEqual([await statusOf(strict), await statusOf(lenient)], ['serving', 'serving']);

  await server.kill();

  await until(async () => (await strict.get('')).status === 503 && (await statusOf(strict)) === 'degraded');
  assert.equal((await lenient.get('')).status, 200);
  assert.equal(await statusOf(lenient), 'serving');
  await server.start();
  await until(async () => (await statusOf(strict)) === 'serving');
});

test('without the node of a part of the history the endpoint is degraded', async (t) => {
  const { archival, gateway } = await twoTiers(t, { config: { upstream: { probeIntervalMs: 50 } } });
  const status = async () => factsOf((await gateway.get('/-/health')).text)['status'];
  assert.equal(await status(), 'serving');

  await archival.refuse();

  await until(async () => (await status()) === 'degraded');
  assert.equal((await gateway.get('/-/health')).status, 200);
});

test('without any node the endpoint is unavailable: 503, with the head of before and its age', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], config: { upstream: { probeIntervalMs: 50 } } });
  const before = factsOf((await gateway.get('/-/health')).text);

  await node.refuse();

  await until(async () => (await gateway.get('/-/health')).status === 503);
  const [early, late] = [await gateway.get('/-/health'), await olderHealth(gateway)];
  assert.deepEqual(withoutAge(factsOf(late.text)), { ...withoutAge(before), status: 'unavailable' });
  assert.equal(Number(factsOf(late.text)['age_ms']) > Number(factsOf(early.text)['age_ms']), true);
  assert.equal(late.headers['retry-after'], '1');
});

/** The next answer whose age has grown. */
async function olderHealth(gateway: TestGateway) {
  const first = factsOf((await gateway.get('/-/health')).text)['age_ms'];
  await until(async () => factsOf((await gateway.get('/-/health')).text)['age_ms'] !== first);
  return gateway.get('/-/health');
}

test('a gateway that has never got an answer of a node is unavailable', async (t) => {
  const node = await fakeNode(t);
  await node.refuse();
  const gateway = await testGateway(t, { full: [node], config: { upstream: { probeIntervalMs: 50 } } });

  const reply = await gateway.get('/-/health');

  assert.deepEqual([reply.status, factsOf(reply.text)], [503, { status: 'unavailable' }]);
});
