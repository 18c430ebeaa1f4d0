/** The key of an epoch: live on every answer, from no stored one; and other headers of nodes' ledger info. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Dialect, LedgerInfo } from '../../../src/ledger/ledger-headers.ts';
import { encodeVectors } from '../../../src/sample/recorded.ts';
import type { SampleNodeOptions } from '../../support/sample-node.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode, type FakeNodeOptions } from '../../support/fake-node.ts';
import { probe, probeAt, testGateway, type LogLine, type Reply, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { exchangeRaw } from '../../support/raw-http.ts';

/** The last version of the first epoch of a sample ledger. */
const endOfEpoch = 1_367_999n;
const hit = 'ledgergate; hit; detail=memory';
const transfer = encodeVectors.find(({ chainId, status }) => chainId === 1 && status === 200)?.request ?? '';
const viewBody = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });

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
