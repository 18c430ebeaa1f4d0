// If-None-Match: 304 to GET and HEAD, over every way that a request takes; a POST gets its answer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway, statusesOf } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import type { Told } from '../../support/tls.ts';
import { transports } from '../../support/transports.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=900';
const body = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const view = { method: 'POST', path: '/v1/view?ledger_version=900', body } as const;
const json = { 'content-type': 'application/json' };

/** Reads without a version, and history. */
const reads = [
  '/v1/accounts/0x1/resource/0x1::account::Account',
  '/v1/accounts/0x1',
  '/v1/accounts/0x1/resources?limit=2',
  '/v1/transactions?start=500&limit=5',
  '/v1/transactions',
  '/v1/transactions/by_version/500',
  '/v1/blocks/by_height/5',
  '/v1/blocks/by_height/5?with_transactions=true',
  '/v1/accounts/0x1/events/4',
  '/v1/estimate_gas_price',
  '/v1/info',
];

function headerOf({ headers }: Told, wanted: string): string | undefined {
  return headers.find(([name]) => name === wanted)?.[1];
}

for (const [transport, start] of Object.entries(transports)) {
  test(`conditions over ${transport}`, async (t) => {
    const node = await fakeNode(t);
    const { ask } = await start(t, { full: [node] });

    await t.test('304 to GET and HEAD, 200 to the POST of a view, whose answer is not cacheable', async () => {
      const first = await ask({ path: probe });
      assert.equal(headerOf(first, 'cache-control'), 'public, max-age=31536000, immutable');
      const tag = headerOf(first, 'etag') ?? assert.fail('no tag');
      for (const method of ['GET', 'HEAD']) {
        const known = await ask({ method, path: probe, headers: { 'if-none-match': tag } });
        assert.deepEqual([known.status, known.body.length, headerOf(known, 'etag')], [304, 0, tag], method);
      }
      const viewed = await ask({ ...view, headers: json });
      for (const condition of [headerOf(viewed, 'etag') ?? '*', '*']) {
        const again = await ask({ ...view, headers: { ...json, 'if-none-match': condition } });
        assert.deepEqual([again.status, again.body.toString()], [200, '["900"]'], condition);
        assert.match(headerOf(again, 'cache-status') ?? '', /hit; detail=memory/);
        assert.equal(headerOf(again, 'cache-control'), 'no-store');
      }
      assert.match(headerOf(viewed, 'cache-status') ?? '', /fwd=miss/);
      assert.equal(headerOf(viewed, 'cache-control'), 'no-store');
    });

    await t.test('reads of the latest state, of history and of the gas price get 304 to their tag', async () => {
      for (const path of reads) {
        const first = await ask({ path });
        const tag = headerOf(first, 'etag') ?? assert.fail(`${path} has no tag`);
        // From a node, then from memory.
        for (const method of ['GET', 'HEAD']) {
          const known = await ask({ method, path, headers: { 'if-none-match': tag } });
          assert.deepEqual([known.status, known.body.length, headerOf(known, 'etag')], [304, 0, tag], path);
          assert.equal(headerOf(known, 'cache-control'), headerOf(first, 'cache-control'));
          assert.equal(headerOf(known, 'vary'), headerOf(first, 'vary'));
          assert.equal(headerOf(known, 'content-type'), undefined);
        }
        const other = await ask({ path, headers: { 'if-none-match': '"another"' } });
        assert.deepEqual([other.status, other.body], [200, first.body], path);
      }
    });

    await t.test('a 304 has the ledger of its time, and a demand for freshness holds', async () => {
      const path = '/v1/accounts/0x1/resource/0x1::account::Account';
      const tag = headerOf(await ask({ path }), 'etag') ?? assert.fail('no tag');
      node.clock.head = 2_000n;

      const condition = { 'if-none-match': tag };
      const known = await ask({ path, headers: { ...condition, 'ledgergate-min-version': '2000' } });
      const fresh = await ask({ path, headers: { ...condition, 'ledgergate-max-staleness': '0' } });
      const moved = await ask({ path: probe.split('?', 1)[0] ?? '', headers: { 'ledgergate-min-version': '2000' } });

      assert.deepEqual([known.status, headerOf(known, 'ledgergate-served-version')], [304, '2000']);
      assert.equal(headerOf(known, 'x-node-ledger-version'), '2000');
      // Read for this caller alone, so that it has no tag and no cache may keep it.
      assert.deepEqual([fresh.status, headerOf(fresh, 'cache-control')], [200, 'no-store']);
      assert.equal(headerOf(fresh, 'etag'), undefined);
      assert.notEqual(headerOf(moved, 'etag'), tag);
    });
  });
}

test('a 304 compresses no body: its tag needs only the name of the coding', async (t) => {
  const { gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const path = '/accounts/0x1/module/coin?ledger_version=900';
  const plain = await gateway.get(path);
  const held = () => gateway.metric('ledgergate_cache_bytes{tier="memory"}');
  const bytes = await held();
  const tag = plain.headers['etag']?.replace(/"$/, '-br"') ?? '';
  const headers = { 'accept-encoding': 'br' };

  const known = await gateway.get(path, { ...headers, 'if-none-match': tag });

  assert.deepEqual([known.status, known.headers['etag']], [304, tag]);
  assert.equal(await held(), bytes);
  const coded = await gateway.get(path, headers);
  assert.deepEqual([coded.headers['content-encoding'], coded.headers['etag']], ['br', tag]);
  assert.ok((await held()) > bytes);
});

test('answers to a key are private to its client; those of the anonymous plan may be stored by all', async (t) => {
  const key = testKey('wallet');
  const { path: file } = keysFile(t, [key]);
  const access = accessConfig({ anonymous: 'free', keys: { file, redis: false } });
  const { gateway } = await nodeAndGateway(t, { access }, { head: 1_000n });
  const immutable = 'max-age=31536000, immutable';
  const expected = [
    ['/accounts/0x1?ledger_version=900', `public, ${immutable}`, `private, ${immutable}`],
    ['/blocks/by_height/5', `public, ${immutable}`, `private, ${immutable}`],
    ['/transactions?start=500&limit=5', 'public, max-age=600', 'private, max-age=600'],
    ['/accounts/0x1', 'no-cache', 'private, no-cache'],
    ['/transactions', 'no-cache', 'private, no-cache'],
    ['/estimate_gas_price', 'no-cache', 'private, no-cache'],
    ['/transactions?start=990&limit=100', 'no-store', 'no-store'],
  ] as const;

  for (const [path, ofAll, ofKey] of expected) {
    const anonymous = await gateway.get(path);
    const keyed = await gateway.get(path, { authorization: `Bearer ${key.text}` });
    assert.deepEqual([anonymous.headers['cache-control'], keyed.headers['cache-control']], [ofAll, ofKey], path);
    // A cache must not answer the one with the other.
    for (const { headers } of [anonymous, keyed]) {
      assert.equal(headers['vary'], 'Accept, Accept-Encoding, Origin, authorization');
    }
    const { etag } = keyed.headers;
    if (etag === undefined) continue;
    const known = await gateway.get(path, { authorization: `Bearer ${key.text}`, 'if-none-match': etag });
    assert.deepEqual([known.status, known.headers['cache-control']], [304, ofKey], path);
  }
});

test('a node\u2019s 304 without a condition in the request is an invalid answer', async (t) => {
  const broken = await fakeNode(t, { oldest: 400n });
  const whole = await fakeNode(t);
  const gateway = await testGateway(t, { full: [broken], archival: [whole] });
  broken.faults.add({ kind: 'answer', status: 304, body: '' }, { when: ({ route }) => route !== 'ledgerInfo' });
  const latest = { 'if-none-match': '"of another version"' };

  const replies = [await gateway.get('/accounts/0x1', latest), await gateway.get('/transactions/by_version/500')];
  // A parameter that the gateway does not know passes the read with its condition.
  const asked = await gateway.get('/transactions/by_version/500?later=1', latest);

  assert.deepEqual(statusesOf([...replies, asked]), [200, 200, 304]);
  assert.equal(whole.reads, 2);
});

test('conditions of a POST that reads reach no node; those of other requests do', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const conditions = { 'if-none-match': '*', 'if-match': '"x"' };
  const sent = async (method: 'GET' | 'POST' | 'PUT', path: string): Promise<unknown> => {
    await gateway.send(method, path, { headers: { ...json, ...conditions }, ...(method === 'GET' ? {} : { body }) });
    return node.lastRead?.headers['if-none-match'];
  };
  for (const path of ['/tables/0x1/item?later=1', '/transactions/simulate']) {
    assert.equal(await sent('POST', path), undefined, path);
  }
  assert.equal(await sent('GET', '/blocks/by_height/3?later=1'), '*');
  assert.equal(await sent('PUT', '/later/route'), '*');
});
