// nginx with its cache on, as docs/tls-and-browsers.md recommends it, in front of a gateway.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { AccessConfig } from '../../../src/config/config.ts';
import { type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, type Reply, type TestGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { startNginx, withoutNginx } from '../../support/nginx.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const module = '/v1/accounts/0x1/module/coin?ledger_version=900';
const skip = withoutNginx();

test('pinned reads are cached: the right body, the same tag, and 304', { skip }, async (t) => {
  const { ask } = await behindNginx(t);
  const first = await ask(`${probe}?ledger_version=900`);
  const again = await ask(`${probe}?ledger_version=900`);
  const other = await ask(`${probe}?ledger_version=901`);
  assert.deepEqual([first, again, other].map(cacheOf), ['MISS', 'HIT', 'MISS']);
  assert.equal(JSON.parse(again.text).data.ledger_version, '900');
  assert.equal(JSON.parse(other.text).data.ledger_version, '901');
  assert.equal(again.headers['etag'], first.headers['etag']);
  const known = await ask(`${probe}?ledger_version=900`, { 'if-none-match': first.headers['etag'] ?? '' });
  assert.deepEqual([known.status, known.body.length, cacheOf(known)], [304, 0, 'HIT']);
});

test('HEAD and GET are cached apart, and neither is answered with the other', { skip }, async (t) => {
  const { ask, url } = await behindNginx(t);
  const head = await fetchReply(`${url}${probe}?ledger_version=900`, { method: 'HEAD' });
  const got = await ask(`${probe}?ledger_version=900`);
  assert.deepEqual([head.status, head.body.length], [200, 0]);
  assert.equal(JSON.parse(got.text).data.ledger_version, '900');
});

test('answers that may change are never cached: latest, ledger info, errors, passed paths', { skip }, async (t) => {
  const { ask, node } = await behindNginx(t);
  for (const path of [
    probe,
    '/v1',
    `${probe}?ledger_version=x`,
    `${probe}?ledger_version=99999`,
    '/v1/blocks/by_height/5?x=1',
  ]) {
    const twice = [await ask(path), await ask(path)];
    assert.deepEqual(twice.map(cacheOf), ['MISS', 'MISS'], path);
  }
  const before = await ask('/v1');
  node.clock.head = 2_000n;
  await new Promise((resolve) => setTimeout(resolve, 300));
  const after = await ask('/v1');
  assert.ok(BigInt(JSON.parse(after.text).ledger_version) > BigInt(JSON.parse(before.text).ledger_version));
});

test('forms, codings and pages are cached apart', { skip }, async (t) => {
  const { ask } = await behindNginx(t);
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
});

test('POST passes every time, and so does a request with a demand of freshness', { skip }, async (t) => {
  const { url, ask, node } = await behindNginx(t);
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
});

test('private answers are not cached, nor are answers to requests with a key', { skip }, async (t) => {
  const { ask, node } = await behindNginx(t);
  const headers = { 'cache-control': 'private, max-age=1000', 'content-type': 'application/json' };
  node.faults.add(
    { kind: 'answer', status: 200, body: '{"mine":1}', headers, contentType: 'application/json' },
    { when: ({ url }) => url.includes('/info') },
  );
  const told = [await ask('/v1/info?x=1'), await ask('/v1/info?x=1')];
  assert.deepEqual(told.map(cacheOf), ['MISS', 'MISS']);
  assert.match(told[0]?.headers['cache-control'] ?? '', /private/);

  const key = { authorization: 'Bearer lgk_x' };
  const keyed = [await ask(`${probe}?ledger_version=902`, key), await ask(`${probe}?ledger_version=902`, key)];
  assert.deepEqual(keyed.map(cacheOf), ['BYPASS', 'BYPASS']);
  assert.equal(cacheOf(await ask(`${probe}?ledger_version=902`)), 'MISS');
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

    assert.deepEqual(
      [...told, stranger].map(({ status }) => status),
      [200, 200, 401],
    );
    assert.deepEqual(told.map(cacheOf), ['MISS', 'MISS']);
    assert.match(told[0]?.headers['cache-control'] ?? '', /^private/);
  },
);

test('passed answers are cached by their node\u2019s Vary, and not at all with Vary: *', { skip }, async (t) => {
  const { ask, node } = await behindNginx(t);
  const kept = { 'cache-control': 'public, max-age=600', ...ledgerHeaders({ version: 1000n, chainId: 1 }) };
  const answer = (path: string, vary: string): void => {
    const fault = { kind: 'answer', status: 200, body: '{}', headers: { ...kept, vary } } as const;
    node.faults.add(fault, { when: ({ url }) => url.includes(path) });
  };
  answer('/by_height/5', 'x-node-client');
  answer('/by_height/6', '*');

  const asked = async (path: string, client: string) =>
    cacheOf(await ask(`/v1/blocks${path}?x=1`, { 'x-node-client': client }));
  const merged = [await asked('/by_height/5', 'a'), await asked('/by_height/5', 'a'), await asked('/by_height/5', 'b')];
  const anything = [await asked('/by_height/6', 'a'), await asked('/by_height/6', 'a')];

  assert.deepEqual(merged, ['MISS', 'HIT', 'MISS']);
  assert.deepEqual(anything, ['MISS', 'MISS']);
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

function cacheOf({ headers }: Reply): string | undefined {
  return headers['x-cache'];
}
