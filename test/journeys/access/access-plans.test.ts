// Plans of the config and keys of plans change at different moments: neither change may exclude a client with a key.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { AccessConfig } from '../../../src/config/config.ts';
import { delayProxy } from '../../support/delay-proxy.ts';
import { eventually, until } from '../../support/eventually.ts';
import { type LogLine, type TestGateway, nodeAndGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { encodeRequest, submission } from '../../support/submission.ts';

const path = '/accounts/0x1/module/coin?ledger_version=5';

async function statusOf(gateway: TestGateway, { text }: TestKey): Promise<number> {
  return (await gateway.get(path, { authorization: `Bearer ${text}` })).status;
}

/** Applies a config with these plans; resolves to the outcome. */
async function replan(
  gateway: TestGateway,
  plans: Record<string, AccessConfig['plans'][string]>,
): Promise<string | undefined> {
  const { access, ...config } = gateway.reloads.config;
  assert.ok(access);
  await gateway.reloads.take({ ...config, access: { ...access, plans } });
  return gateway.reloads.status?.result;
}

test('keys of a plan that the config does not have yet are accepted once it has it', async (t) => {
  const [stays, goes, comes] = [testKey('stays'), testKey('goes'), testKey('comes', { plan: 'gold' })];
  const file = keysFile(t, [stays, goes]);
  const access = accessConfig({ keys: { file: file.path, redis: false } });
  const { gateway } = await nodeAndGateway(t, { access });
  const failed = () => gateway.metric('ledgergate_keys_reloads_total{source="file",result="failed"}');

  file.write([stays, comes]);
  await eventually(failed, (count) => count === 1);
  const statuses = () => Promise.all([stays, goes, comes].map((key) => statusOf(gateway, key)));
  assert.deepEqual(await statuses(), [200, 401, 401]);

  assert.equal(await replan(gateway, { free: planConfig(), gold: planConfig() }), 'applied');
  assert.deepEqual(await statuses(), [200, 401, 200]);
});

test('a config without a plan that keys of the file are of is refused, and nothing of it is applied', async (t) => {
  const key = testKey('a');
  const file = keysFile(t, [key]);
  const access = accessConfig({ keys: { file: file.path, redis: false } });
  const lines: LogLine[] = [];
  const { gateway } = await nodeAndGateway(t, { access, onLog: (line) => lines.push(line) });

  assert.equal(await replan(gateway, { gold: planConfig() }), 'refused');
  assert.equal(await statusOf(gateway, key), 200);
  const told = lines.find(({ level }) => level === 50);
  assert.match(String(told?.['cause']), /keys\.yaml:2:\d+: keys\[0\]\.plan: there is no such plan in access\.plans/);

  // Both at once, in either order.
  file.write([{ ...key, entry: { ...key.entry, plan: 'gold' } }]);
  assert.equal(await replan(gateway, { gold: planConfig() }), 'applied');
  assert.equal(await statusOf(gateway, key), 200);
});

test('the time-out of Redis may change, for limits as well', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t);
  const proxy = await delayProxy(t, Number(new URL(redis.url).port));
  const target = { kind: 'single', url: `redis://127.0.0.1:${proxy.port}` } as const;
  const shared = { target, keyPrefix: 'lg', timeoutMs: 2_000, ttlMs: 10_000 };
  const { gateway } = await nodeAndGateway(t, {
    config: { cache: { memory: { maxBytes: 1e7 }, redis: shared } },
    access: accessConfig({ anonymous: 'free', plans: { free: planConfig({ requests: 1_000 }) } }),
  });
  const fallback = () => gateway.metric('ledgergate_limits_fallback_total{choice="local"}');
  await gateway.get(path);
  assert.equal(await fallback(), 0);

  proxy.delayMs = 200;
  await gateway.get(path);
  assert.equal(await fallback(), 0);
  const config = gateway.reloads.config;
  await gateway.reloads.take({ ...config, cache: { ...config.cache, redis: { ...shared, timeoutMs: 20 } } });
  await gateway.get(path);
  assert.equal(await fallback(), 1);
});

// A plan's `concurrency` counts work at nodes, also of clients that have hung up.

const item = '{"key_type":"u64","value_type":"u64","key":"1"}';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

/** A gateway whose clients may have two requests under way, and a node that holds what asks for `route`. */
async function world(t: TestContext, route: string) {
  const access = accessConfig({ anonymous: 'free', plans: { free: planConfig({ concurrency: 2 }) } });
  const { node, gateway } = await nodeAndGateway(t, { access });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: released }, { when: (request) => request.route === route });
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
