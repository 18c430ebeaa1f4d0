/**
 * A node gives an invalid answer: another node is asked, the cache stores nothing of it, and
 * without another node the client gets the gateway's own 503. Every invalid answer is in
 * test/upstream/dispatch/{validate,node-answers}.test.ts and test/proxy/reads/asked-content.test.ts; here each way of
 * reading and passing meets some.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { syntheticTransactionHash } from '../../../src/sample/synthetic.ts';
import { purge } from '../../support/admin.ts';
import { distortingNode } from '../../support/distorting-node.ts';
import { type FakeNode, fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { headerLines, rawNode } from '../../support/raw-node.ts';

const ledger = { version: 900n, oldest: 500n };
/** An unknown parameter leaves a read to a node. */
const passed = '/accounts/0x1?x=1';
const bcs = { accept: 'application/x-bcs' };
const wrong = '{"type":"0x1::ledgergate_sample::Probe","data":{"address":"0x1","ledger_version":"1"}}';

const error = '{"message":"m","error_code":"internal_error","vm_error_code":null}';
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

const bad: readonly Bad[] = [
  { what: 'a web page', contentType: 'text/html', body: '<html>Sign in</html>' },
  { what: 'JSON for BCS', body: wrong, accept: bcs },
  { what: 'an error of a node as a success', body: error },
  { what: 'a status of submissions for a passed-through read', status: 202, body: '{}', path: passed },
  { what: 'an error as the newest list', body: error, path: '/accounts/0x1/transactions', ...ahead },
  { what: 'an error as the gas price', body: error, path: '/estimate_gas_price', ...ahead },
  { what: 'no ledger headers', headers: '', body: wrong },
  {
    what: 'a version that it has not got to',
    headers: headerLines({ version: 599n, oldest: 500n }),
    body: wrong,
  },
  { what: 'another chain', headers: headerLines({ ...ledger, chainId: 99 }), body: wrong, kind: 'chain' },
  { what: 'less than it announced', framing: length(wrong.length + 1), body: wrong, kind: 'connection' },
  { what: 'a page that forbids it', status: 403, contentType: 'text/html', headers: '', body: '<h1>403</h1>' },
  { what: 'a redirection of a passed-through read', status: 302, headers: '', body: '', path: passed },
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

  test(`${what}: another node is asked, and without another one the client gets 503`, async (t) => {
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

    await purge(gateway, { everything: true });
    await good.refuse();
    const asked = liar.reads;
    const refused = await gateway.get(target, accept);

    assert.deepEqual([refused.status, refused.headers['retry-after']], [503, '1']);
    const told = JSON.parse(refused.text) as Record<string, unknown>;
    assert.deepEqual([told['error_code'], told['vm_error_code']], ['internal_error', null]);
    // A node of another chain is not asked at all.
    assert.ok(kind === 'chain' || liar.reads > asked, 'the bad node was asked again');
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
  'a hash': `/transactions/by_hash/0x${'ab'.repeat(32)}`,
  'a block': '/blocks/by_height/15000',
  'a passed-through block': '/blocks/by_height/15000?x=1',
};
const whole = '{"message":"Resource not found","error_code":"resource_not_found","vm_error_code":null}';
const bodies = {
  'an empty body': { body: '' },
  'a body that was cut': { body: whole.slice(0, 40) },
  'a page': { body: '<h1>404</h1>', contentType: 'text/html' },
  'an object without error_code': { body: '{"message":"m"}' },
};
const archivalLedger = ledgerHeaders({ version: 90_000n, oldest: 50_000n });

for (const [index, [what, path]] of Object.entries(paths).entries()) {
  test(`404 and 410 with ledger headers and no readable error_code, for ${what}: the archive answers`, async (t) => {
    const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
    const archive = await fakeNode(t, { archival: true, head: 90_000n, chainId: 4 });
    const gateway = await testGateway(t, { full: [bad], archival: [archive] });
    const direct = await fetch(archive.url + path);
    const expected = Buffer.from(await direct.arrayBuffer());
    // Each path meets two of the bodies, and each body both statuses.
    for (const [turn, status] of [404, 410].entries()) {
      const [fault, body] = Object.entries(bodies)[(index + turn) % 4] ?? assert.fail();
      bad.fault = undefined;
      bad.faults.add(
        { kind: 'answer', status, contentType: 'application/json', ...body, headers: archivalLedger },
        { when: ({ route }) => route !== 'ledgerInfo' },
      );
      await purge(gateway, { everything: true });
      const before = bad.reads;

      const reply = await gateway.get(path);

      assert.deepEqual([reply.status, reply.body], [direct.status, expected], `${status} with ${fault}`);
      assert.equal(bad.reads, before + 1, `${status} with ${fault}`);
      const failures = 'ledgergate_upstream_failures_total{upstream="full-0",kind="bad answer"}';
      assert.equal(await gateway.metric(failures), turn + 1, `${status} with ${fault}`);
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

test('400 with ledger headers and no readable error_code: the other node answers', async (t) => {
  const bad = await fakeNode(t, { oldest: 50_000n, head: 90_000n, chainId: 4 });
  const good = await fakeNode(t, { head: 90_000n, chainId: 4 });
  const gateway = await testGateway(t, { full: [bad, good] });
  bad.faults.add(
    { kind: 'answer', status: 400, body: '', headers: archivalLedger },
    { when: ({ route }) => route !== 'ledgerInfo' },
  );

  const reply = await gateway.get(pinnedProbe);

  assert.equal(reply.status, 200);
  assert.equal(bad.requestsTo('resource'), 1);
});

test('413 for a view, which nodes give without an error_code, is the answer; for a read without a body it is none', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 90_000n, chainId: 4 });
  node.faults.add({ kind: 'answer', status: 413, body: 'payload too large', contentType: 'text/plain' });
  const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: [] });

  const posted = await gateway.post('/view?ledger_version=60000', view);
  const read = await gateway.get(pinnedProbe);

  assert.deepEqual([posted.status, posted.text, read.status], [413, 'payload too large', 503]);
});

// One node of three crosses answers: it answers each read with another item's answer, or with one that lacks or repeats a
// part. Wherever nodes must send what tells the two apart, another node is asked, and the cache keeps nothing of it.

type Form = 'json' | 'bcs';
type Item = Readonly<Record<string, unknown>>;

/** Another path, whose answer the node gives instead, or a change of the right answer. */
interface Crossed {
  readonly json?: string | ((value: never) => unknown);
  readonly bcs?: string | ((body: Buffer) => Buffer);
}

const at = '?ledger_version=600';
const flag = '?with_transactions=true';
const account = '/accounts/0x5a000001';
const accountResource = '/accounts/0x1/resource/0x1::account::Account';
const coins = '0x1::coin::CoinInfo<0x1::aptos_coin::AptosCoin>';
const byHash = (version: bigint): string => `/transactions/by_hash/${syntheticTransactionHash(version)}`;
const both = (other: string): Crossed => ({ json: other, bcs: other });

/** Each row: the read, and answers that it must not get. */
const rows: readonly (readonly [path: string, crossed: Crossed])[] = [
  [probeAt(600), { json: accountResource + at }],
  [`/accounts/0x1/resource/${coins}${at}`, { json: ({ data }: Item) => ({ type: '0x1::coin::CoinInfo', data }) }],
  [`/accounts/0x1/module/coin${at}`, { json: `/accounts/0x1/module/account${at}` }],
  [account + at, { json: ({ sequence_number }: Item) => ({ sequence_number }), bcs: `/accounts/0x1${at}` }],
  [
    `${account}/balance/0x1::aptos_coin::AptosCoin${at}`,
    { json: () => '1152921504606847576', bcs: (body) => body.subarray(0, 7) },
  ],
  [`/accounts/0x1/modules${at}&limit=5`, { json: `/accounts/0x3/modules${at}` }],
  [`/accounts/0x1/resources${at}&limit=5`, { json: `/accounts/0x3/modules${at}` }],
  [byHash(600n), both(byHash(601n))],
  ['/transactions/by_version/600', both('/transactions/by_version/601')],
  ['/transactions?start=600&limit=10', both('/transactions?start=599&limit=10')],
  [
    '/transactions/auxiliary_info?start_version=600&limit=10',
    both('/transactions/auxiliary_info?start_version=600&limit=11'),
  ],
  ['/blocks/by_height/30', both('/blocks/by_height/31')],
  ['/blocks/by_height/30', both(`/blocks/by_height/30${flag}`)],
  [`/blocks/by_version/600${flag}`, both(`/blocks/by_version/620${flag}`)],
  [`/blocks/by_version/600${flag}`, both('/blocks/by_version/600')],
  [`${account}/events/4?start=5&limit=10`, both(`${account}/events/5?start=5&limit=10`)],
  [
    `${account}/events/0x1::ledgergate_sample::Probe/events?start=5&limit=10`,
    both(`${account}/events/4?start=6&limit=10`),
  ],
  ['/transactions?limit=5', { json: (items: Item[]) => items.toSpliced(2, 1) }],
  [`${account}/events/4?limit=5`, both('/accounts/0x5a000002/events/4?limit=5')],
  [`${account}/transactions?limit=5`, { json: '/accounts/0x5a000002/transactions?limit=5' }],
  [`${account}/transaction_summaries?limit=5`, { json: '/accounts/0x5a000002/transaction_summaries?limit=5' }],
  ['/view', { json: () => 5 }],
];

const version = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

async function ask(node: FakeNode, path: string, form: Form): Promise<Buffer> {
  const accept = `application/${form === 'json' ? 'json' : 'x-bcs'}`;
  const post = { method: 'POST', body: version, headers: { accept, 'content-type': 'application/json' } };
  const reply = await fetch(node.url + path, path === '/view' ? post : { headers: { accept } });
  assert.equal(reply.status, 200, path);
  return Buffer.from(await reply.arrayBuffer());
}

async function crossedBody(good: FakeNode, path: string, crossed: Crossed, form: Form): Promise<Buffer | undefined> {
  const change = crossed[form];
  if (change === undefined) return undefined;
  if (typeof change === 'string') return ask(good, change, form);
  const body = await ask(good, path, form);
  return form === 'bcs'
    ? (change as (body: Buffer) => Buffer)(body)
    : Buffer.from(JSON.stringify(change(JSON.parse(body.toString()) as never)));
}

interface Fleet {
  readonly good: FakeNode;
  readonly wrong: { readonly reads: number };
  readonly gateway: TestGateway;
  /** The answer of the first node to each read from now on. */
  crossed: Buffer;
}

/** A gateway whose first node crosses answers. */
async function crossingFleet(t: TestContext): Promise<Fleet> {
  const [source, good] = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })];
  const wrong = await distortingNode(t, source, (said, { isLook }) =>
    isLook ? said : { ...said, status: 200, body: fleet.crossed },
  );
  const gateway = await testGateway(t, { full: [wrong], archival: [good, await fakeNode(t, { head: 900n })] });
  const fleet: Fleet = { good, wrong, gateway, crossed: Buffer.alloc(0) };
  return fleet;
}

for (const [path, crossed] of rows) {
  const others = [crossed.json, crossed.bcs].map((change) => (typeof change === 'string' ? change : 'another body'));
  test(`a read of ${path} is never answered by ${others[0]}, in either form, and another node is asked`, async (t) => {
    const fleet = await crossingFleet(t);
    const { good, wrong, gateway } = fleet;
    for (const form of ['json', 'bcs'] as const) {
      const body = await crossedBody(good, path, crossed, form);
      if (body === undefined) continue;
      fleet.crossed = body;
      const right = await ask(good, path, form);
      assert.notDeepEqual(body, right, 'the crossed answer differs');
      const headers = { accept: `application/${form === 'json' ? 'json' : 'x-bcs'}` };
      const before = wrong.reads;
      const read = () => (path === '/view' ? gateway.post(path, version, headers) : gateway.get(path, headers));

      for (const reply of [await read(), await read()])
        assert.deepEqual([reply.status, reply.body], [200, right], form);
      assert.ok(wrong.reads > before, 'the node that crosses answers was asked');
    }
    const failures = await gateway.metric('ledgergate_upstream_failures_total{upstream="full-0",kind="bad answer"}');
    assert.ok(failures >= 1, 'counted against the node');
  });
}

test('a node that crosses answers is down after two', async (t) => {
  const fleet = await crossingFleet(t);
  fleet.crossed = await ask(fleet.good, accountResource + at, 'json');

  for (const version of [600, 601]) {
    const { text } = await fleet.gateway.get(probeAt(version));
    assert.ok(text.includes(`"ledger_version":"${version}"`), text);
  }

  const { state, reason } = fleet.gateway.fleet()[0] ?? {};
  assert.deepEqual([fleet.wrong.reads, state, reason], [2, 'down', 'bad answer']);
});
