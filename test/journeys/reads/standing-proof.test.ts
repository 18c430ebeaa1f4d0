import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ShadowProof } from '../../../src/encode/shadow.ts';
import { moduleText, moduleTexts, readGroup, type Vector } from '../../encode/vectors.ts';
import { until } from '../../support/eventually.ts';
import { testGateway, type LogLine, type TestGateway } from '../../support/gateway.ts';
import { shortenTimeouts } from '../../support/short-timeouts.ts';
import { overloaded, refusal, vectorNode, type Encode, type EncodeAnswer } from '../../support/vector-node.ts';

const path = '/transactions/encode_submission';

function find(name: string): Vector & { readonly expected_hex: string } {
  const vector = readGroup('13-framework.json').find((candidate) => candidate.name === name);
  assert.ok(vector?.expected_hex !== undefined, name);
  return { ...vector, expected_hex: vector.expected_hex };
}

const transfer = find('coin transfer');
const bytes = { status: 200, body: JSON.stringify(transfer.expected_hex) };
const otherBytes = { status: 200, body: JSON.stringify(`${transfer.expected_hex.slice(0, -2)}ff`) };

async function scene(t: TestContext, shadow: number, encode: Encode) {
  const node = await vectorNode(t, transfer.chain_id);
  for (const text of [...moduleTexts, moduleText(transfer.abi)]) node.publish(text);
  node.encode = encode;
  const lines: LogLine[] = [];
  const clock = { ms: 0 };
  const gateway = await testGateway(t, {
    full: [node],
    // A busy machine must not time out a request that a test holds back.
    config: { encode: { shadow }, upstream: { timeoutMs: 60_000, deadlineMs: 60_000 } },
    onLog: (line) => lines.push(line),
    now: () => clock.ms,
  });
  const ask = () => gateway.post(path, JSON.stringify(transfer.request));
  return { node, gateway, clock, lines, ask };
}

async function checks(gateway: TestGateway, result: string, count: number): Promise<void> {
  await until(async () => (await gateway.metric(`ledgergate_encode_checks_total{result="${result}"}`)) >= count);
}

test('other bytes from a node are counted, logged and reported, and no client receives the doubtful ones again', async (t) => {
  const { gateway, lines, ask } = await scene(t, 1, () => otherBytes);

  const first = await ask();
  await checks(gateway, 'mismatch', 1);
  const later = await Promise.all([ask(), ask(), ask()]);

  assert.equal(first.text, bytes.body);
  for (const reply of later) assert.equal(reply.text, otherBytes.body);
  const readiness = (await (await fetch(`${gateway.operationsUrl}/readyz`)).json()) as { encode: unknown };
  assert.deepEqual(readiness.encode, { distrusted: ['0x1::coin::transfer'] });
  const logged = lines.find((line) => line['functionId'] === '0x1::coin::transfer');
  assert.deepEqual([logged?.['local'], logged?.['node']], [transfer.expected_hex, otherBytes.body]);
  const forwarded = 'ledgergate_encode_requests_total{outcome="forwarded",reason="distrusted function"}';
  assert.equal(await gateway.metric(forwarded), 3);
});

test('a suspended function that turns out different is trusted at no moment in between', async (t) => {
  const trusted: boolean[] = [];
  const resume: unknown = Reflect.get(ShadowProof.prototype, 'resume');
  assert.ok(typeof resume === 'function');
  t.mock.method(ShadowProof.prototype, 'resume', function (this: ShadowProof, functionId: string) {
    Reflect.apply(resume, this, [functionId]);
    // A request that waits for the same module goes on between two steps of the comparison.
    queueMicrotask(() => trusted.push(this.isTrusted(functionId)));
  });
  const { gateway, ask } = await scene(t, 1, () => otherBytes);

  await ask();
  await checks(gateway, 'mismatch', 1);

  assert.deepEqual(trusted, [false]);
});

test('a node that refuses what was encoded here is a mismatch as well', async (t) => {
  const { gateway, ask } = await scene(t, 1, () => refusal('invalid_input', 'no'));

  assert.equal((await ask()).text, bytes.body);
  await checks(gateway, 'mismatch', 1);

  assert.equal((await ask()).status, 400);
});

const unreadable: readonly (readonly [what: string, refusal: EncodeAnswer])[] = [
  ['the text', refusal('web_framework_error', 'parse request payload error: invalid number')],
  ['a name', { ...refusal('invalid_input', "'UserTransactionRequest' invalid: no"), ledgerHeaders: false }],
];

for (const [what, answer] of unreadable) {
  test(`a node that refuses ${what} of a request is counted and logged, and turns no function off`, async (t) => {
    const { gateway, lines, ask } = await scene(t, 1, () => answer);

    await ask();
    await checks(gateway, 'mismatch', 1);

    assert.deepEqual([(await ask()).text, (await ask()).text], [bytes.body, bytes.body]);
    const readiness = (await (await fetch(`${gateway.operationsUrl}/readyz`)).json()) as { encode: unknown };
    assert.deepEqual(readiness.encode, { distrusted: [] });
    assert.equal(await gateway.metric('ledgergate_encode_distrusted_functions'), 0);
    const logged = lines.find((line) => line['functionId'] === '0x1::coin::transfer');
    assert.deepEqual([logged?.['level'], logged?.['node']], [50, answer.body]);
  });
}

test('after a refusal by text, the first other bytes still turn the function off', async (t) => {
  const { node, gateway, clock, ask } = await scene(t, 1e-9, () => refusal('web_framework_error', 'no'));
  await ask();
  await checks(gateway, 'mismatch', 1);

  node.encode = () => otherBytes;
  clock.ms = 1_000;
  assert.equal((await ask()).text, bytes.body);
  await checks(gateway, 'mismatch', 2);

  assert.equal((await ask()).text, otherBytes.body);
});

test('the first request of a function is checked however small the share, and proven once', async (t) => {
  const { node, gateway, ask } = await scene(t, 1e-9, () => bytes);

  await ask();
  await checks(gateway, 'equal', 1);
  for (let round = 0; round < 20; round += 1) await ask();

  assert.equal(node.encodes.length, 1);
});

test('a share of 0 asks no node', async (t) => {
  const { node, ask } = await scene(t, 0, () => bytes);

  for (let round = 0; round < 5; round += 1) assert.equal((await ask()).text, bytes.body);

  assert.equal(node.encodes.length, 0);
});

test('the client is answered before the node', async (t) => {
  const order: string[] = [];
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { gateway, ask } = await scene(t, 1, async () => {
    await released;
    order.push('node');
    return overloaded;
  });

  for (let round = 0; round < 3; round += 1) assert.equal((await ask()).text, bytes.body);
  order.push('client');
  release();
  await checks(gateway, 'inconclusive', 3);

  assert.deepEqual(order.slice(0, 2), ['client', 'node']);
});

test('while no node confirms a function, one request a second asks, and the first good answer proves it', async (t) => {
  const { node, gateway, clock, ask } = await scene(t, 1e-9, () => overloaded);

  for (let round = 0; round < 10; round += 1) await ask();
  await checks(gateway, 'inconclusive', 1);
  const inFirstSecond = node.encodes.length;
  node.encode = () => bytes;
  clock.ms = 1_000;
  for (let round = 0; round < 10; round += 1) await ask();
  await checks(gateway, 'equal', 1);
  clock.ms = 10_000;
  for (let round = 0; round < 10; round += 1) await ask();

  assert.deepEqual([inFirstSecond, node.encodes.length], [1, 2]);
});

test('checks of a node that hangs do not pile up', async (t) => {
  const { promise: never, resolve: end } = Promise.withResolvers<void>();
  t.after(() => end());
  const { node, gateway, ask } = await scene(t, 1, () => never.then(() => bytes));

  const replies = await Promise.all(Array.from({ length: 50 }, ask));

  for (const reply of replies) assert.equal(reply.text, bytes.body);
  await checks(gateway, 'skipped', 18);
  assert.ok(node.encodes.length <= 32);
});

test('a request in flight at the mismatch does not receive the doubtful bytes', async (t) => {
  const { promise: judged, resolve: judge } = Promise.withResolvers<void>();
  shortenTimeouts(t, 10_000);
  const { node, gateway, clock, ask } = await scene(t, 1, () => judged.then(() => otherBytes));
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  await ask();
  // The ABI is old now: the next request waits for the module.
  clock.ms = 60_000;
  node.holdModules = released;
  const reads = node.moduleReads;

  const waiting = ask();
  await until(() => node.moduleReads !== reads);
  judge();
  // The difference is known, and whether an upgrade explains it is being looked at.
  await until(() => node.pinnedReads === 1);
  release();

  assert.equal((await waiting).text, otherBytes.body);
  await checks(gateway, 'mismatch', 1);
});

test('after one function differs, the gateway still encodes the others', async (t) => {
  const other = find('initialise a stake owner');
  const { node, gateway, ask } = await scene(t, 1, ({ body }) =>
    body.includes('coin::transfer') ? otherBytes : { status: 200, body: JSON.stringify(other.expected_hex) },
  );
  node.publish(moduleText(other.abi));
  await ask();
  await checks(gateway, 'mismatch', 1);

  const reply = await gateway.post(path, JSON.stringify(other.request));

  assert.equal(reply.text, JSON.stringify(other.expected_hex));
  await checks(gateway, 'equal', 1);
  assert.equal(await gateway.metric('ledgergate_encode_requests_total{outcome="local",reason=""}'), 2);
});

test('a refusal by a node behind the ABI\u2019s version proves nothing', async (t) => {
  const { node, gateway, ask } = await scene(t, 1, () => {
    node.head = 900n;
    return refusal('invalid_input', 'could not find entry function by 0x1::coin::transfer');
  });

  await ask();
  await checks(gateway, 'inconclusive', 1);

  assert.equal((await ask()).text, bytes.body);
});

test('an overloaded node proves nothing and distrusts nothing', async (t) => {
  const { gateway, ask } = await scene(t, 1, () => overloaded);

  await ask();
  await checks(gateway, 'inconclusive', 1);

  assert.equal((await ask()).text, bytes.body);
  assert.equal(await gateway.metric('ledgergate_encode_distrusted_functions'), 0);
});

test('200 first requests at once cause one module read', async (t) => {
  const { node, ask } = await scene(t, 0, () => bytes);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.holdModules = released;
  const before = node.moduleReads;

  const replies = Promise.all(Array.from({ length: 200 }, ask));
  await until(() => node.moduleReads !== before);
  release();

  assert.deepEqual(new Set((await replies).map(({ text }) => text)), new Set([bytes.body]));
  assert.equal(node.moduleReads - before, 1);
});
