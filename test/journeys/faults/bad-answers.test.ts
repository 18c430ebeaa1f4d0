/**
 * A node gives an invalid answer: another node is asked, the cache stores nothing of it, and
 * without another node the client gets the gateway's own 503.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, probeAt, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { headerLines, rawNode } from '../../support/raw-node.ts';

const ledger = { version: 900n, oldest: 500n };
/** An unknown parameter leaves a read to a node. */
const passed = '/accounts/0x1?x=1';
const bcs = { accept: 'application/x-bcs' };
const wrong = '{"type":"0x1::ledgergate_sample::Probe","data":{"address":"0x1","ledger_version":"1"}}';

const error = '{"message":"m","error_code":"internal_error","vm_error_code":null}';
const transaction = (version: string): string => `{"type":"user_transaction","version":"${version}","success":true}`;
/** Of two nodes with one head, the full one is asked first. */
const ahead = { goodHead: 901n, goodTier: 'archival' } as const;

interface Bad {
  readonly what: string;
  /** Default 200. */
  readonly status?: number;
  readonly body: string;
  readonly contentType?: string;
  /** In the place of the node's own ledger headers. */
  readonly headers?: string;
  /** In the place of the right `Content-Length`. */
  readonly framing?: string;
  readonly path?: string;
  readonly accept?: Record<string, string>;
  /** Default 900. */
  readonly goodHead?: bigint;
  /** Tier of the good node, default full. */
  readonly goodTier?: 'full' | 'archival';
  /** What the failure is counted as. */
  readonly kind?: string;
}

const length = (bytes: number): string => `Content-Length: ${bytes}\r\n`;
const chunked = 'Transfer-Encoding: chunked\r\n';

const bad: readonly Bad[] = [
  { what: 'a web page', contentType: 'text/html', body: '<html>Sign in</html>' },
  { what: 'a web page said to be JSON', body: '<html>Sign in</html>' },
  { what: 'JSON said to be text', contentType: 'text/plain', body: wrong },
  { what: 'BCS for JSON', contentType: 'application/x-bcs', body: '\0' },
  { what: 'JSON for BCS', body: wrong, accept: bcs },
  { what: 'JSON cut off by what announces its length', body: wrong.slice(0, -1) },
  { what: 'nothing', body: '' },
  { what: 'an error of a node as a success', body: error },
  { what: 'an error without its last member as a success', body: '{"message":"m","error_code":"internal_error"}' },
  { what: 'an array in the place of a resource', body: '[]' },
  { what: 'null in the place of a resource', body: 'null' },
  { what: 'a status of submissions', status: 202, body: wrong },
  { what: 'a part of the body', status: 206, body: wrong.slice(0, 9) },
  { what: 'a status of submissions for a passed-through read', status: 202, body: '{}', path: passed },
  { what: 'another transaction', body: transaction('599'), path: '/transactions/by_version/600' },
  {
    what: 'another block',
    body: '{"block_height":"59","block_hash":"0x0"}',
    path: '/blocks/by_height/60',
    goodHead: 1800n,
  },
  {
    what: 'the block of another version',
    body: '{"block_height":"59","first_version":"590","last_version":"599"}',
    path: '/blocks/by_version/600',
  },
  { what: 'an error as the newest list', body: error, path: '/accounts/0x1/transactions', ...ahead },
  { what: 'an error as the gas price', body: error, path: '/estimate_gas_price', ...ahead },
  { what: 'no ledger headers', headers: '', body: wrong },
  { what: 'only some ledger headers', headers: headerLines(ledger).replace(/.*Epoch.*\r\n/, ''), body: wrong },
  { what: 'an oldest version above its head', headers: headerLines({ version: 900n, oldest: 901n }), body: wrong },
  { what: 'time zero', headers: headerLines({ ...ledger, timestampUsec: 0n }), body: wrong },
  {
    what: 'a version that it has not got to',
    headers: headerLines({ version: 599n, oldest: 500n }),
    body: wrong,
  },
  { what: 'another chain', headers: headerLines({ ...ledger, chainId: 99 }), body: wrong, kind: 'chain' },
  { what: 'less than it announced', framing: length(wrong.length + 1), body: wrong, kind: 'connection' },
  { what: 'more than it announced', framing: length(wrong.length - 1), body: wrong },
  {
    what: 'a chunk that breaks off',
    framing: chunked,
    body: `${wrong.length.toString(16)}\r\n${wrong.slice(0, 9)}`,
    kind: 'connection',
  },
  {
    what: 'chunks without an end',
    framing: chunked,
    body: `${wrong.length.toString(16)}\r\n${wrong}\r\n`,
    kind: 'connection',
  },
  { what: 'a chunk of no length', framing: chunked, body: `zz\r\n${wrong}\r\n0\r\n\r\n`, kind: 'connection' },
  { what: 'two lengths', framing: length(wrong.length) + length(9), body: wrong, kind: 'connection' },
  { what: 'a number whose end nobody announced', framing: '', body: '18446' },
  { what: 'BCS whose end nobody announced', framing: '', contentType: 'application/x-bcs', body: '\0', accept: bcs },
  { what: 'a page that forbids it', status: 403, contentType: 'text/html', headers: '', body: '<h1>403</h1>' },
  {
    what: 'a demand for credentials',
    status: 401,
    headers: '',
    body: '{"message":"no key","error_code":"unauthorized"}',
  },
  { what: 'a redirection', status: 302, contentType: 'text/html', headers: '', body: '' },
  { what: 'a redirection of a passed-through read', status: 302, headers: '', body: '', path: passed },
  { what: 'a page that says not found', status: 404, contentType: 'text/html', headers: '', body: '<h1>404</h1>' },
  // Handed on as they come: only their head can be judged.
  { what: 'a web page for a passed-through read', contentType: 'text/html', body: '<p>', path: passed },
  { what: 'no ledger headers on a passed-through read', headers: '', body: '{}', path: passed },
  { what: 'a passed-through body whose end nobody announced', framing: '', body: '{}', path: passed },
  {
    what: 'a passed-through version that it has not got to',
    headers: headerLines({ version: 599n, oldest: 500n }),
    body: '{}',
    path: passed,
  },
  {
    what: 'a block that it has not got to',
    headers: headerLines({ version: 599n, oldest: 500n }),
    body: '{}',
    path: '/blocks/by_height/60',
    goodHead: 1800n,
  },
  {
    what: 'a web page for the newest list',
    contentType: 'text/html',
    body: '<p>',
    path: '/accounts/0x1/transactions',
    // A list that is older than the shared latest version is no answer; of two nodes with one head, the full one is asked first.
    goodHead: 901n,
    goodTier: 'archival',
  },
  {
    what: 'a web page for a passed-through list',
    contentType: 'text/html',
    body: '<p>',
    path: '/accounts/0x1/transactions?x=1',
  },
];

for (const { what, contentType = 'application/json', headers = headerLines(ledger), body, ...row } of bad) {
  const {
    framing = length(body.length),
    path = probe,
    accept = {},
    kind = 'bad answer',
    goodHead = 900n,
    goodTier = 'full',
    status = 200,
  } = row;
  const pinned = `${path}${path.includes('?') ? '&' : '?'}ledger_version=600`;
  const target = /blocks|transactions|gas_price/.test(path) ? path : pinned;
  const wire = `HTTP/1.1 ${status} Said\r\nContent-Type: ${contentType}\r\nConnection: close\r\n${framing}${headers}\r\n${body}`;
  const failure = `ledgergate_upstream_failures_total{upstream="full-0",kind="${kind}"}`;

  test(`${what}: another node is asked`, async (t) => {
    // Shallower, so asked first; where the newest state is asked for, a little ahead.
    const liar = await rawNode(t, { version: 901n, oldest: 500n }, wire);
    const good = await fakeNode(t, { head: goodHead, chainId: 4 });
    const gateway = await testGateway(
      t,
      goodTier === 'full' ? { full: [liar, good] } : { full: [liar], archival: [good] },
    );

    const replies = [await gateway.get(target, accept), await gateway.get(target, accept)];

    const direct = await fetch(good.url + target, { headers: accept });
    const bytes = Buffer.from(await direct.arrayBuffer());
    for (const reply of replies) assert.deepEqual([reply.status, reply.body], [direct.status, bytes]);
    assert.ok(liar.reads >= 1, 'the bad node was asked');
    assert.ok((await gateway.metric(failure)) >= 1, `counted as ${kind}`);
    assert.notEqual(bytes.toString(), body);
  });

  // The chain of a single node is the fleet's.
  if (kind === 'chain') continue;
  test(`${what}, and no other node: 503`, async (t) => {
    const liar = await rawNode(t, ledger, wire);
    const gateway = await testGateway(t, { full: [liar] });

    const reply = await gateway.get(target, accept);

    assert.equal(reply.status, 503);
    assert.equal(reply.headers['retry-after'], '1');
    const told = JSON.parse(reply.text) as Record<string, unknown>;
    assert.deepEqual([told['error_code'], told['vm_error_code']], ['internal_error', null]);
    assert.equal(await gateway.metric('ledgergate_cache_entries{tier="memory"}'), 0);
  });
}

test('a closed JSON object without an announced length is passed on, and not stored', async (t) => {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n${headerLines(ledger)}`;
  const node = await rawNode(t, ledger, `${head}\r\n${wrong}`);
  const gateway = await testGateway(t, { full: [node] });

  const replies = [await gateway.get(probeAt(600)), await gateway.get(probeAt(600))];

  for (const { status, text } of replies) assert.deepEqual([status, text], [200, wrong]);
  assert.equal(node.reads, 2);
});

test('answers about nodes themselves may be of any form, and without ledger headers', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const paths = ['/spec', '/spec.yaml', '/info', '/something/new'];
  const page = { kind: 'answer', status: 200, body: '<!doctype html>', contentType: 'text/html' } as const;
  node.faults.add(page, { when: ({ route }) => route !== 'ledgerInfo' });

  for (const path of paths) {
    const { status, text } = await gateway.get(path);
    assert.deepEqual([status, text], [200, page.body], path);
  }
  assert.equal(gateway.fleet()[0]?.state, 'usable');
});

// An error without the specified body (protocol 3) proves nothing about the ledger: another node is asked.

const pinnedProbe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=60000';
const paths = {
  'a version': pinnedProbe,
  'a version in BCS': pinnedProbe,
  'a hash': `/transactions/by_hash/0x${'ab'.repeat(32)}`,
  'a block': '/blocks/by_height/15000',
  'a version in the path': '/transactions/by_version/60000',
  'a passed-through block': '/blocks/by_height/15000?x=1',
  'a passed-through version in the path': '/transactions/by_version/60000?x=1',
};
const whole = '{"message":"Resource not found","error_code":"resource_not_found","vm_error_code":null}';
const bodies = {
  'an empty body': { body: '' },
  'a body that was cut': { body: whole.slice(0, 40) },
  'a page': { body: '<h1>404</h1>', contentType: 'text/html' },
  'an object without error_code': { body: '{"message":"m"}' },
};
const archivalLedger = ledgerHeaders({ version: 90_000n, oldest: 50_000n });

for (const [what, path] of Object.entries(paths)) {
  const accept = what.endsWith('BCS') ? 'application/x-bcs' : 'application/json';
  test(`404 and 410 with ledger headers and no readable error_code, for ${what}: the archive answers`, async (t) => {
    const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const archive = await fakeNode(t, { archival: true, head: 90_000n, chainId: 4 });
    const direct = await fetch(archive.url + path, { headers: { accept } });
    const expected = Buffer.from(await direct.arrayBuffer());
    for (const status of [404, 410]) {
      for (const [fault, { body, ...rest }] of Object.entries(bodies)) {
        const gateway = await testGateway(t, { full: [bad], archival: [archive] });
        bad.fault = undefined;
        bad.faults.add(
          { kind: 'answer', status, body, contentType: 'application/json', ...rest, headers: archivalLedger },
          { when: ({ route }) => route !== 'ledgerInfo' },
        );
        const before = bad.reads;

        const reply = await gateway.get(path, { accept });

        assert.deepEqual([reply.status, reply.body], [direct.status, expected], `${status} with ${fault}`);
        assert.equal(bad.reads, before + 1, `${status} with ${fault}`);
        const failures = 'ledgergate_upstream_failures_total{upstream="full-0",kind="bad answer"}';
        assert.equal(await gateway.metric(failures), 1, `${status} with ${fault}`);
      }
    }
  });
}

test('after a compressed 404 for a hash, the archive is asked', async (t) => {
  const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
  const archive = await fakeNode(t, { archival: true, head: 90_000n, chainId: 4 });
  const gateway = await testGateway(t, { full: [bad], archival: [archive] });
  const body = gzipSync(whole.replaceAll('resource', 'transaction'));
  const headers = { ...archivalLedger, 'content-encoding': 'gzip' };
  bad.faults.add({ kind: 'answer', status: 404, body, headers }, { when: ({ route }) => route !== 'ledgerInfo' });

  const reply = await gateway.get(paths['a hash']);

  assert.deepEqual([reply.status, reply.text.includes('transaction_not_found')], [404, true]);
  assert.equal(archive.reads, 1);
});

for (const status of [400, 403, 405, 415]) {
  test(`${status} with ledger headers and no readable error_code: the other node answers`, async (t) => {
    const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [bad, good] });
    bad.faults.add(
      { kind: 'answer', status, body: '', headers: archivalLedger },
      { when: ({ route }) => route !== 'ledgerInfo' },
    );

    const reply = await gateway.get(pinnedProbe);

    assert.equal(reply.status, 200);
    assert.equal(bad.requestsTo('resource'), 1);
  });
}

test('413 for a view, which nodes give without an error_code, is the answer; for a read without a body it is none', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 90_000n, chainId: 4 });
  node.faults.add({ kind: 'answer', status: 413, body: 'payload too large', contentType: 'text/plain' });
  const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });

  const posted = await gateway.post('/view?ledger_version=60000', view);
  const read = await gateway.get(pinnedProbe);

  assert.deepEqual([posted.status, posted.text, read.status], [413, 'payload too large', 503]);
});
