/** `GET {basePath}/-/usage`: a key's holder sees its plan, what is left, and its use; nobody else does, and it costs nothing. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { Agent, request } from 'undici';
import { openBrowser, withoutChromium } from '../../support/chromium.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  nodeAndGateway,
  probeAt,
  type Reply,
  testGateway,
  type TestGateway,
  statusesOf,
} from '../../support/gateway.ts';
import { jwtConfig, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { bearer } from '../../support/keyed-gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
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

/** What is left of each bound for a client at an address of this machine. */
async function leftAt(
  { url }: TestGateway,
  key: TestKey,
  localAddress: string,
): Promise<readonly string[] | undefined> {
  const dispatcher = new Agent({ localAddress });
  const { body } = await request(`${url}/-/usage`, { dispatcher, headers: bearer(key) });
  const { limits } = viewOf(await body.text());
  await dispatcher.destroy();
  return limits?.map(({ name, remaining }) => `${name} ${remaining}`);
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

test('a valid key, and none else, shows its own view', async (t) => {
  const signing = signingKey('first');
  const { url: jwks } = await testIssuer(t, [signing]);
  const [submits, used] = [
    testKey('submits', { operations: ['submit'], origins: ['https://app.example'] }),
    testKey('used', { plan: 'tiny' }),
  ];
  const [here, elsewhere] = [
    testKey('here', { addresses: ['127.0.0.0/8'], plan: 'each' }),
    testKey('elsewhere', { addresses: ['192.0.2.0/24'] }),
  ];
  const bound = { requests: 5, windowMs: 3_600_000 };
  const more = { tiny: planConfig({ ...bound, requests: 1 }), each: planConfig({ perAddress: bound }) };
  const { path: file } = keysFile(t, [mine, sister, foreign, submits, used, here, elsewhere]);
  const { node, gateway } = await nodeAndGateway(t, {
    access: accessOf(t, {
      keys: { file, redis: false },
      plans: { ...plans, ...more },
      anonymous: 'gold',
      jwt: jwtConfig(jwks),
    }),
  });
  const token = (tenant: string, claims = {}) => ({ text: tokenOf(signing, tenant, claims), entry: {} });
  const read = (headers: Record<string, string>) => gateway.get(probeAt(500), headers);
  const usage = (headers: Record<string, string> = {}, query = '') => gateway.get(`/-/usage${query}`, headers);

  await t.test('without one it is 401, also beside a plan for requests without a key', async () => {
    const replies = [
      await usage(),
      await usage(bearer(testKey('none'))),
      await usage({ authorization: 'Basic YTpi' }),
      await usage({}, `?key=${mine.text}`),
      await usage(bearer(elsewhere)),
    ];
    assert.deepEqual(statusesOf(replies), [401, 401, 401, 400, 403]);
    assert.equal(replies[0]?.headers['www-authenticate'], 'Bearer realm="ledgergate"');
    assert.equal(await gateway.metric('ledgergate_access_refusals_total{reason="no key",plan=""}'), 1);
  });

  await t.test('it has nothing of others: neither of other tenants nor of other keys of its own', async () => {
    for (const [key, count] of [
      [sister, 5],
      [foreign, 7],
      [mine, 1],
    ] as const) {
      for (let asked = 0; asked < count; asked += 1) await read(bearer(key));
    }
    await reported(gateway);
    const replies = await Promise.all([mine, sister, foreign].map((key) => usage(bearer(key))));
    assert.deepEqual(
      replies.map(({ text }) => {
        const { key, tenant, usage: use, limits } = viewOf(text);
        // The limits of a tenant are shared by its keys.
        return [key, tenant, use?.month.requests, limits?.[0]?.remaining];
      }),
      [
        ['wallet-a', 'acme', 1, 94],
        ['wallet-b', 'acme', 5, 94],
        ['other-key', 'umbrella', 7, undefined],
      ],
    );
    for (const [index, names] of [
      ['wallet-b', 'other-key', 'umbrella', 'gold'],
      ['wallet-a', 'other-key', 'umbrella', 'gold'],
      ['wallet-a', 'wallet-b', 'acme', 'free'],
    ].entries()) {
      const all = `${replies[index]?.text} ${JSON.stringify(replies[index]?.headers)}`;
      for (const name of [...names, 'full-', new URL(node.url).host]) assert.equal(all.includes(name), false, name);
    }
  });

  await t.test('it answers whatever the key may do, within its limits or beyond', async () => {
    assert.deepEqual([(await read(bearer(used))).status, (await read(bearer(used))).status], [200, 429]);
    for (const [key, remaining] of [
      [submits, 100],
      [used, 0],
    ] as const) {
      const { status, text } = await usage(bearer(key));
      assert.deepEqual([status, viewOf(text).limits?.[0]?.remaining], [200, remaining]);
    }
  });

  await t.test('with a bound of addresses it has the rest of the address that asks', async () => {
    for (let asked = 0; asked < 3; asked += 1) await read(bearer(here));
    assert.deepEqual(await leftAt(gateway, here, '127.0.0.1'), ['address 2']);
    assert.deepEqual(await leftAt(gateway, here, '127.0.0.3'), ['address 5']);
  });

  await t.test('a token has the view of the tokens of its tenant, at its first request', async () => {
    for (const one of [token('emca'), token('emca', { jti: 'another' }), token('other')]) await read(bearer(one));
    await reported(gateway);
    const emca = await usage(bearer(token('emca', { jti: 'a third' })));
    assert.equal((await usage(bearer(token('emca', { exp: 1 })))).status, 401);
    assert.equal((await usage({ authorization: `Bearer ${token('emca').text}x` })).status, 401);
    const { key, tenant, plan, limits, usage: use } = viewOf(emca.text);
    assert.deepEqual([key, tenant, plan, limits?.[0]?.remaining, use?.day.requests], ['jwt', 'emca', 'free', 98, 2]);
    assert.equal(emca.text.includes('other'), false);
  });

  await t.test('browsers get one page for everybody, with a policy; it holds neither key nor holder', async () => {
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
    const [without, withKey] = [await usage({ accept }), await usage({ accept, ...bearer(mine) })];
    assert.deepEqual([without.status, without.text === withKey.text], [200, true]);
    assert.match(without.headers['content-type'] ?? '', /^text\/html/);
    const policy = without.headers['content-security-policy'] ?? 'unsafe';
    assert.match(policy, /default-src 'none'.*frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|https?:/);
    for (const name of ['wallet-a', 'acme', mine.text]) assert.equal(without.text.includes(name), false);
    assert.equal((await gateway.post('/-/usage', '{}', bearer(mine))).status, 405);
  });
});

test('without access there is no such page', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const before = node.requests;
  const [json, page] = [await gateway.get('/-/usage'), await gateway.get('/-/usage', { accept: 'text/html' })];
  assert.deepEqual([json.status, page.status, node.requests], [404, 404, before]);
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

// The page of a key's holder in a real browser: it shows the JSON of the key, in narrow and wide windows, and nothing leaves.

/** A key with a month of use, of large numbers, and an issuer of tokens. */
async function world(t: TestContext, header = 'authorization') {
  const key = testKey('wallet-with-a-long-name-of-some-customer', { tenant: 'acme' });
  const { path } = keysFile(t, [key]);
  const folder = temporaryFolder(t);
  const month = new Date().toISOString().slice(0, 7);
  const days = Array.from({ length: 28 }, (_, at) => `${month}-${String(at + 1).padStart(2, '0')}`);
  const sums = [
    ['hit', 43_210_987, 43_210_987.5, 98_765_432_100, 0],
    ['collapsed', 1_234, 1_234, 5_000_000, 0],
  ];
  const lines = days.map((day) => JSON.stringify([day, [key.entry['name'], 'acme'], sums]));
  writeFileSync(join(folder, 'usage.jsonl'), `${lines.join('\n')}\n`);
  const quota = { day: 999_999_999, month: 1_000_000_000, unit: 'requests' } as const;
  const plan = planConfig({ requests: 1_000_000, cost: 500_000_000, burst: 50, concurrency: 20, streams: 5, quota });
  const usage = { metricsByKey: false, path: folder };
  const signing = signingKey('first');
  const jwt = jwtConfig((await testIssuer(t, [signing])).url);
  const access = accessConfig({ header, keys: { file: path, redis: false }, plans: { free: plan }, usage, jwt });
  const { gateway } = await nodeAndGateway(t, { access });
  const value = header === 'authorization' ? `Bearer ${key.text}` : key.text;
  await gateway.get(probeAt(500), { [header]: value });
  await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET' });
  return { key, signing, url: `${gateway.url}/-/usage` };
}

async function enter(page: Page, key: string): Promise<void> {
  await page.fill('input', key);
  await page.click('button');
}

test('the page of a holder, in a browser', { skip: withoutChromium() }, async (t) => {
  const browser = await openBrowser(t);
  const { url, key, signing } = await world(t);

  for (const [name, width, colorScheme] of [
    ['narrow', 360, 'light'],
    ['wide', 1300, 'dark'],
  ] as const) {
    await t.test(`shows a key's limits and use in a ${name} window`, async () => {
      const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme });
      const asked: string[] = [];
      const faults: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      page.on('console', (message) => faults.push(message.text()));
      page.on('pageerror', (error) => faults.push(String(error)));

      await page.goto(url);
      await enter(page, key.text);
      await page.waitForSelector('#about');

      const text = await page.innerText('main');
      const shown = [String(key.entry['name']), 'acme', '43,212,221', '98.8 GB', '1,000,000,000', 'from the cache'];
      assert.deepEqual(
        shown.filter((one) => !text.includes(one)),
        [],
      );
      // No part is cut off, or has to be scrolled sideways.
      const cut = await page.$$eval('html, section', (parts) => {
        return parts
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
          .map(({ id, tagName }) => id || tagName);
      });
      assert.deepEqual(cut, []);
      // The key is in no address and in no storage, and no other server is asked.
      const kept = await page.evaluate<string>(
        'location.href + JSON.stringify([localStorage, sessionStorage, document.cookie])',
      );
      assert.equal(kept, `${url}[{},{},""]`);
      assert.deepEqual([...new Set(asked)], [url]);
      assert.deepEqual(faults, []);
      assert.equal((await page.content()).includes(key.text), false);
    });
  }

  await t.test('shows a tenant of a token that looks like markup as text', async () => {
    const tenant = '<img/src=x/onerror=document.title=1>';
    const page = await browser.newPage();
    await page.goto(url);
    await enter(page, tokenOf(signing, tenant));
    await page.waitForSelector('#about');

    assert.equal((await page.innerText('#about')).includes(tenant), true);
    assert.deepEqual([await page.title(), await page.$$('img')], ['Usage of a key', []]);
  });

  await t.test('names the refusal of a wrong key, and takes another, also in a header of its own', async (st) => {
    const other = await world(st, 'x-api-key');
    const page = await browser.newPage();
    await page.goto(other.url);
    await enter(page, testKey('none').text);
    await page.waitForSelector('#note:has-text("refuses this key")');
    await enter(page, other.key.text);
    await page.waitForSelector('#about');

    assert.match(await page.innerText('main'), /plan free/);
  });
});
