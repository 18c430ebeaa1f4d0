// Passed answers keep their node's coding if the client accepts it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import {
  brotliCompressSync,
  brotliDecompressSync,
  deflateSync,
  gunzipSync,
  gzipSync,
  zstdCompressSync,
  zstdDecompressSync,
} from 'node:zlib';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, patient, type Reply, testGateway, twoTiers } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';
import { errorBody } from '../../support/error-body.ts';

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });
const list = '/transactions?start=5&limit=100&x=1';

/** The size of a page of a hundred transactions. */
const text = JSON.stringify(
  Array.from({ length: 100 }, (_, index) => ({ version: String(index), payload: 'ab'.repeat(600) })),
);
const coders = { gzip: gzipSync, br: brotliCompressSync, zstd: zstdCompressSync, deflate: deflateSync } as const;
type Coding = keyof typeof coders;
const readers = { gzip: gunzipSync, br: brotliDecompressSync, zstd: zstdDecompressSync } as const;
/** Its coded form has at least 64 kB. */
const noise = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => Math.imul(index, 2_654_435_761)));

/** The body as it was before its coding, of answers in gzip or none. */
function plainOf({ headers, body }: Reply): string {
  return (headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body).toString();
}

/** The node answers the list in `coding`, whatever it is asked for. */
function answerIn(node: FakeNode, coding: string, body: Buffer, more: Record<string, string> = {}): void {
  const headers = { ...ledger, 'content-encoding': coding, ...more };
  node.fault = undefined;
  node.faults.add(
    { kind: 'answer', status: 200, body, headers },
    { when: ({ url }) => url.includes('/transactions?') },
  );
}

async function nodeIn(t: TestContext, coding: string, body: Buffer): Promise<FakeNode> {
  const node = await fakeNode(t, { head: 900n });
  answerIn(node, coding, body);
  return node;
}

for (const body of [text, noise]) {
  test(`a passed list of ${body.length} bytes reaches the client as the node coded it`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t);
    for (const coding of ['gzip', 'br', 'zstd'] as const) {
      const coded = coders[coding](body);
      answerIn(node, coding, coded, { etag: '"of-this-coding"' });

      const reply = await gateway.get(list, { 'accept-encoding': `x-own, ${coding}` });

      assert.equal(node.lastRead?.headers['accept-encoding'], coding);
      assert.deepEqual([reply.status, reply.headers['content-encoding']], [200, coding]);
      assert.deepEqual(reply.body, coded);
      assert.equal(reply.headers['content-length'], String(coded.length));
      assert.equal(reply.headers['etag'], '"of-this-coding"');
      assert.match(reply.headers['vary'] ?? '', /\bAccept-Encoding\b/);
    }
  });

  test(`a passed list of ${body.length} bytes is decoded for a client that does not accept its coding`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t);
    for (const coding of ['gzip', 'x-gzip', 'BR', 'zstd', 'deflate'] as const) {
      const coder = coders[coding.replace('x-', '').toLowerCase() as Coding];
      answerIn(node, coding, coder(body), { etag: '"of-this-coding"', 'content-digest': 'sha-256=:x:' });

      const reply = await gateway.get(list);
      const other = await gateway.get(list, { 'accept-encoding': coding === 'zstd' ? 'gzip' : 'zstd' });
      const head = await gateway.send('HEAD', list);

      for (const { status, text: got, headers } of [reply, other]) {
        assert.deepEqual([status, got], [200, body], coding);
        for (const name of ['content-encoding', 'etag', 'content-digest']) assert.equal(headers[name], undefined, name);
        assert.ok([undefined, String(body.length)].includes(headers['content-length']));
        assert.match(headers['vary'] ?? '', /\bAccept-Encoding\b/);
      }
      for (const name of ['content-encoding', 'content-length', 'etag']) assert.equal(head.headers[name], undefined);
      assert.equal(head.status, 200);
    }
  });
}

test('a passed request without an accepted coding asks its node for none', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  for (const value of [undefined, '', 'identity', 'deflate', 'gzip;q=0', 'identity, gzip;q=0.5', ' '.repeat(300)]) {
    const reply = await gateway.get('/accounts/0x1?x=1', value === undefined ? {} : { 'accept-encoding': value });
    assert.equal(reply.headers['content-encoding'], undefined, value);
    assert.equal(node.lastRead?.headers['accept-encoding'], undefined, value);
  }
});

test('a passed request asks its node for the accepted codings, the preferred one first', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const asked = [
    ['gzip, deflate, br, zstd', 'zstd, br, gzip'],
    ['gzip;q=1.0, br;q=0.5, *;q=0', 'gzip, br'],
    ['*', 'zstd, br, gzip'],
    ['identity;q=0.6, gzip, br;q=0.5', 'gzip'],
  ] as const;
  for (const [given, sent] of asked) {
    await gateway.get('/accounts/0x1?x=1', { 'accept-encoding': given });
    assert.equal(node.lastRead?.headers['accept-encoding'], sent);
  }
});

test('cacheable reads are sent without accepted codings', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const path = '/accounts/0x1/module/coin?ledger_version=5';

  const reply = await gateway.get(path, { 'accept-encoding': 'gzip' });

  assert.equal(node.lastRead?.headers['accept-encoding'], undefined);
  assert.equal(reply.headers['content-encoding'], 'gzip');
  assert.match((await gateway.get(path)).headers['cache-status'] ?? '', /hit/);
});

test('HEAD of a passed answer has the headers of GET, in the same coding', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const headers = { 'accept-encoding': 'gzip' };

  const [get, head] = [
    await gateway.get('/accounts/0x1?x=1', headers),
    await gateway.send('HEAD', '/accounts/0x1?x=1', { headers }),
  ];

  assert.equal(get.headers['content-encoding'], 'gzip');
  assert.equal(head.body.length, 0);
  for (const name of ['content-encoding', 'content-length', 'content-type', 'vary'])
    assert.equal(head.headers[name], get.headers[name], name);
});

test('304 of a node passes with the tag of the coded answer, and Range reaches no node', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const headers = { ...ledger, etag: '"coded"', 'content-encoding': 'gzip' };
  node.faults.add(
    { kind: 'answer', status: 304, body: '', headers },
    { when: ({ url }) => url.includes('/transactions?') },
  );
  const asked = { 'accept-encoding': 'gzip', 'if-none-match': '"coded"', range: 'bytes=0-5' };

  const reply = await gateway.get(list, asked);

  const seen = node.lastRead?.headers;
  assert.deepEqual([reply.status, reply.body.length, reply.headers['etag']], [304, 0, '"coded"']);
  // RFC 9110 15.4.5: a cache would take it for the type of its stored answer.
  assert.equal(reply.headers['content-type'], undefined);
  assert.deepEqual([seen?.['if-none-match'], seen?.range], ['"coded"', undefined]);
});

for (const coding of ['gzip', 'br', 'zstd'] as const) {
  test(`errors that a node codes in ${coding} are read: pruned elsewhere, and passed as they are`, async (t) => {
    const { full, archival, gateway } = await twoTiers(t, {}, { oldest: 100n });
    const at = (status: number, error: string): void => {
      const body = coders[coding](error);
      const fault = { kind: 'answer', status, body, headers: { ...ledger, 'content-encoding': coding } } as const;
      full.faults.add(fault, { when: ({ route }) => route === 'account', times: 1 });
    };

    at(500, errorBody('internal_error', 'Ledger version(300) has been pruned'));
    const repaired = await gateway.get('/accounts/0x1?ledger_version=300&x=1');
    assert.deepEqual([repaired.status, archival.reads], [200, 1]);

    at(403, errorBody('api_disabled', 'not here'));
    const elsewhere = await gateway.get('/accounts/0x1?ledger_version=800&x=1', { 'accept-encoding': coding });
    assert.deepEqual([elsewhere.status, archival.reads], [200, 2]);
    at(410, errorBody('version_pruned', 'Ledger version(301) has been pruned'));
    const refused = await gateway.get('/accounts/0x1?ledger_version=301&x=1', { 'accept-encoding': coding });
    assert.deepEqual([refused.status, archival.reads], [200, 3]);

    const error = errorBody('account_not_found', 'Account not found');
    at(404, error);
    const coded = await gateway.get('/accounts/0x1?ledger_version=800&x=1', { 'accept-encoding': coding });
    at(404, error);
    const plain = await gateway.get('/accounts/0x1?ledger_version=800&x=1');
    assert.deepEqual([coded.status, coded.headers['content-encoding']], [404, coding]);
    assert.equal(readers[coding](coded.body).toString(), error);
    assert.deepEqual([plain.status, plain.headers['content-encoding'], plain.text], [404, undefined, error]);
  });
}

/** So small that it is read whole before it is passed, whatever the coding. */
const small = JSON.stringify(['ab'.repeat(2_000)]);

const unreadable = [
  ['a coding that is not known', 'compress', Buffer.from(small)],
  ['two codings', 'gzip, br', brotliCompressSync(gzipSync(small))],
  ['a body that is not in the coding it names', 'gzip', Buffer.from(small)],
  ['a coded body that is cut', 'br', brotliCompressSync(small).subarray(0, -3)],
  ['bytes behind the coded body', 'zstd', Buffer.concat([zstdCompressSync(small), zstdCompressSync('x')])],
  ['a window of 128 MB', 'zstd', zstdCompressSync(Buffer.alloc(1 << 26, ' '), { params: { 101: 27 } })],
] as const;

for (const [what, coding, body] of unreadable) {
  test(`${what} is no answer: another node gives it`, async (t) => {
    const broken = await nodeIn(t, coding, body);
    broken.clock.oldest = 3n;
    const whole = await fakeNode(t, { head: 900n });
    whole.faults.add(
      { kind: 'answer', status: 200, body: small, headers: ledger },
      { when: ({ url }) => url.includes('/transactions?') },
    );
    const gateway = await testGateway(t, { full: [broken], archival: [whole] });
    const both = [{}, { 'accept-encoding': coding }];

    for (const headers of both) {
      const reply = await gateway.get(list, headers);
      assert.deepEqual([reply.status, plainOf(reply)], [200, small]);
    }

    assert.deepEqual([broken.reads, whole.reads], [2, 2]);
    whole.fault = { kind: 'unavailable' };
    for (const headers of both) assert.equal((await gateway.get(list, headers)).status, 503);
  });
}

test('a large answer whose coding breaks on the way is cut off', async (t) => {
  const coded = gzipSync(noise);
  coded.fill(0, 70_000);
  const node = await nodeIn(t, 'gzip', coded);
  const gateway = await testGateway(t, { full: [node] });
  await assert.rejects(gateway.get(list));
});

test('a client that hangs up while its answer is decoded frees the connection to the node at once', async (t) => {
  const coded = gzipSync(noise);
  const left = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    if (request.url?.includes('/transactions?') !== true) {
      response.writeHead(200, { ...ledger, 'content-type': 'application/json' }).end('{}');
      return;
    }
    // The rest never comes.
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip', 'content-length': coded.length };
    response.writeHead(200, { ...ledger, ...headers }).write(coded.subarray(0, 70_000));
    response.once('close', () => left.resolve());
  });
  const port = await listen(t, server);
  const url = `http://127.0.0.1:${port}/v1`;
  const upstream = { timeoutMs: 60_000, deadlineMs: 60_000 };
  const gateway = await testGateway(t, { full: [{ url }], config: { upstream } });
  const socket = connect(gateway.port, '127.0.0.1');
  socket.write(`GET /v1${list} HTTP/1.1\r\nHost: a\r\n\r\n`);
  await once(socket, 'data');

  socket.destroy();

  // Far from the bound on a node that sends nothing, which is a minute here.
  await left.promise;
});

test('a coded answer beyond the decoded bound is refused, and does not count against the node', async (t) => {
  const error = gzipSync(Buffer.alloc(80 * 1024 * 1024));
  const node = await fakeNode(t, { head: 900n });
  const headers = { ...ledger, 'content-encoding': 'gzip' };
  node.faults.add(
    { kind: 'answer', status: 404, body: error, headers },
    { when: ({ url }) => url.includes('/transactions?') },
  );
  const gateway = await testGateway(t, { full: [node], config: { upstream: patient } });

  assert.equal((await gateway.get(list, { 'accept-encoding': 'gzip' })).status, 503);
  assert.equal(await gateway.metric('ledgergate_upstream_failures_total{upstream="full-0",kind="size"}'), 1);
  assert.equal((await gateway.get('/accounts/0x1?ledger_version=5')).status, 200);
});
