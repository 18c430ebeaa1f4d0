// Keys with lists of client addresses: over every transport, behind proxies, from a file and from Redis.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request } from 'undici';
import type { AccessConfig, Config } from '../../../src/config/config.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { until } from '../../support/eventually.ts';
import { nodeAndGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey, type TestKey } from '../../support/keys.ts';
import { authority } from '../../support/tls.ts';

interface Client {
  /** Address of its connections. Default 127.0.0.1. */
  readonly from?: string;
  readonly forwarded?: string;
  readonly version?: number;
}

type Extra = Partial<AccessConfig> & {
  readonly config?: { readonly [Part in 'listen' | 'cache']?: Partial<Config[Part]> };
};

/** A gateway before one node, and its clients at addresses of this machine. */
async function keyed(
  t: TestContext,
  keys: readonly TestKey[],
  { config, ...more }: Extra = {},
  agent: Agent.Options = {},
) {
  const file = keysFile(t, keys);
  const access = accessConfig({ keys: { file: file.path, redis: false }, ...more });
  const { node, gateway } = await nodeAndGateway(t, { access, ...(config && { config }) });
  const agents = new Map<string, Agent>();
  t.after(() => Promise.all([...agents.values()].map((one) => one.destroy())));
  const scheme = agent.connect === undefined ? 'http' : 'https';
  const ask = async ({ text }: TestKey, { from = '127.0.0.1', forwarded, version = 5 }: Client = {}) => {
    const known = agents.get(from) ?? new Agent({ ...agent, localAddress: from });
    agents.set(from, known);
    const host = from.includes(':') ? '[::1]' : '127.0.0.1';
    const path = `/v1/accounts/0x1/module/coin?ledger_version=${version}`;
    const { statusCode, body } = await request(`${scheme}://${host}:${gateway.port}${path}`, {
      dispatcher: known,
      headers: { authorization: `Bearer ${text}`, ...(forwarded !== undefined && { 'x-forwarded-for': forwarded }) },
    });
    const answer = await body.text();
    if (statusCode !== 200) assert.equal(JSON.parse(answer).error_code, 'api_disabled', answer);
    return statusCode;
  };
  return { node, file, gateway, ask };
}

test('a key works from its addresses alone, for misses and for hits, and elsewhere no node is asked', async (t) => {
  const [any, own] = [testKey('any'), testKey('own', { addresses: ['127.0.0.2', '127.0.1.0/24'] })];
  const { node, gateway, ask } = await keyed(t, [any, own]);
  const asked = node.requests;
  for (const from of ['127.0.0.1', '127.0.0.3', '127.0.2.1']) assert.equal(await ask(own, { from }), 403, from);
  assert.equal(node.requests, asked);

  for (const from of ['127.0.0.2', '127.0.1.0', '127.0.1.255', '127.0.0.2'])
    assert.equal(await ask(own, { from }), 200, from);
  // Now a hit, whose target is known.
  for (const from of ['127.0.0.1', '127.0.0.3', '127.0.2.1']) {
    assert.equal(await ask(own, { from }), 403, from);
    assert.equal(await ask(any, { from }), 200, from);
  }
  assert.equal(await gateway.metric('ledgergate_access_refusals_total{reason="address",plan="free"}'), 6);
});

test('behind a trusted proxy the address is the one that it reports', async (t) => {
  const key = testKey('own', { addresses: ['203.0.113.0/24', '2001:db8::/32'] });
  const { ask } = await keyed(t, [key], { trustedProxies: ['127.0.0.1', '10.0.0.0/8'] });
  // Further forms: client-address.test.ts.
  const rows: readonly (readonly [forwarded: string, status: number, from?: string])[] = [
    ['198.51.100.1, 203.0.113.7, 10.0.0.9', 200],
    ['[2001:db8::7]:4711', 200],
    ['203.0.114.7', 403],
    // The client's own words.
    ['203.0.113.7, 198.51.100.1', 403],
    // Not from the proxy.
    ['203.0.113.7', 403, '127.0.0.9'],
  ];
  assert.equal(await ask(key), 403);
  for (const [forwarded, status, from = '127.0.0.1'] of rows) {
    // The second time its target is known.
    for (const turn of ['first', 'again'])
      assert.equal(await ask(key, { from, forwarded }), status, `${forwarded}, ${turn}`);
  }
});

test('a socket of both families reports IPv4 as IPv4', async (t) => {
  const [four, mapped, six] = [
    testKey('four', { addresses: ['127.0.0.0/8'] }),
    testKey('mapped', { addresses: ['::ffff:127.0.0.0/104'] }),
    testKey('six', { addresses: ['::/0'] }),
  ];
  const { ask } = await keyed(t, [four, mapped, six], { config: { listen: { host: '::' } } });
  const statuses = (from: string) => Promise.all([four, mapped, six].map((key) => ask(key, { from })));
  assert.deepEqual(await statuses('127.0.0.5'), [200, 200, 403]);
  assert.deepEqual(await statuses('::1'), [403, 403, 200]);
  assert.deepEqual(await statuses('127.0.0.5'), [200, 200, 403]);
});

for (const allowH2 of [false, true]) {
  test(`over TLS, ${allowH2 ? 'HTTP/2' : 'HTTP/1.1'}, the same addresses are served`, async (t) => {
    const ca = authority(t);
    const key = testKey('own', { addresses: ['127.0.0.2'] });
    const config = { listen: { tls: ca.certify('gateway') } };
    const { node, ask } = await keyed(t, [key], { config }, { connect: { ca: ca.ca }, allowH2 });
    const asked = node.requests;
    assert.equal(await ask(key), 403);
    assert.equal(node.requests, asked);
    for (let turn = 0; turn < 3; turn += 1) assert.equal(await ask(key, { from: '127.0.0.2' }), 200);
    for (let turn = 0; turn < 3; turn += 1) assert.equal(await ask(key), 403);
  });
}

/** The key with another list. */
const at = ({ text, entry }: TestKey, ...addresses: readonly string[]): TestKey => ({
  text,
  entry: { ...entry, addresses },
});

testStreams(
  'a change of the list is in force for the next request, and ends open streams elsewhere',
  async (t, track) => {
    const [moves, stays] = [testKey('moves'), testKey('stays', { addresses: ['127.0.0.0/8'] })];
    const { file, gateway, ask } = await keyed(t, [moves, stays]);
    const open = ({ text }: TestKey) =>
      track(EventReader.open(`${gateway.url}/transactions?start=890`, { authorization: `Bearer ${text}` }));
    const streams = [await open(moves), await open(stays)];
    assert.deepEqual([await ask(moves), await ask(stays)], [200, 200]);

    file.write([at(moves, '127.0.0.9'), stays]);
    await until(async () => (await ask(moves)) === 403);
    await streams[0]?.ended;
    assert.equal(await gateway.metric('ledgergate_streams_closed_total{kind="transactions",reason="revoked"}'), 1);
    assert.equal(streams[1]?.hasEnded, false);
    const refused = await open(moves);
    await refused.ended;
    assert.equal(refused.status, 403);
    assert.deepEqual([await ask(moves, { from: '127.0.0.9' }), await ask(stays)], [200, 200]);
  },
);
