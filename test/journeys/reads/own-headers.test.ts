/** Further headers of the ledger family: those of one answer, stored with it; and the key of an epoch, live on every answer. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Dialect, LedgerInfo } from '../../../src/ledger/ledger-headers.ts';
import { encodeVectors } from '../../../src/sample/recorded.ts';
import type { ReceivedRequest } from '../../../src/sample/sample-node.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode, type FakeNodeOptions } from '../../support/fake-node.ts';
import {
  type LogLine,
  probe,
  probeAt,
  type Reply,
  testGateway,
  type TestGateway,
  type TestGatewayOptions,
} from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { redisAt, redisTest } from '../../support/redis-server.ts';
import type { SampleNodeOptions } from '../../support/sample-node.ts';

// Unknown headers that belong to one answer: handed on with it, stored with it, replayed with it.

const memory = 'ledgergate; hit; detail=memory';
const viewBody = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const isRead = ({ route }: ReceivedRequest): boolean => route === 'resource' || route === 'view';

/** A header that names the target of its answer. */
function ownOf(dialect: Dialect['name']): FakeNodeOptions {
  return {
    dialect,
    headers: (request) =>
      isRead(request) ? { [`x-${dialect}-yield`]: `of ${decodeURIComponent(request.url)}` } : ({} as const),
  };
}

/** A gateway that has seen the header and looked at the ledger info since. */
async function settledGateway(
  t: TestContext,
  node: FakeNode,
  dialect: Dialect['name'] = 'node',
  config: TestGatewayOptions['config'] = {},
): Promise<TestGateway> {
  const gateway = await testGateway(t, { full: [node], config }, dialect);
  await until(async () => (await gateway.get(probeAt(1))).headers['cache-status'] === memory);
  return gateway;
}

const shown = ({ status, headers }: Reply, dialect: Dialect['name'] = 'node') => [
  status,
  headers['cache-status'],
  headers[`x-${dialect}-yield`],
];

for (const dialect of ['node', 'aptos'] as const) {
  test(`an answer's own header comes with the miss and with every hit (${dialect})`, async (t) => {
    const node = await fakeNode(t, ownOf(dialect));
    const gateway = await settledGateway(t, node, dialect);
    const path = probeAt(600);
    const value = `of /v1${path}`;

    assert.deepEqual(shown(await gateway.get(path), dialect), [200, 'ledgergate; fwd=miss; detail=full-0', value]);
    const hit = await gateway.get(path);
    assert.deepEqual(shown(hit, dialect), [200, memory, value]);
    assert.deepEqual(shown(await gateway.get(path), dialect), [200, memory, value], 'prepared');
    assert.deepEqual(shown(await gateway.send('HEAD', path), dialect), [200, memory, value]);
    const origin = { origin: 'https://a.example' };
    assert.deepEqual(shown(await gateway.get(path, origin), dialect), [200, memory, value], 'by the server');
    const condition = { 'if-none-match': hit.headers['etag'] ?? '' };
    assert.deepEqual(shown(await gateway.get(path, condition), dialect), [304, memory, value]);

    const latest = [await gateway.get(probe), await gateway.get(probe)];
    const pinned = `of /v1${probe}?ledger_version=1000`;
    assert.deepEqual(
      latest.map(({ headers }) => headers[`x-${dialect}-yield`]),
      [pinned, pinned],
    );
    const views = [0, 1].map(() => gateway.post('/view?ledger_version=600', viewBody));
    for (const view of await Promise.all(views)) {
      assert.equal(view.headers[`x-${dialect}-yield`], 'of /v1/view?ledger_version=600');
    }
    const again = await gateway.post('/view?ledger_version=600', viewBody);
    assert.deepEqual(shown(again, dialect), [200, memory, 'of /v1/view?ledger_version=600']);
    const error = await gateway.get('/accounts/0x1/resource/0x1::a::B?ledger_version=600');
    assert.equal(error.status, 404);
    assert.match(error.headers[`x-${dialect}-yield`] ?? '', /0x1::a::B/);
  });
}

test('the first answer with an unknown header is stored with it, and asks for one look at the ledger info', async (t) => {
  const node = await fakeNode(t, ownOf('node'));
  const gateway = await testGateway(t, { full: [node] });
  const looks = node.requestsTo('ledgerInfo');
  const value = `of /v1${probeAt(600)}`;

  const replies = [await gateway.get(probeAt(600)), await gateway.get(probeAt(600))];
  assert.deepEqual(
    replies.map((reply) => shown(reply)),
    [
      [200, 'ledgergate; fwd=miss; detail=full-0', value],
      [200, memory, value],
    ],
  );
  for (let version = 601; version < 640; version += 1) await gateway.get(probeAt(version));
  await until(() => node.requestsTo('ledgerInfo') > looks);
  assert.equal(node.requestsTo('ledgerInfo'), looks + 1);
});

redisTest('Redis keeps the header; a replica of the other dialect writes it in its own name', async (t, server) => {
  const cache = { redis: redisAt(server.url) };
  const [node, other] = [await fakeNode(t, ownOf('node')), await fakeNode(t, ownOf('aptos'))];
  const a = await settledGateway(t, node, 'node', { cache });
  const [b, c] = await Promise.all([
    testGateway(t, { full: [node], config: { cache } }),
    testGateway(t, { full: [other], config: { cache } }, 'aptos'),
  ]);
  const written = await a.metric('ledgergate_redis_writes_total{outcome="written"}');
  const first = await a.get(probeAt(600));
  await until(async () => (await a.metric('ledgergate_redis_writes_total{outcome="written"}')) > written);

  const value = `of /v1${probeAt(600)}`;
  assert.deepEqual(shown(await b.get(probeAt(600))), [200, 'ledgergate; hit; detail=redis', value]);
  assert.deepEqual(shown(await b.get(probeAt(600))), [200, memory, value]);
  const ofOther = await c.get(probeAt(600));
  assert.deepEqual(shown(ofOther, 'aptos'), [200, 'ledgergate; hit; detail=redis', value]);
  assert.equal(ofOther.headers['x-node-yield'], undefined);
  assert.equal(ofOther.headers['etag'], first.headers['etag']);
});

test('large answers, which are stored as objects, keep their header', async (t) => {
  const node = await fakeNode(t, ownOf('node'));
  const gateway = await settledGateway(t, node);
  const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Padded60000?ledger_version=7';

  for (const status of ['ledgergate; fwd=miss; detail=full-0', memory]) {
    const reply = await gateway.get(path);
    assert.deepEqual(shown(reply), [200, status, `of /v1${path}`]);
  }
  const coded = await gateway.get(path, { 'accept-encoding': 'gzip' });
  assert.deepEqual([coded.headers['content-encoding'], coded.headers['x-node-yield']], ['gzip', `of /v1${path}`]);
});

test('a header that turns up on the ledger info leaves the answers that were stored with it, also on a ledger that stands still', async (t) => {
  let isWide = false;
  const node = await fakeNode(t, {
    headers: (request) =>
      isWide ? { 'x-node-yield': 'live' } : (ownOf('node').headers?.(request, node.ledger()) ?? {}),
  });
  const gateway = await settledGateway(t, node);
  for (let reads = 0; reads < 3; reads += 1) await gateway.get(probeAt(600));
  assert.deepEqual(shown(await gateway.get(probeAt(600))), [200, memory, `of /v1${probeAt(600)}`]);

  isWide = true;
  await gateway.get('', { 'ledgergate-max-staleness': '0' });

  for (const path of [probeAt(600), probeAt(600), probeAt(1), probeAt(601)])
    assert.equal((await gateway.get(path)).headers['x-node-yield'], undefined, path);
  assert.equal((await gateway.get('/blocks/by_height/3?x=1')).headers['x-node-yield'], 'live');
});

const namesOf = ({ headers }: Reply) => Object.keys(headers).filter((name) => /^x-node-\d/.test(name));

test('a node that sends new names without end costs a look a second, and each answer keeps its own', async (t) => {
  let count = 0;
  const node = await fakeNode(t, {
    headers: (request) => (isRead(request) ? { [`x-node-${(count += 1)}`]: 'v' } : ({} as const)),
  });
  const gateway = await testGateway(t, { full: [node] });
  const looks = node.requestsTo('ledgerInfo');
  const startMs = performance.now();

  for (let version = 1; version <= 40; version += 1) {
    const [miss, again] = [await gateway.get(probeAt(version)), await gateway.get(probeAt(version))];
    assert.deepEqual([namesOf(miss), namesOf(again)], [[`x-node-${version}`], [`x-node-${version}`]]);
  }
  const seconds = (performance.now() - startMs) / 1_000;
  assert.ok(node.requestsTo('ledgerInfo') <= looks + 2 + seconds);
});

// Node headers on passed answers: caching, and addresses that clients must not receive.

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });
const path = '/blocks/by_height/3?x=1';
const own = 'Accept, Accept-Encoding, Origin';

function answering(node: FakeNode, headers: Readonly<Record<string, string>>): void {
  const fault = { kind: 'answer', status: 200, body: '{"block":3}', headers: { ...ledger, ...headers } } as const;
  node.faults.add(fault, { when: ({ url }) => url.includes(path) });
}

/** The gateway's answer, if its node answers with these headers. */
async function passed(
  t: TestContext,
  headers: Readonly<Record<string, string>>,
  options: TestGatewayOptions & { readonly asked?: Record<string, string> } = {},
): Promise<Reply['headers']> {
  const node = await fakeNode(t, { head: 900n });
  answering(node, headers);
  const gateway = await testGateway(t, { full: [node], ...options });
  const reply = await gateway.get(path, options.asked);
  assert.deepEqual([reply.status, reply.text], [200, '{"block":3}']);
  return reply.headers;
}

const kept = { 'cache-control': 'public, max-age=600' };

test('an answer with a node\u2019s max-age has the node\u2019s Vary', async (t) => {
  const headers = await passed(t, { ...kept, vary: 'x-node-client, origin' });
  assert.equal(headers['vary'], `${own}, x-node-client`);
  assert.equal(headers['cache-control'], 'public, max-age=600');
});

test('an answer with Vary: * is not cacheable', async (t) => {
  const fresh = { expires: 'Wed, 21 Oct 2099 07:28:00 GMT', 'cdn-cache-control': 'max-age=60', etag: '"x"' };
  const headers = await passed(t, { ...kept, ...fresh, vary: '*' });
  assert.deepEqual([headers['vary'], headers['cache-control']], ['*', 'no-store']);
  for (const name of Object.keys(fresh)) assert.equal(headers[name], undefined, name);
});

test('a client with a plan receives the limits of the gateway alone', async (t) => {
  const theirs = { ratelimit: '"node";r=1', 'ratelimit-policy': '"node";q=5', 'x-ratelimit-limit': '5' };
  const open = await passed(t, theirs);
  assert.equal(open['ratelimit'], '"node";r=1');

  const key = testKey('wallet');
  const { path: file } = keysFile(t, [key]);
  const access = accessConfig({ keys: { file, redis: false } });
  const keyed = await passed(t, { ...theirs, ...kept }, { access, asked: { authorization: `Bearer ${key.text}` } });
  assert.doesNotMatch(JSON.stringify(keyed), /"node/);
  assert.equal(keyed['x-ratelimit-limit'], undefined);
  assert.equal(keyed['cache-control'], 'private, max-age=600');
  assert.equal(keyed['vary'], `${own}, authorization`);
});

// The key of an epoch: live on every answer, from no stored one; and other headers of nodes’ ledger info.

/** The last version of the first epoch of a sample ledger. */
const endOfEpoch = 1_367_999n;
const hit = 'ledgergate; hit; detail=memory';
const transfer = encodeVectors.find(({ chainId, status }) => chainId === 1 && status === 200)?.request ?? '';

const keyOf = ({ epoch }: Pick<LedgerInfo, 'epoch'>): string => `0x${'ab'.repeat(48)}${epoch}`;
const keyName = (dialect: Dialect['name']): string => `x-${dialect}-txn-encryption-key`;

/** A node whose answers carry the key of their epoch, as long as `isSet`. */
function keyed(dialect: Dialect['name'], isSet = (): boolean => true): Pick<SampleNodeOptions, 'headers' | 'dialect'> {
  return { dialect, headers: (_, ledger) => (isSet() ? { [keyName(dialect)]: keyOf(ledger) } : {}) };
}

async function keyedGateway(t: TestContext, dialect: Dialect['name'], options: FakeNodeOptions = {}) {
  const node = await fakeNode(t, { head: endOfEpoch, ...keyed(dialect), ...options });
  // One state for reads of "latest", so that no look comes unasked.
  const gateway = await testGateway(t, { full: [node], config: { latest: { maxStalenessMs: 3_600_000 } } }, dialect);
  return { node, gateway, name: keyName(dialect) };
}

for (const dialect of ['node', 'aptos'] as const) {
  test(`every answer of the gateway carries the key of the epoch, once (${dialect})`, async (t) => {
    const { node, gateway, name } = await keyedGateway(t, dialect);
    const key = keyOf(node.ledger());
    const json = { 'content-type': 'application/json' };
    const replies: Record<string, Reply> = {
      miss: await gateway.get(probeAt(600)),
      hit: await gateway.get(probeAt(600)),
      'hit of the server': await gateway.get(probeAt(600), { origin: 'https://a.example' }),
      head: await gateway.send('HEAD', probeAt(600)),
      'latest, miss': await gateway.get(probe),
      'latest, hit': await gateway.get(probe),
      'view, miss': await gateway.post('/view?ledger_version=600', viewBody),
      'view, hit': await gateway.post('/view?ledger_version=600', viewBody),
      encode: await gateway.post('/transactions/encode_submission', transfer),
      'encode, by a node': await gateway.post('/transactions/encode_submission', transfer, {
        'content-encoding': 'identity',
      }),
      'ledger info': await gateway.get(''),
      'ledger info, BCS': await gateway.get('', { accept: 'application/x-bcs' }),
      passed: await gateway.get('/blocks/by_height/3'),
      'passed, error': await gateway.get('/blocks/by_height/x'),
      'not found': await gateway.get('/accounts/0x1/resource/0x1::a::B?ledger_version=600'),
      malformed: await gateway.get('/accounts/0x1/resource/x?ledger_version=600'),
      'wrong method': await gateway.send('PUT', '/view', { headers: json, body: '{}' }),
      refused: await gateway.send('GET', '/set_failpoint'),
      'not modified': await gateway.get(probeAt(600), {
        'if-none-match': (await gateway.get(probeAt(600))).headers['etag'] ?? '',
      }),
    };

    for (const [kind, { headers }] of Object.entries(replies)) assert.equal(headers[name], key, kind);
    assert.equal(replies['hit']?.headers['cache-status'], hit);
    assert.equal(replies['not modified']?.status, 304);
    const broken = await exchangeRaw(Number(new URL(gateway.url).port), 'GET /v1 HTTP/1.1\r\nno header\r\n\r\n');
    assert.match(broken, /^HTTP\/1\.1 400 /);
    assert.match(broken.toLowerCase(), new RegExp(`^${name}: ${key}\r$`, 'm'));
  });

  test(`a new epoch's key is on the hits of answers stored before, never one of another epoch (${dialect})`, async (t) => {
    const { node, gateway, name } = await keyedGateway(t, dialect);
    const before = await gateway.get(probeAt(600));
    assert.equal(before.headers[name], keyOf(node.ledger()));

    node.clock.advance(40n);
    // Any answer of the node reports the epoch.
    await gateway.get(probeAt(601));
    const seen = await eventually(
      () => gateway.get(probeAt(600)),
      ({ headers }) => {
        const epoch = BigInt(headers[`x-${dialect}-epoch`] ?? -1);
        assert.ok([undefined, keyOf({ epoch })].includes(headers[name]), 'a key of another epoch');
        return epoch === 1n && headers[name] !== undefined;
      },
    );

    assert.equal(seen.headers['cache-status'], hit);
    assert.equal(seen.headers[name], keyOf({ epoch: 1n }));
    assert.equal(seen.headers['etag'], before.headers['etag']);
    const head = { 'if-none-match': before.headers['etag'] ?? '' };
    assert.equal((await gateway.get(probeAt(600), head)).headers[name], keyOf({ epoch: 1n }));
  });
}

test('probes alone bring the key of a new epoch to a gateway that answers from memory', async (t) => {
  const node = await fakeNode(t, { head: endOfEpoch, ...keyed('node') });
  const gateway = await testGateway(t, { full: [node], config: { upstream: { probeIntervalMs: 50 } } });
  await gateway.get(probeAt(600));
  const reads = node.reads;

  node.clock.advance(40n);

  await until(async () => (await gateway.get(probeAt(600))).headers[keyName('node')] === keyOf({ epoch: 1n }));
  assert.equal(node.reads, reads);
});

test('a key that nodes begin to send, and cease to send, is in no stored answer', async (t) => {
  let isSet = false;
  const { node, gateway, name } = await keyedGateway(
    t,
    'node',
    keyed('node', () => isSet),
  );
  await gateway.get(probeAt(600));
  isSet = true;

  const first = await gateway.get(probeAt(601));
  assert.equal(first.headers[name], undefined, 'no look has had the key');
  await until(async () => (await gateway.get(probeAt(600))).headers[name] === keyOf(node.ledger()));
  for (const version of [601, 602]) await gateway.get(probeAt(version));
  isSet = false;
  node.clock.advance(40n);
  await gateway.get(probeAt(603));
  await until(async () => (await gateway.get(probeAt(600))).headers['x-node-epoch'] === '1');

  for (const version of [600, 601, 602, 603]) {
    const { headers } = await gateway.get(probeAt(version));
    assert.deepEqual([headers['cache-status'], headers[name]], [hit, undefined], `version ${version}`);
  }
});

test("the ledger info keeps its member encryption_key, beside the fleet's oldest version", async (t) => {
  const { node, gateway } = await keyedGateway(t, 'node');
  const body = '{"chain_id":1,"ledger_version":"1367999","oldest_ledger_version":"5","encryption_key":"0xab"}';
  const headers = { ...ledgerHeaders({ version: endOfEpoch, chainId: 1 }), [keyName('node')]: '0xab' };
  node.faults.add({ kind: 'answer', status: 200, body, headers }, { when: ({ route }) => route === 'ledgerInfo' });

  const reply = await gateway.get('');

  assert.deepEqual(JSON.parse(reply.text), { ...JSON.parse(body), oldest_ledger_version: '0' });
});

test('other headers of the ledger info are on no read, and on passed answers as the node sent them', async (t) => {
  const node = await fakeNode(t, { headers: (_, { epoch }) => ({ 'x-node-wide': `of epoch ${epoch}` }) });
  const gateway = await testGateway(t, { full: [node] });
  const shown = async (path: string) => (await gateway.get(path)).headers['x-node-wide'];

  for (const path of [probeAt(600), probeAt(600), probe, probe]) assert.equal(await shown(path), undefined, path);
  assert.equal((await gateway.get(probeAt(600))).headers['cache-status'], hit);
  assert.equal(await shown('/blocks/by_height/3?x=1'), `of epoch ${node.ledger().epoch}`);
});

test('a key of other characters, beyond the bound or with credentials is left out, and logged once', async (t) => {
  const logged: LogLine[] = [];
  const name = keyName('node');
  let value = 'secret';
  const node = await fakeNode(t, { headers: () => ({ [name]: value }) });
  const start = (headers: Record<string, string> = {}): Promise<TestGateway> =>
    testGateway(t, {
      full: [{ url: node.url, headers }],
      config: { upstream: { probeIntervalMs: 20 } },
      onLog: (line) => logged.push(line),
    });
  const carried = async (gateway: TestGateway) => (await gateway.get(probeAt(600))).headers[name];

  assert.equal(await carried(await start({ [name]: 'secret' })), undefined);
  value = '\u00e9';
  assert.equal(await carried(await start()), undefined);
  value = 'a'.repeat(5_000);
  logged.length = 0;
  assert.equal(await carried(await start()), undefined);
  const looks = node.requestsTo('ledgerInfo');
  await until(() => node.requestsTo('ledgerInfo') > looks + 10);
  assert.equal(logged.filter(({ msg }) => String(msg).includes('left out')).length, 1);
});

test('pages may read headers of the family on every answer', async (t) => {
  const { gateway, name } = await keyedGateway(t, 'node', {
    headers: ({ route }, ledger) => ({
      [keyName('node')]: keyOf(ledger),
      ...(route === 'resource' || route === 'none' ? { 'x-node-own': '1' } : {}),
    }),
  });
  const exposed = async (path: string): Promise<readonly string[]> => {
    const { headers } = await gateway.get(path, { origin: 'https://a.example' });
    return (headers['access-control-expose-headers'] ?? '').split(', ');
  };

  assert.ok((await exposed('/accounts/0x1/resource/x')).includes(name));
  await until(async () => (await exposed(probeAt(600))).includes('x-node-own'));
  for (const path of [probeAt(600), '', '/blocks/by_height/3']) {
    const names = await exposed(path);
    assert.ok(names.includes(name) && names.includes('x-node-chain-id'), path);
    assert.equal(new Set(names).size, names.length, path);
  }
});
