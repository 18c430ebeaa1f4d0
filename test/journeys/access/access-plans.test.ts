// Plans of the config and keys of plans change at different moments: neither change may exclude a client with a key.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Agent, request } from 'undici';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { eventually, until } from '../../support/eventually.ts';
import { type LogLine, nodeAndGateway } from '../../support/gateway.ts';
import { bearer, keyedGateway, path, replan } from '../../support/keyed-gateway.ts';
import { accessConfig, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { encodeRequest, submission } from '../../support/submission.ts';
import { authority } from '../../support/tls.ts';

test('keys of a plan that the config does not have yet are accepted once it has it', async (t) => {
  const [stays, goes, comes] = [testKey('stays'), testKey('goes'), testKey('comes', { plan: 'gold' })];
  const { file, gateway, statusOf } = await keyedGateway(t, [stays, goes]);
  const failed = () => gateway.metric('ledgergate_keys_reloads_total{source="file",result="failed"}');

  file.write([stays, comes]);
  await eventually(failed, (count) => count === 1);
  const statuses = () => Promise.all([stays, goes, comes].map(statusOf));
  assert.deepEqual(await statuses(), [200, 401, 401]);

  assert.equal(await replan(gateway, { free: planConfig(), gold: planConfig() }), 'applied');
  assert.deepEqual(await statuses(), [200, 401, 200]);
});

test('a config without a plan that keys of the file are of is refused, and nothing of it is applied', async (t) => {
  const key = testKey('a');
  const lines: LogLine[] = [];
  const { file, gateway, statusOf } = await keyedGateway(t, [key], {}, lines);

  assert.equal(await replan(gateway, { gold: planConfig() }), 'refused');
  assert.equal(await statusOf(key), 200);
  const told = lines.find(({ level }) => level === 50);
  assert.match(String(told?.['cause']), /keys\.yaml:2:\d+: keys\[0\]\.plan: there is no such plan in access\.plans/);

  // Both at once, in either order.
  file.write([{ ...key, entry: { ...key.entry, plan: 'gold' } }]);
  assert.equal(await replan(gateway, { gold: planConfig() }), 'applied');
  assert.equal(await statusOf(key), 200);
});

// A plan's `concurrency` counts work at nodes, also of clients that have hung up.

const item = '{"key_type":"u64","value_type":"u64","key":"1"}';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

/** A gateway whose clients may have two requests under way, and a node that holds what asks for `route`. */
async function world(t: TestContext, route: string) {
  const access = accessConfig({ anonymous: 'free', plans: { free: planConfig({ concurrency: 2 }) } });
  const { node, gateway } = await nodeAndGateway(t, { access });
  const release = node.hold({ when: (request) => request.route === route });
  const idle = await gateway.metric('ledgergate_http_connections');
  return {
    node,
    gateway,
    release,
    /** Sends a request, and hangs up as soon as `isAsked` holds; resolves when the gateway has noticed. */
    abandon: async (target: string, body: string | undefined, isAsked: () => boolean): Promise<void> => {
      const socket = connect(gateway.port, '127.0.0.1');
      socket.write(
        `${body === undefined ? 'GET' : 'POST'} /v1${target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`,
      );
      socket.write(body === undefined ? '\r\n' : `Content-Length: ${body.length}\r\n\r\n${body}`);
      await until(isAsked);
      // A reset: a client that only ends its side is still given the answer to a submission.
      socket.resetAndDestroy();
      await until(async () => (await gateway.metric('ledgergate_http_connections')) === idle);
    },
  };
}

const outliving = [
  {
    what: 'submissions',
    route: 'submit',
    target: '/transactions',
    body: (count: number) => submission({ sequenceNumber: count }),
  },
  {
    what: 'signing messages whose module is being read',
    route: 'module',
    target: '/transactions/encode_submission',
    body: (count: number) => encodeRequest(`0x1::unknown_${count}::f`),
  },
] as const;

for (const { what, route, target, body } of outliving) {
  test(`${what} of a client that hangs up keep their places until the node has answered`, async (t) => {
    const { node, gateway, release, abandon } = await world(t, route);
    for (const count of [1, 2]) await abandon(target, body(count), () => node.requestsTo(route) === count);

    const refused = await gateway.post(target, body(3));
    assert.equal(refused.status, 429, refused.text);
    assert.equal(node.requestsTo(route), 2);

    release();
    await until(async () => (await gateway.post(target, body(4))).status !== 429);
  });
}

const ending = [
  { what: 'a view', route: 'view', target: '/view?ledger_version=5', body: view },
  { what: 'a read of a table', route: 'tableItem', target: '/tables/0x1/item?ledger_version=5', body: item },
  { what: 'a kept block', route: 'blockByHeight', target: '/blocks/by_height/5', body: undefined },
  { what: 'a short share', route: 'estimateGasPrice', target: '/estimate_gas_price', body: undefined },
  {
    what: 'a long poll',
    route: 'waitByHash',
    target: `/transactions/wait_by_hash/0x${'1'.repeat(64)}`,
    body: undefined,
  },
] as const;

for (const { what, route, target, body } of ending) {
  test(`${what} of a client that hangs up ends at the node, and its place is free`, async (t) => {
    const { node, gateway, abandon } = await world(t, route);

    for (const count of [1, 2, 3, 4]) {
      await abandon(target, body, () => node.requestsTo(route) === count);
      await until(
        async () => (await gateway.metric('ledgergate_upstream_in_flight_requests{upstream="full-0"}')) === 0,
      );
    }

    assert.equal(await gateway.metric('ledgergate_limits_refusals_total{plan="free",bound="concurrency"}'), 0);
  });
}

// Keys with lists of client addresses: over every transport, behind proxies, from a file and from Redis.

interface Client {
  /** Address of its connections. Default 127.0.0.1. */
  readonly from?: string;
  readonly forwarded?: string;
}

/** A gateway before one node, and its clients at addresses of this machine. */
async function keyed(
  t: TestContext,
  keys: readonly TestKey[],
  more: Parameters<typeof keyedGateway>[2] = {},
  agent: Agent.Options = {},
) {
  const world = await keyedGateway(t, keys, more);
  const { gateway } = world;
  const agents = new Map<string, Agent>();
  t.after(() => Promise.all([...agents.values()].map((one) => one.destroy())));
  const scheme = agent.connect === undefined ? 'http' : 'https';
  const ask = async (key: TestKey, { from = '127.0.0.1', forwarded }: Client = {}) => {
    const known = agents.get(from) ?? new Agent({ ...agent, localAddress: from });
    agents.set(from, known);
    const host = from.includes(':') ? '[::1]' : '127.0.0.1';
    const { statusCode, body } = await request(`${scheme}://${host}:${gateway.port}/v1${path}`, {
      dispatcher: known,
      headers: { ...bearer(key), ...(forwarded !== undefined && { 'x-forwarded-for': forwarded }) },
    });
    const answer = await body.text();
    if (statusCode !== 200) assert.equal(JSON.parse(answer).error_code, 'api_disabled', answer);
    return statusCode;
  };
  return { ...world, ask };
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
    const open = (key: TestKey) => track(EventReader.open(`${gateway.url}/transactions?start=890`, bearer(key)));
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
