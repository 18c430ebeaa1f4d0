// nginx with its cache on, as docs/tls-and-browsers.md recommends it, in front of a gateway.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { AccessConfig } from '../../../src/config/config.ts';
import { type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, type Reply, type TestGateway, statusesOf } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { until } from '../../support/eventually.ts';
import { startNginx, withoutNginx } from '../../support/nginx.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const module = '/v1/accounts/0x1/module/coin?ledger_version=900';
const skip = withoutNginx();

/** Reads that are final, of every kind that nginx may keep. */
const finalReads = [
  `${probe}?ledger_version=900`,
  '/v1/accounts/0x1?ledger_version=900',
  '/v1/accounts/0x1/balance/0x1::aptos_coin::AptosCoin?ledger_version=900',
  '/v1/accounts/0x1/resources?ledger_version=900&limit=2',
  '/v1/accounts/0x1/modules?ledger_version=900&limit=1',
  '/v1/transactions/by_version/500',
  '/v1/transactions?start=500&limit=5',
  '/v1/transactions/auxiliary_info?start_version=500&limit=5',
  '/v1/blocks/by_height/5',
  '/v1/blocks/by_height/5?with_transactions=true',
  '/v1/blocks/by_version/500',
  '/v1/accounts/0x1/events/4?start=1&limit=5',
];
const newestReads = [
  probe,
  '/v1/accounts/0x1',
  '/v1/accounts/0x1/resources',
  '/v1/transactions',
  '/v1/accounts/0x1/transactions?start=1',
  '/v1/accounts/0x1/events/4',
  '/v1/estimate_gas_price',
  '/v1/info',
];

test(
  'final reads come from nginx once read, JSON and BCS apart; the newest never without the gateway',
  { skip },
  async (t) => {
    const { ask, gateway } = await behindNginx(t);
    const forms = [{}, { accept: 'application/x-bcs' }];
    const first: Reply[] = [];
    for (const path of finalReads) for (const form of forms) first.push(await ask(path, form));
    assert.deepEqual(new Set(first.map((reply) => `${reply.status} ${cacheOf(reply)}`)), new Set(['200 MISS']));
    const newest = await Promise.all(newestReads.map((path) => ask(path)));
    assert.deepEqual(new Set(newest.map(({ headers }) => headers['cache-control'])), new Set(['no-cache']));
    const repeated = await Promise.all(newestReads.map((path) => ask(path)));
    assert.equal(
      repeated.some((reply) => cacheOf(reply) === 'HIT'),
      false,
    );

    await gateway.close();

    const again: Reply[] = [];
    for (const path of finalReads) for (const form of forms) again.push(await ask(path, form));
    assert.deepEqual(new Set(again.map((reply) => `${reply.status} ${cacheOf(reply)}`)), new Set(['200 HIT']));
    assert.deepEqual(again.map(contentOf), first.map(contentOf));
    assert.deepEqual(
      again.map(({ headers }) => headers['content-type']?.includes('x-bcs')),
      finalReads.flatMap(() => [false, true]),
    );
    const gone = await Promise.all(newestReads.map((path) => ask(path)));
    assert.deepEqual(new Set(gone.map(({ status }) => status)), new Set([502]));
  },
);

test('a final 404, and a HEAD, come from nginx once read', { skip }, async (t) => {
  const { ask, url, gateway } = await behindNginx(t);
  const absent = '/v1/accounts/0x1/resource/0x1::no::Such?ledger_version=900';
  const list = '/v1/transactions?start=500&limit=5';
  const head = async (path: string): Promise<Reply> => fetchReply(url + path, { method: 'HEAD' });
  const first = [await ask(absent), await head(list), await ask(list)];
  assert.deepEqual(first.map(cacheOf), ['MISS', 'MISS', 'MISS']);

  await gateway.close();

  const again = [await ask(absent), await head(list), await ask(list)];
  assert.deepEqual(again.map(cacheOf), ['HIT', 'HIT', 'HIT']);
  assert.deepEqual(
    again.map(({ status, body }) => [status, body.length > 0]),
    [
      [404, true],
      [200, false],
      [200, true],
    ],
  );
  assert.deepEqual(again.map(contentOf), first.map(contentOf));
});

test(
  'a keyed answer is private whichever header carries the key, and no other client receives it',
  { skip },
  async (t) => {
    const key = testKey('wallet');
    const { path: file } = keysFile(t, [key]);
    const access = accessConfig({ header: 'x-api-key', keys: { file, redis: false } });
    const { ask } = await behindNginx(t, access);
    const keyed = { 'x-api-key': key.text };

    const told = [await ask(`${probe}?ledger_version=903`, keyed), await ask(`${probe}?ledger_version=903`, keyed)];
    const stranger = await ask(`${probe}?ledger_version=903`);

    assert.deepEqual(statusesOf([...told, stranger]), [200, 200, 401]);
    assert.deepEqual(told.map(cacheOf), ['MISS', 'MISS']);
    assert.match(told[0]?.headers['cache-control'] ?? '', /^private/);
  },
);

/** Claims that one nginx and gateway show, one after the other. */
const claims: Readonly<Record<string, (front: Front) => Promise<void>>> = {
  'answers that may change are never cached: ledger info, errors, a version above the head': async ({ ask, node }) => {
    const errors = [
      `${probe}?ledger_version=x`,
      `${probe}?ledger_version=99999`,
      '/v1/transactions?start=990&limit=100',
    ];
    for (const path of ['/v1', '/v1/-/healthy', ...errors]) {
      const twice = [await ask(path), await ask(path)];
      assert.equal(
        twice.some((reply) => cacheOf(reply) === 'HIT'),
        false,
        path,
      );
    }
    const before = await ask('/v1');
    node.clock.head = 2_000n;
    await until(async () => (await ask('/v1')).text !== before.text, 20);
  },

  'a condition of a read of the newest state reaches the gateway; its 304 has the new ledger': async ({
    ask,
    node,
  }) => {
    const path = '/v1/accounts/0x1/resource/0x1::account::Account';
    const first = await ask(path);
    node.clock.advance(1_000n);
    const head = String(node.clock.head);
    // Past the staleness bound.
    await until(async () => headOf(await ask(path)) === head, 20);

    const known = await ask(path, { 'if-none-match': first.headers['etag'] ?? '' });

    assert.deepEqual([known.status, known.body.length, headOf(known)], [304, 0, head]);
    assert.notEqual(headOf(first), head);
  },

  'pinned reads are cached: the right body, the same tag, and 304': async ({ ask }) => {
    const first = await ask(`${probe}?ledger_version=900`);
    const again = await ask(`${probe}?ledger_version=900`);
    const other = await ask(`${probe}?ledger_version=901`);
    assert.deepEqual([first, again, other].map(cacheOf), ['MISS', 'HIT', 'MISS']);
    assert.equal(JSON.parse(again.text).data.ledger_version, '900');
    assert.equal(JSON.parse(other.text).data.ledger_version, '901');
    assert.equal(again.headers['etag'], first.headers['etag']);
    const known = await ask(`${probe}?ledger_version=900`, { 'if-none-match': first.headers['etag'] ?? '' });
    assert.deepEqual([known.status, known.body.length, cacheOf(known)], [304, 0, 'HIT']);
  },

  'equal reads do not wait for each other in nginx: the gateway reads once for all': async ({ ask, node, gateway }) => {
    for (const path of [probe, `${probe}?ledger_version=911`]) {
      node.faults.clear();
      const before = node.requestsTo('resource');
      const answer = node.hold({ when: ({ route }) => route === 'resource' });
      const both = [ask(path), ask(path)];
      await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) === 2, 20);
      answer();

      assert.deepEqual(statusesOf(await Promise.all(both)), [200, 200]);
      assert.equal(node.requestsTo('resource') - before, 1, path);
    }
  },

  'forms, codings and pages are cached apart': async ({ ask }) => {
    const wanted: Record<string, string>[] = [
      {},
      { accept: 'application/x-bcs' },
      { 'accept-encoding': 'gzip' },
      { origin: 'https://a.example' },
      { origin: 'https://b.example' },
    ];
    for (const round of ['first', 'again']) {
      const told = await Promise.all(wanted.map((headers) => ask(module, headers)));
      const [plain, bcs, gzip, a, b] = told as [Reply, Reply, Reply, Reply, Reply];
      assert.ok(plain.text.startsWith('{'), round);
      assert.match(bcs.headers['content-type'] ?? '', /x-bcs/);
      assert.equal(gunzipSync(gzip.body).toString(), plain.text);
      assert.equal(plain.headers['access-control-allow-origin'], undefined);
      assert.deepEqual(
        [a, b].map(({ headers }) => headers['access-control-allow-origin']),
        ['https://a.example', 'https://b.example'],
      );
      assert.equal(a.text, plain.text);
    }
  },

  'POST passes every time, and so does a request with a demand of freshness': async ({ url, ask, node }) => {
    const body = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
    const headers = { 'content-type': 'application/json' };
    for (const version of [900, 901]) {
      const viewed = await fetchReply(`${url}/v1/view?ledger_version=${version}`, { method: 'POST', headers, body });
      assert.deepEqual(JSON.parse(viewed.text), [String(version)]);
    }
    const demand = { 'ledgergate-min-version': '1' };
    await ask(`${probe}?ledger_version=900`);
    assert.equal(cacheOf(await ask(`${probe}?ledger_version=900`, demand)), 'BYPASS');
    assert.ok(node.log.readCount > 0);
  },

  'private answers are not cached, nor are answers to requests with a key': async ({ ask, node }) => {
    const headers = { 'cache-control': 'private, max-age=1000', 'content-type': 'application/json' };
    node.faults.add(
      { kind: 'answer', status: 200, body: '{"mine":1}', headers, contentType: 'application/json' },
      { when: ({ url }) => url.includes('/later') },
    );
    const told = [await ask('/v1/later?start=1'), await ask('/v1/later?start=1')];
    assert.deepEqual(told.map(cacheOf), ['MISS', 'MISS']);
    assert.match(told[0]?.headers['cache-control'] ?? '', /private/);

    const key = { authorization: 'Bearer lgk_x' };
    const keyed = [await ask(`${probe}?ledger_version=902`, key), await ask(`${probe}?ledger_version=902`, key)];
    assert.deepEqual(keyed.map(cacheOf), ['BYPASS', 'BYPASS']);
    assert.equal(cacheOf(await ask(`${probe}?ledger_version=902`)), 'MISS');
  },

  'passed answers are cached by their node\u2019s Vary, and not at all with Vary: *': async ({ ask, node }) => {
    const kept = { 'cache-control': 'public, max-age=600', ...ledgerHeaders({ version: node.clock.head, chainId: 1 }) };
    const answer = (path: string, vary: string): void => {
      const fault = { kind: 'answer', status: 200, body: '{}', headers: { ...kept, vary } } as const;
      node.faults.add(fault, { when: ({ url }) => url.includes(path) });
    };
    // A parameter that the gateway does not know passes the read.
    const some = '/by_height/5?later=1';
    const any = '/by_height/6?later=1';
    answer(some, 'x-node-client');
    answer(any, '*');

    const asked = async (path: string, client: string) =>
      cacheOf(await ask(`/v1/blocks${path}`, { 'x-node-client': client }));
    const merged = [await asked(some, 'a'), await asked(some, 'a'), await asked(some, 'b')];
    const anything = [await asked(any, 'a'), await asked(any, 'a')];

    assert.deepEqual(merged, ['MISS', 'HIT', 'MISS']);
    assert.deepEqual(anything, ['MISS', 'MISS']);
  },
};

test('behind one nginx', { skip }, async (t) => {
  const front = await behindNginx(t);
  for (const [claim, prove] of Object.entries(claims)) {
    await t.test(claim, async () => {
      front.node.faults.clear();
      await prove(front);
    });
  }
});

interface Front {
  readonly node: FakeNode;
  readonly gateway: TestGateway;
  /** Of nginx, without the base path. */
  readonly url: string;
  readonly ask: (path: string, headers?: Record<string, string>) => Promise<Reply>;
}

/** The configuration is the one of the document, on another port and without TLS. */
async function behindNginx(t: TestContext, access?: AccessConfig): Promise<Front> {
  const { node, gateway } = await nodeAndGateway(t, access === undefined ? {} : { access }, { head: 1_000n });
  const text = readFileSync(new URL('../../../docs/tls-and-browsers.md', import.meta.url), 'utf8');
  const recommended = /```nginx\n([^]*?)```/.exec(text)?.[1] ?? assert.fail('the document recommends nothing');
  const url = await startNginx(
    t,
    recommended
      .replace('listen 443 ssl http2;', 'listen 127.0.0.1:PORT;')
      .replace('127.0.0.1:8080', `127.0.0.1:${gateway.port}`),
  );
  return {
    node,
    gateway,
    url,
    ask: (path, headers = {}) => fetchReply(url + path, { method: 'GET', headers }),
  };
}

function headOf({ headers }: Reply): string | undefined {
  return headers['x-node-ledger-version'];
}

/** The parts of an answer that a cache must not mix. */
function contentOf({ status, headers, text }: Reply) {
  return { status, type: headers['content-type'], tag: headers['etag'], cursor: headers['x-node-cursor'], text };
}

function cacheOf({ headers }: Reply): string | undefined {
  return headers['x-cache'];
}
