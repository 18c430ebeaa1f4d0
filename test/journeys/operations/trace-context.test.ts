/** The client's trace without a recorder: the node gets it, and no other part. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { nodeAndGateway } from '../../support/gateway.ts';

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const another = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01';
const tracestate = 'vendor=1';
const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7';

function traced({ headers }: { readonly headers: Readonly<Record<string, unknown>> }): readonly unknown[] {
  return [headers['traceparent'], headers['tracestate']];
}

test("reads, short shares, passed requests and submissions carry on their client's trace; a malformed one is dropped", async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const headers = { traceparent, tracestate };
  node.log.clear();

  await gateway.get(probe, headers);
  await gateway.get('/estimate_gas_price', headers);
  await gateway.get('/estimate_gas_price?x=1', headers);
  await gateway.post('/transactions', '{}', headers);
  await gateway.get(`${probe}8`, { traceparent: `${traceparent}-x`, tracestate });
  await gateway.get('/estimate_gas_price?x=1', { traceparent: 'none', tracestate });

  const asked = node.log.received.filter(({ route }) => route !== 'ledgerInfo');
  assert.deepEqual(asked.map(traced), [
    [traceparent, tracestate],
    [traceparent, tracestate],
    [traceparent, tracestate],
    [traceparent, tracestate],
    [undefined, undefined],
    [undefined, undefined],
  ]);
});

test('a coalesced read carries on the trace of its leader', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const held = Promise.withResolvers<void>();
  node.fault = { kind: 'hold', until: held.promise };

  const asked = node.log.next();
  const leading = gateway.get(probe, { traceparent });
  const received = await asked;
  const following = gateway.get(probe, { traceparent: another });
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) >= 2);
  held.resolve();
  const answers = await Promise.all([leading, following]);
  const hit = await gateway.get(probe, { traceparent: another });

  assert.deepEqual(traced(received), [traceparent, undefined]);
  assert.equal(node.reads, 1);
  assert.deepEqual(answers[1]?.body, answers[0]?.body);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
});
