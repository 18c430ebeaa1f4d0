/** `GET {basePath}/-/health`: clients learn whether the endpoint serves, over every transport, and nothing of its nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway, type TestGateway, twoTiers } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import type { Told } from '../../support/tls.ts';
import { transports } from '../../support/transports.ts';

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
  const node = await fakeNode(t, { head: 900n });
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
  const node = await fakeNode(t, { head: 900n });
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
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], isOverloaded: () => true });

  const health = await gateway.get('/-/health');
  const read = await gateway.get('/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7');

  assert.deepEqual([health.status, factsOf(health.text)['status'], read.status], [200, 'degraded', 503]);
});

async function statusOf(gateway: TestGateway): Promise<unknown> {
  return factsOf((await gateway.get('/-/health')).text)['status'];
}

test(
  'while requests are refused because Redis cannot count them, the endpoint is degraded',
  { skip: noRedis },
  async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const server = await redisServer(t);
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
  },
);

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
