/** Bytes that the gateway encodes are compared with those of nodes, beside upgrades of the modules that it encodes by. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { compileModule } from '../../../src/encode/abi.ts';
import { encodeSubmission } from '../../../src/encode/encode-submission.ts';
import { moduleText, moduleTexts, readGroup, type Vector } from '../../encode/vectors.ts';
import { until } from '../../support/eventually.ts';
import { type LogLine, type TestGateway, testGateway } from '../../support/gateway.ts';
import { encodeRequest } from '../../support/submission.ts';
import {
  type Encode,
  type EncodeAnswer,
  moduleWith,
  overloaded,
  refusal,
  vectorNode,
} from '../../support/vector-node.ts';

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

/** Functions that are left to nodes. */
async function distrustedAt({ operationsUrl }: TestGateway): Promise<readonly string[]> {
  const reply = await fetch(`${operationsUrl}/readyz`);
  return ((await reply.json()) as { encode: { distrusted: readonly string[] } }).encode.distrusted;
}

test('other bytes from a node are counted, logged and reported, and no client receives the doubtful ones again', async (t) => {
  const { gateway, lines, ask } = await scene(t, 1, () => otherBytes);

  const first = await ask();
  await checks(gateway, 'mismatch', 1);
  const later = await Promise.all([ask(), ask(), ask()]);

  assert.equal(first.text, bytes.body);
  for (const reply of later) assert.equal(reply.text, otherBytes.body);
  assert.deepEqual(await distrustedAt(gateway), ['0x1::coin::transfer']);
  const logged = lines.find((line) => line['functionId'] === '0x1::coin::transfer');
  assert.deepEqual([logged?.['local'], logged?.['node']], [transfer.expected_hex, otherBytes.body]);
  const forwarded = 'ledgergate_encode_requests_total{outcome="forwarded",reason="distrusted function"}';
  assert.equal(await gateway.metric(forwarded), 3);
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
    assert.deepEqual(await distrustedAt(gateway), []);
    assert.equal(await gateway.metric('ledgergate_encode_distrusted_functions'), 0);
    const logged = lines.find((line) => line['functionId'] === '0x1::coin::transfer');
    assert.deepEqual([logged?.['level'], logged?.['node']], [50, answer.body]);
  });
}

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
  // The end of the encoder's long bound is seen without a wait for it.
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout(ms === 10_000 ? 500 : ms));
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

// Upgrades of modules.

/** A node with `0xcafe::shop`, and a gateway that has encoded a call of its function `buy(u64)` already. */
async function shopScene(t: TestContext, shadow = 0, upstream = {}) {
  const clock = { ms: 0 };
  const node = await vectorNode(t);
  const publish = (functions: Readonly<Record<string, readonly string[]>>): void =>
    node.publish(moduleWith('shop', functions));
  publish({ buy: ['&signer', 'u64'] });
  node.encode = () => overloaded;
  const gateway = await testGateway(t, { full: [node], config: { encode: { shadow }, upstream }, now: () => clock.ms });
  const ask = async (name: string, args: readonly unknown[]) => {
    const reply = await gateway.post(path, calling(name, args));
    return reply.status === 200 ? argumentsOf(reply.text) : reply.text;
  };
  assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
  const checked = (result: string): Promise<number> =>
    gateway.metric(`ledgergate_encode_checks_total{result="${result}"}`);
  return { node, gateway, clock, publish, ask, checked, distrusted: () => distrustedAt(gateway) };
}

const calling = (name: string, args: readonly unknown[]): string => encodeRequest(`0xcafe::shop::${name}`, args);

/** The argument bytes of a message that calls a function of `0xcafe::shop`: they stand between its name and the gas. */
function argumentsOf(text: string): readonly string[] {
  const bytes = Buffer.from(text.slice(3, -1), 'hex');
  // Prefix, sender, sequence number, variant, module address, "shop" with its length; then the function's name.
  let at = 32 + 32 + 8 + 1 + 32 + 5;
  at += 1 + bytes.readUInt8(at);
  assert.equal(bytes.readUInt8(at), 0, 'no type arguments');
  const found: string[] = [];
  const count = bytes.readUInt8(at + 1);
  at += 2;
  for (let index = 0; index < count; index += 1) {
    const end = at + 1 + bytes.readUInt8(at);
    found.push(bytes.subarray(at + 1, end).toString('hex'));
    at = end;
  }
  return found;
}

test('a function that an upgrade added is encoded at once', async (t) => {
  const { node, publish, ask } = await shopScene(t);
  publish({ buy: ['&signer', 'u64'], sell: ['&signer', 'u8'] });

  const sold = await ask('sell', [7]);

  assert.deepEqual(sold, ['07']);
  assert.deepEqual({ encodes: node.encodes.length, moduleReads: node.moduleReads }, { encodes: 0, moduleReads: 2 });
});

test('an absent function costs one read of its module, however old the loaded one is', async (t) => {
  const { node, clock, ask } = await shopScene(t);
  node.encode = () => refusal('invalid_input', 'could not find entry function');
  const readsFor = async (name: string): Promise<number> => {
    const before = node.moduleReads;
    assert.match(String(await ask(name, [])), /could not find/);
    return node.moduleReads - before;
  };

  const ofModuleAtHand = await readsFor('gone');
  clock.ms = 1_000;
  const ofOldModule = await readsFor('gone');
  const again = await readsFor('gone');

  assert.deepEqual([ofModuleAtHand, ofOldModule, again], [1, 1, 1]);
});

test('no module of an earlier chain is used, however fresh it is', async (t) => {
  const { node, gateway, publish, ask } = await shopScene(t);
  publish({ buy: ['&signer', 'u128'] });
  node.chainId += 1;
  const other = await gateway.get('/accounts/0xcafe/module/other');

  assert.equal(other.headers['x-node-chain-id'], String(node.chainId));
  assert.deepEqual(await ask('buy', ['5']), ['05000000000000000000000000000000']);
});

test('another signature for the same arguments is noticed within a second', async (t) => {
  const { node, clock, publish, ask } = await shopScene(t);
  publish({ buy: ['&signer', 'u128'] });

  clock.ms = 500;
  assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
  assert.equal(node.moduleReads, 1);
  clock.ms = 1_000;
  assert.deepEqual(await ask('buy', ['5']), ['05000000000000000000000000000000']);
});

test('half-way through that second the module is read in the background, and no request waits for it', async (t) => {
  const { node, clock, publish, ask } = await shopScene(t);
  publish({ buy: ['&signer', 'u128'] });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.holdModules = released;

  clock.ms = 501;
  const meanwhile = await Promise.all([ask('buy', ['5']), ask('buy', ['5'])]);
  release();
  let later = meanwhile[0];
  while (later?.[0]?.length === 16) later = (await ask('buy', ['5'])) as readonly string[];

  assert.deepEqual(meanwhile, [['0500000000000000'], ['0500000000000000']]);
  assert.deepEqual(later, ['05000000000000000000000000000000']);
  assert.equal(node.moduleReads, 2);
});

test('a changed ABI makes the function\u2019s next request a checked one, however small the share', async (t) => {
  const { node, publish, ask } = await shopScene(t, 1e-9);
  await ask('buy', ['6']);
  publish({ buy: ['&signer', 'u64', 'bool'] });

  await ask('buy', ['5', true]);
  await until(() => node.encodes.length >= 2);

  const checked = node.encodes.map(({ body }) => (JSON.parse(body.toString()) as { payload: unknown }).payload);
  assert.deepEqual(
    checked.map((payload) => (payload as { arguments: unknown }).arguments),
    [['5'], ['5', true]],
  );
});

/** A node that has got on by a version, has another `buy` since, and answers by it. */
async function upgraded(t: TestContext, functions: Readonly<Record<string, readonly string[]>>, upstream?: object) {
  const parts = await shopScene(t, 1, upstream);
  const { node, publish, checked } = parts;
  await until(async () => (await checked('inconclusive')) === 1);
  node.head += 1n;
  publish(functions);
  const loadModule = () => Promise.resolve(compileModule(moduleWith('shop', functions)));
  node.encode = async ({ body }) => {
    const outcome = await encodeSubmission(body.toString(), { chainId: 4, signingDomain: 'APTOS', loadModule });
    if (outcome.kind === 'encoded') return { status: 200, body: JSON.stringify(outcome.hex) };
    return refusal('invalid_input', 'text of the node');
  };
  return parts;
}

const upgrades: readonly (readonly [title: string, functions: Readonly<Record<string, readonly string[]>>])[] = [
  ['takes another type', { buy: ['&signer', 'u128'] }],
  ['takes another argument more', { buy: ['&signer', 'u64', 'bool'] }],
  ['is gone', { sell: ['&signer', 'u64'] }],
  ['takes what only nodes encode', { buy: ['&signer', '|u64|bool'] }],
];

for (const [title, functions] of upgrades) {
  test(`a function that ${title} at the version of the node's answer has not been encoded differently`, async (t) => {
    const { node, ask, checked, distrusted } = await upgraded(t, functions);

    assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
    await until(async () => (await checked('inconclusive')) === 2);

    assert.deepEqual([await checked('mismatch'), await distrusted()], [0, []]);
    assert.ok(node.pinnedReads > 0);
    assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
  });
}

test('a node that is behind the upgrade has not encoded differently', async (t) => {
  const { node, clock, publish, ask, checked, distrusted } = await shopScene(t, 1);
  await until(async () => (await checked('inconclusive')) === 1);
  const before = await encodeSubmission(calling('buy', ['5']), {
    chainId: 4,
    signingDomain: 'APTOS',
    loadModule: () => Promise.resolve(compileModule(moduleWith('shop', { buy: ['&signer', 'u64'] }))),
  });
  assert.ok(before.kind === 'encoded');
  node.head = 2_000n;
  publish({ buy: ['&signer', 'u128'] });
  clock.ms = 1_000;
  node.encode = () => {
    node.head = 1_500n;
    return { status: 200, body: JSON.stringify(before.hex) };
  };

  assert.deepEqual(await ask('buy', ['5']), ['05000000000000000000000000000000']);
  await until(async () => (await checked('inconclusive')) === 2);

  assert.deepEqual([await checked('mismatch'), await distrusted()], [0, []]);
});

test('until the module is read at that version, nodes encode the function', async (t) => {
  const { node, ask, checked } = await upgraded(t, { buy: ['&signer', 'u128'] });
  const { promise: held, resolve: release } = Promise.withResolvers<'answer'>();
  node.holdPinned = held;

  const first = await ask('buy', ['5']);
  await until(() => node.pinnedReads === 1);
  const meanwhile = await ask('buy', ['5']);
  release('answer');
  await until(async () => (await checked('inconclusive')) === 2);
  const later = await ask('buy', ['5']);

  assert.deepEqual([first, meanwhile, later], [['0500000000000000'], [`05${'0'.repeat(30)}`], ['0500000000000000']]);
});

test('a difference counts when the module cannot be read at that version', async (t) => {
  const { node, ask, checked, distrusted } = await upgraded(t, { buy: ['&signer', 'u128'] });
  node.holdPinned = Promise.resolve('fail');
  // The loaded module is of the request's own time, and the node fails that as well.
  node.holdModules = new Promise(() => undefined);

  assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
  await until(async () => (await checked('mismatch')) === 1);

  assert.deepEqual(await distrusted(), ['0xcafe::shop::buy']);
  assert.deepEqual(await ask('buy', ['5']), [`05${'0'.repeat(30)}`]);
});
