/** `GET {basePath}/-/usage`: a key's holder sees its plan, what is left, and its use; nobody else does, and it costs nothing. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  nodeAndGateway,
  probeAt,
  type Reply,
  testGateway,
  type TestGateway,
} from '../../support/gateway.ts';
import { jwtConfig, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { transports } from '../../support/transports.ts';

interface Amounts {
  readonly requests: number;
  readonly bytes: number;
  readonly cost: number;
}

interface Period extends Amounts {
  readonly period: string;
  readonly outcomes: Readonly<Record<string, Amounts>>;
}

/** The answer, as docs/openapi.yaml has it. */
interface View {
  readonly key: string;
  readonly tenant: string;
  readonly plan: string;
  readonly limits: readonly { readonly name: string; readonly limit: number; readonly remaining: number }[] | null;
  readonly quota: readonly { readonly name: string; readonly remaining: number; readonly resets_at: string }[] | null;
  readonly usage: { readonly day: Period; readonly month: Period; readonly last_month: Period } | null;
  readonly complete: boolean;
}

const path = '/v1/-/usage';
const at = (address: string) => ({ ...bearer(mine), 'x-forwarded-for': address });
const bearer = ({ text }: TestKey) => ({ authorization: `Bearer ${text}` });
const viewOf = (text: string): View => JSON.parse(text) as View;

const mine = testKey('wallet-a', { tenant: 'acme' });
const sister = testKey('wallet-b', { tenant: 'acme' });
const foreign = testKey('other-key', { tenant: 'umbrella', plan: 'gold' });
const plans = {
  free: planConfig({ requests: 100, windowMs: 3_600_000, quota: { day: 50, month: 500, unit: 'requests' } }),
  gold: planConfig(),
};

function accessOf(t: TestContext, more: Parameters<typeof accessConfig>[0] = {}) {
  const { path: file } = keysFile(t, [mine, sister, foreign]);
  return accessConfig({ keys: { file, redis: false }, plans, ...more });
}

/** The operators' report waits until the process has reported its use, which it does every 5 s. */
async function reported({ operationsUrl }: Pick<TestGateway, 'operationsUrl'>): Promise<void> {
  assert.equal((await fetchReply(`${operationsUrl}/admin/usage`, { method: 'GET' })).status, 200);
}

for (const [transport, start] of Object.entries(transports)) {
  test(`a holder sees plan, limits, quota and use over ${transport}, and no node is asked`, async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const { gateway, ask } = await start(t, { full: [node], access: accessOf(t) });
    const target = `/v1${probeAt(500)}`;
    const reads = [];
    for (let count = 0; count < 3; count += 1) reads.push(await ask({ path: target, headers: bearer(mine) }));
    const before = node.requests;

    await reported(gateway);
    for (let count = 0; count < 4; count += 1) await ask({ path, headers: bearer(mine) });
    const answer = await ask({ path, headers: bearer(mine) });

    const { key, tenant, plan, limits, quota, usage, complete } = viewOf(answer.body.toString());
    assert.deepEqual([answer.status, key, tenant, plan, complete], [200, 'wallet-a', 'acme', 'free', true]);
    // Three reads, however often the holder has looked.
    assert.deepEqual(
      limits?.map(({ name, limit, remaining }) => [name, limit, remaining]),
      [['requests', 100, 97]],
    );
    assert.deepEqual(
      quota?.map(({ name, remaining }) => [name, remaining]),
      [
        ['day', 47],
        ['month', 497],
      ],
    );
    const bytes = reads[0]?.body.length ?? 0;
    assert.deepEqual(
      [usage?.day, usage?.month].map((of) => [of?.requests, of?.bytes, of?.outcomes['hit']?.requests]),
      [
        [3, 3 * bytes, 2],
        [3, 3 * bytes, 2],
      ],
    );
    assert.deepEqual([usage?.day.outcomes['miss']?.requests, usage?.last_month.requests], [1, 0]);
    assert.equal(node.requests, before);
    assert.deepEqual(
      ['cache-control', 'ratelimit'].map((name) => answer.headers.find(([known]) => known === name)?.[1]),
      ['no-store', undefined],
    );
    const head = await ask({ path, method: 'HEAD', headers: bearer(mine) });
    assert.deepEqual([head.status, head.body.length], [200, 0]);
  });
}

test('without a valid key there is no view: 401, also beside a plan for requests without one', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], access: accessOf(t, { anonymous: 'gold' }) });

  const [none, wrong, other, target] = await Promise.all([
    gateway.get('/-/usage'),
    gateway.get('/-/usage', { authorization: `Bearer ${testKey('none').text}` }),
    gateway.get('/-/usage', { authorization: 'Basic YTpi' }),
    gateway.get(`/-/usage?key=${mine.text}`),
  ]);

  assert.deepEqual([none.status, wrong.status, other.status, target.status], [401, 401, 401, 400]);
  assert.equal(none.headers['www-authenticate'], 'Bearer realm="ledgergate"');
  assert.equal(await gateway.metric('ledgergate_access_refusals_total{reason="no key",plan=""}'), 1);
  assert.equal((await gateway.post('/-/usage', '{}', bearer(mine))).status, 405);
});

test('without access there is no such page', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node] });
  const before = node.requests;

  const [json, page] = [await gateway.get('/-/usage'), await gateway.get('/-/usage', { accept: 'text/html' })];

  assert.deepEqual([json.status, page.status, node.requests], [404, 404, before]);
});

test('a holder sees nothing of others: neither of other tenants nor of other keys of its own', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], access: accessOf(t) });
  for (let count = 0; count < 5; count += 1) await gateway.get(probeAt(500), bearer(sister));
  for (let count = 0; count < 7; count += 1) await gateway.get(probeAt(500), bearer(foreign));
  await gateway.get(probeAt(500), bearer(mine));
  await reported(gateway);

  const texts = await Promise.all([mine, sister, foreign].map((key) => gateway.get('/-/usage', bearer(key))));

  const views = texts.map(({ text }) => viewOf(text));
  assert.deepEqual(
    views.map(({ key, tenant, usage }) => [key, tenant, usage?.month.requests]),
    [
      ['wallet-a', 'acme', 1],
      ['wallet-b', 'acme', 5],
      ['other-key', 'umbrella', 7],
    ],
  );
  // The limits of a tenant are shared by its keys.
  assert.deepEqual(
    views.map(({ limits }) => limits?.[0]?.remaining),
    [94, 94, undefined],
  );
  for (const [at, names] of [
    [0, ['wallet-b', 'other-key', 'umbrella', 'gold']],
    [1, ['wallet-a', 'other-key', 'umbrella', 'gold']],
    [2, ['wallet-a', 'wallet-b', 'acme', 'free']],
  ] as const) {
    const all = `${texts[at]?.text} ${JSON.stringify(texts[at]?.headers)}`;
    for (const name of [...names, 'full-', new URL(node.url).host]) assert.equal(all.includes(name), false, name);
  }
});

test('a key sees its view whatever it may do, within its limits or beyond', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const submits = testKey('submits', { operations: ['submit'], origins: ['https://app.example'] });
  const used = testKey('used', { plan: 'tiny' });
  const { path: file } = keysFile(t, [submits, used]);
  const tiny = planConfig({ requests: 1, windowMs: 3_600_000 });
  const access = accessConfig({ keys: { file, redis: false }, plans: { ...plans, tiny } });
  const gateway = await testGateway(t, { full: [node], access });
  await gateway.get(probeAt(500), bearer(used));
  assert.equal((await gateway.get(probeAt(500), bearer(used))).status, 429);

  const views = await Promise.all([submits, used].map((key) => gateway.get('/-/usage', bearer(key))));

  assert.deepEqual(
    views.map(({ status, text }) => [status, viewOf(text).limits?.[0]?.remaining]),
    [
      [200, 100],
      [200, 0],
    ],
  );
});

test('a key with an address list has its view there alone', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const [here, elsewhere] = [
    testKey('here', { addresses: ['127.0.0.0/8'] }),
    testKey('elsewhere', { addresses: ['192.0.2.0/24'] }),
  ];
  const { path: file } = keysFile(t, [here, elsewhere]);
  const gateway = await testGateway(t, { full: [node], access: accessConfig({ keys: { file, redis: false }, plans }) });

  const replies = await Promise.all([here, elsewhere].map((key) => gateway.get('/-/usage', bearer(key))));

  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 403],
  );
});

test('with a bound of addresses, each address sees its own rest', async (t) => {
  const plan = planConfig({ perAddress: { requests: 5, windowMs: 3_600_000 } });
  const access = accessOf(t, { plans: { ...plans, free: plan }, trustedProxies: ['127.0.0.1'] });
  const { gateway } = await nodeAndGateway(t, { access });
  for (let count = 0; count < 3; count += 1) await gateway.get(probeAt(500), at('192.0.2.1'));
  const leftAt = async (address: string) =>
    viewOf((await gateway.get('/-/usage', at(address))).text).limits?.map(({ name, remaining }) => [name, remaining]);

  assert.deepEqual(await leftAt('192.0.2.1'), [['address', 2]]);
  assert.deepEqual(await leftAt('192.0.2.2'), [['address', 5]]);
});

test('the holder of a token sees the use of the tokens of its tenant', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const signing = signingKey('first');
  const issuer = await testIssuer(t, [signing]);
  const gateway = await testGateway(t, { full: [node], access: accessOf(t, { jwt: jwtConfig(issuer.url) }) });
  const token = (tenant: string, more = {}) => ({ text: tokenOf(signing, tenant, more), entry: {} });
  for (const one of [token('acme'), token('acme', { jti: 'another' }), token('umbrella')]) {
    await gateway.get(probeAt(500), bearer(one));
  }
  await reported(gateway);

  const [acme, late, bad] = await Promise.all([
    gateway.get('/-/usage', bearer(token('acme', { jti: 'a third' }))),
    gateway.get('/-/usage', bearer(token('acme', { exp: 1 }))),
    gateway.get('/-/usage', bearer({ text: `${token('acme').text}x`, entry: {} })),
  ]);

  assert.deepEqual([acme.status, late.status, bad.status], [200, 401, 401]);
  const { key, tenant, plan, limits, usage } = viewOf(acme.text);
  assert.deepEqual([key, tenant, plan, limits?.[0]?.remaining], ['jwt', 'acme', 'free', 98]);
  assert.deepEqual(usage?.day.requests, 2);
  assert.equal(acme.text.includes('umbrella'), false);
});

test('browsers get one page for everybody, with a policy; it holds neither key nor holder', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node], access: accessOf(t) });
  const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

  const [without, withKey] = [
    await gateway.get('/-/usage', { accept }),
    await gateway.get('/-/usage', { accept, ...bearer(mine) }),
  ];

  assert.deepEqual([without.status, without.text === withKey.text], [200, true]);
  assert.match(without.headers['content-type'] ?? '', /^text\/html/);
  assert.match(without.headers['content-security-policy'] ?? '', /default-src 'none'.*frame-ancestors 'none'/);
  assert.equal(/unsafe|https?:/.test(without.headers['content-security-policy'] ?? 'unsafe'), false);
  for (const name of ['wallet-a', 'acme', mine.text]) assert.equal(without.text.includes(name), false);
});

test('two replicas have one view in Redis, two reads a second of it at most', { skip: noRedis }, async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const server = await redisServer(t);
  const redis = redisAt(server.url, { ttlMs: 10_000, timeoutMs: 2_000 });
  const config = { cache: { memory: { maxBytes: 1e7 }, redis } };
  const start = (): Promise<TestGateway> => testGateway(t, { full: [node], config, access: accessOf(t) });
  const [one, other] = [await start(), await start()];
  const view = async (gateway: TestGateway): Promise<View> =>
    viewOf((await gateway.get('/-/usage', bearer(mine))).text);
  for (const gateway of [one, one, other]) await gateway.get(probeAt(500), bearer(mine));
  await Promise.all([one, other].map(reported));
  assert.equal((await view(other)).usage?.month.requests, 3);
  assert.deepEqual(
    (await view(other)).quota?.map(({ remaining }) => remaining),
    [47, 497],
  );

  const readsOf = async (): Promise<number> => {
    const info = await server.run((client) => client.info('commandstats'));
    return Number(/cmdstat_hgetall:calls=(\d+)/.exec(info)?.[1] ?? 0);
  };
  assert.equal((await view(one)).usage?.month.requests, 3);
  const [before, sinceMs] = [await readsOf(), performance.now()];
  for (let count = 0; count < 200; count += 1) await view(one);
  const seconds = Math.ceil((performance.now() - sinceMs) / 1_000) + 1;
  assert.equal((await readsOf()) - before <= 2 * seconds, true);

  await server.kill();
  await until(async () => !(await view(one)).complete, 100);
  const away = await view(one);
  assert.deepEqual([away.key, away.usage], ['wallet-a', null]);
  await server.start();
  await until(async () => (await view(one)).complete, 100);
  const last: Reply = await one.get('/-/usage', bearer(mine));
  assert.equal(last.status, 200);
});
