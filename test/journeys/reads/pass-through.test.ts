import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { after, beforeEach, test, type TestContext } from 'node:test';
import {
  gunzipSync,
  gzipSync,
  brotliCompressSync,
  brotliDecompressSync,
  deflateSync,
  zstdCompressSync,
  zstdDecompressSync,
} from 'node:zlib';
import { errorBody } from '../../support/error-body.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, type Reply, testGateway, twoTiers, patient, statusesOf } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';

/** Of the tests that change neither ledger nor config. */
const { node, gateway } = await nodeAndGateway({ after });
beforeEach(() => node.faults.clear());

/** An unknown parameter leaves a read to a node. */
const paths = [
  '/-/healthy',
  '/accounts/0x1?x=1',
  '/estimate_gas_price?x=1',
  '/blocks/by_height/3?x=1',
  '/transactions/by_version/500?x=1',
];

test('a read that is left to a node passes byte for byte with live ledger headers', async () => {
  for (const path of paths) {
    const direct = await fetch(node.url + path);
    const reply = await gateway.get(path);

    assert.deepEqual([reply.status, reply.text], [direct.status, await direct.text()], path);
    assert.equal(reply.headers['x-node-ledger-version'], '900', path);
    assert.equal(reply.headers['cache-control'], 'no-store', path);
  }
});

test('a passed read of a pruned version is routed and repaired as our own reads are', async (t) => {
  const { full, archival, gateway } = await twoTiers(t, {}, { oldest: 100n });
  full.clock.oldest = 500n;

  const repaired = await gateway.get('/accounts/0x1?ledger_version=300&x=1');
  const routed = await gateway.get('/transactions/by_version/250?x=1');

  assert.deepEqual([repaired.status, routed.status], [200, 200]);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 1, archival: 2 });
});

test('a large answer that breaks off is cut off for the client as well', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  node.faults.add({ kind: 'answer', status: 200, body: JSON.stringify(' '.repeat(200_000)), headers: ledger });
  node.faults.add({ kind: 'truncated body' });

  await assert.rejects(gateway.get('/blocks/by_height/3?x=1'));
});

test('another node gives a small answer that broke off', async (t) => {
  const broken = await fakeNode(t, { oldest: 400n, head: 900n });
  const whole = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [broken, whole] });
  broken.fault = { kind: 'truncated body' };

  const reply = await gateway.get('/blocks/by_version/500?x=1');

  assert.equal(reply.status, 200);
  assert.deepEqual([broken.reads, whole.reads], [1, 1]);
  whole.fault = { kind: 'truncated body' };
  assert.equal((await gateway.get('/blocks/by_version/500?x=1')).status, 503);
});

test('long polls hold half of the connections to a node at most; more wait half a second for one, and reads go on', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { upstream: { connections: 4 } } });
  const resolve = node.hold({ when: ({ route }) => route === 'waitByHash' });
  const wait = (index: number) => gateway.get(`/transactions/wait_by_hash/0x${String(index).padStart(64, '0')}`);
  const held = [wait(1), wait(2)];
  await until(() => node.requestsTo('waitByHash') >= 2);

  const more = await Promise.all([3, 4, 5, 6].map(wait));
  const read = await gateway.get('/accounts/0x1/module/coin?ledger_version=800');

  assert.deepEqual(statusesOf([...more, read]), [404, 404, 404, 404, 200]);
  assert.deepEqual([node.requestsTo('waitByHash'), node.requestsTo('byHash')], [2, 4]);
  resolve();
  assert.deepEqual(statusesOf(await Promise.all(held)), [404, 404]);
  await wait(7);
  assert.equal(node.requestsTo('waitByHash'), 3);
});

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });

const cachingHeaders = {
  'cache-control': 'public, max-age=3600',
  expires: 'Wed, 21 Oct 2099 07:28:00 GMT',
  'last-modified': 'Wed, 21 Oct 2015 07:28:00 GMT',
  etag: '"of-some-version"',
  age: '5',
};

for (const maxStalenessMs of [200, 0]) {
  test(`freshness headers of nodes do not outlive the version that the gateway chose (staleness ${maxStalenessMs} ms)`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs } } });
    const fault = { kind: 'answer', status: 200, body: '{}', headers: { ...cachingHeaders, ...ledger } } as const;
    node.faults.add(fault, { when: ({ route }) => route !== 'ledgerInfo' });
    const kept = (headers: Reply['headers']) => Object.keys(cachingHeaders).filter((name) => name in headers);

    const latest = await gateway.get('/accounts/0x1?x=1', { 'if-none-match': '"of-some-version"' });
    const asked = node.lastRead;
    const pinned = await gateway.get('/accounts/0x1?ledger%5Fversion=5&x=1', { 'if-none-match': '"x"' });

    assert.equal(latest.headers['cache-control'], 'no-store');
    assert.deepEqual(kept(latest.headers), ['cache-control']);
    assert.equal(asked?.headers['if-none-match'], undefined);
    assert.deepEqual(kept(pinned.headers), Object.keys(cachingHeaders));
    assert.equal(node.lastRead?.url, '/v1/accounts/0x1?ledger%5Fversion=5&x=1');
    assert.equal(node.lastRead?.headers['if-none-match'], '"x"');
  });
}

test('a compressed view is a read of the latest state like any other', async () => {
  const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
  // Sample nodes do not read compressed bodies.
  node.faults.add(
    { kind: 'answer', status: 200, body: '["900"]', headers: ledger },
    { when: ({ route }) => route === 'view' },
  );

  const latest = await gateway.post('/view', gzipSync(body), { 'content-encoding': 'gzip' });
  const url = node.lastRead?.url;
  const tooNew = await gateway.post('/view', gzipSync(body), {
    'content-encoding': 'gzip',
    'ledgergate-min-version': '901',
  });

  assert.equal(latest.headers['ledgergate-served-version'], '900');
  assert.equal(url, '/v1/view?ledger_version=900');
  assert.equal(tooNew.status, 503);
});

test('a node\u2019s redirection does not reveal its address', async () => {
  node.fault = { kind: 'answer', status: 307, body: '', headers: { location: `${node.url}/elsewhere` } };

  for (const path of ['/spec', '/spec?x=1']) {
    const reply = await gateway.get(path);

    assert.equal(reply.status, 307);
    assert.equal(reply.headers['location'], undefined);
  }
});

/** test/proxy/routes/target.test.ts has further spellings. */
const hidden = ['/set_failpoint?name=x', '/experimental/state_values/r%61w', '/SET_failpoint%3Bx'];

test('routes for tests of nodes reach no node, in any spelling', async () => {
  const { reads } = node;
  for (const path of hidden) {
    for (const method of ['GET', 'POST'] as const) {
      const reply = await gateway.send(method, path, method === 'POST' ? { body: '{}' } : {});

      assert.equal(reply.status, 404, path);
      const error = { message: 'not found', error_code: 'web_framework_error', vm_error_code: null };
      assert.deepEqual(JSON.parse(reply.text), error, path);
      assert.equal(reply.headers['x-node-ledger-version'], '900', path);
    }
  }
  assert.equal(node.reads, reads);
});

test('an error that a node compresses unasked is decoded for cacheable reads, and not cached', async () => {
  const error = errorBody('resource_not_found', `Resource not found${' '.repeat(2_000)}`);
  const headers = { 'content-encoding': 'gzip', ...ledger };
  node.fault = { kind: 'answer', status: 404, body: gzipSync(error), headers };

  for (const acceptEncoding of ['identity', 'gzip', 'gzip']) {
    const path = '/accounts/0x1/resource/0x1::a::B?ledger_version=5';
    const reply = await gateway.get(path, { 'accept-encoding': acceptEncoding });

    const isCoded = acceptEncoding === 'gzip';
    assert.deepEqual([reply.status, reply.headers['content-encoding']], [404, isCoded ? 'gzip' : undefined]);
    assert.equal(isCoded ? gunzipSync(reply.body).toString() : reply.text, error);
    assert.doesNotMatch(reply.headers['cache-status'] ?? '', /hit/);
    assert.equal(reply.headers['cache-control'], 'no-store');
  }
  assert.equal(node.lastRead?.headers['accept-encoding'], undefined);
});

// Passed answers keep their node's coding if the client accepts it.

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
  test(`a passed list of ${body.length} bytes reaches the client as the node coded it`, async () => {
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

  test(`a passed list of ${body.length} bytes is decoded for a client that does not accept its coding`, async () => {
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

test('HEAD of a passed answer has the headers of GET, in the same coding', async () => {
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

test('304 of a node passes with the tag of the coded answer, and Range reaches no node', async () => {
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
