// A plan's `concurrency` counts work at nodes, also of clients that have hung up.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway } from '../../support/gateway.ts';
import { accessConfig, planConfig } from '../../support/keys.ts';
import { encodeRequest, submission } from '../../support/submission.ts';

const item = '{"key_type":"u64","value_type":"u64","key":"1"}';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

/** A gateway whose clients may have two requests under way, and a node that holds what asks for `route`. */
async function world(t: TestContext, route: string) {
  const node = await fakeNode(t, { head: 900n });
  const access = accessConfig({ anonymous: 'free', plans: { free: planConfig({ concurrency: 2 }) } });
  const gateway = await testGateway(t, { full: [node], access });
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
