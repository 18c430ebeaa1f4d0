// Event streams in their plans: counted as in flight in an account of their own, and the reads that are made for them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayCounts } from '../../../src/access/limits/primary-counter.ts';
import { AdmittedRequest } from '../../../src/access/limits/limits.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { anonymousOf, peersOf, planOf, principalOf, replica, type Replica } from '../../support/limits.ts';

/** Opens streams of a principal; the ends of those that are admitted. */
async function openAll(replicas: readonly Replica[], count: number, principal = principalOf(planOf({ streams: 3 }))) {
  const ends: (() => void)[] = [];
  for (let opened = 0; opened < count; opened += 1) {
    const end = await (replicas[opened % replicas.length] as Replica).limits.openStream(principal);
    if (typeof end === 'function') ends.push(end);
    else assert.ok(end instanceof GatewayError && end.status === 429);
  }
  return ends;
}

test('a plan grants so many streams at once, apart from its requests, and one that ends makes room', async (t) => {
  const one = await replica(t);
  const principal = principalOf(planOf({ streams: 3, concurrency: 1, requests: 2, cost: 10 }));
  const [end] = await openAll([one], 3, principal);
  assert.equal((await openAll([one], 2, principal)).length, 0);
  assert.ok((await one.ask(principal)) instanceof AdmittedRequest);
  end?.();
  assert.equal((await openAll([one], 2, principal)).length, 1);
});

test('a plan without the bound counts no streams', async (t) => {
  const one = await replica(t);
  assert.equal(one.limits.openStream(principalOf(planOf({ concurrency: 1 }))), undefined);
});

test('tenants, and addresses without a key, have streams of their own', async (t) => {
  const one = await replica(t);
  const plan = planOf({ streams: 1 });
  const [keyed, other] = ['10.0.0.1', '10.0.0.2'].map((tenant) => principalOf(plan, 'a', tenant));
  for (const principal of [keyed, anonymousOf(plan, '10.0.0.1'), other]) {
    assert.equal((await openAll([one], 2, principal)).length, 1);
  }
});

test('workers grant a plan once, and a worker that is gone frees its streams', async (t) => {
  const counts = new GatewayCounts();
  const workers = await Promise.all([1, 2].map((id) => replica(t, { peers: peersOf(counts, id) })));
  assert.equal((await openAll(workers, 4)).length, 3);
  counts.release(1);
  assert.equal((await openAll(workers.slice(1), 4)).length, 2);
});

test('reads for a stream are admitted one by one, and refused as requests are', async (t) => {
  const one = await replica(t);
  const principal = principalOf(planOf({ requests: 2 }));
  const opening = await one.ask(principal);
  assert.ok(opening instanceof AdmittedRequest);
  opening.settle({ headersSent: true, statusCode: 200 });
  const { signal } = new AbortController();
  const read = await opening.again(signal);
  assert.ok(read instanceof AdmittedRequest && read !== opening);
  read.follow({ outcome: 'miss', upstreamMs: 0, gasUsed: undefined, bytes: 0, bodyBytes: 0 });
  read.settle({ headersSent: true, statusCode: 200 });
  assert.equal(await opening.again(signal), undefined);
  assert.equal(await one.metric('ledgergate_access_cost_total{plan="free"}'), 3);
});

test('a reload that changes the span of a plan forgets no open stream', async (t) => {
  const one = await replica(t);
  for (const [windowMs, admitted] of [
    [1_000, 3],
    [2_000, 0],
  ] as const) {
    assert.equal((await openAll([one], 4, principalOf(planOf({ streams: 3, windowMs })))).length, admitted);
  }
});
