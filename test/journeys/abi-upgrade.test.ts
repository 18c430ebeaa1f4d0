import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../support/eventually.ts';
import { testGateway } from '../support/gateway.ts';
import { overloaded, refusal, vectorNode } from '../support/vector-node.ts';

const path = '/transactions/encode_submission';

/** A node with `0xcafe::shop`, and a gateway that has encoded a call of its function `buy(u64)` already. */
async function scene(t: TestContext, shadow = 0) {
  const clock = { ms: 0 };
  const node = await vectorNode(t);
  const publish = (functions: Readonly<Record<string, readonly string[]>>): void =>
    node.publish(moduleAnswer(functions));
  publish({ buy: ['&signer', 'u64'] });
  node.encode = () => overloaded;
  const gateway = await testGateway(t, { full: [node], config: { encode: { shadow } }, now: () => clock.ms });
  const ask = async (name: string, args: readonly unknown[]) => {
    const payload = { type: 'entry_function_payload', function: `0xcafe::shop::${name}`, type_arguments: [] };
    const reply = await gateway.post(path, JSON.stringify({ ...envelope, payload: { ...payload, arguments: args } }));
    return reply.status === 200 ? argumentsOf(reply.text) : reply.text;
  };
  assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
  return { node, gateway, clock, publish, ask };
}

const envelope = {
  sender: '0x1',
  sequence_number: '0',
  max_gas_amount: '1',
  gas_unit_price: '1',
  expiration_timestamp_secs: '1',
};

function moduleAnswer(functions: Readonly<Record<string, readonly string[]>>): string {
  const exposed = Object.entries(functions).map(([name, params]) => {
    return { name, visibility: 'private', is_entry: true, is_view: false, generic_type_params: [], params, return: [] };
  });
  const abi = { address: '0xcafe', name: 'shop', friends: [], exposed_functions: exposed, structs: [] };
  return JSON.stringify({ bytecode: '0x00', abi });
}

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
  const { node, publish, ask } = await scene(t);
  publish({ buy: ['&signer', 'u64'], sell: ['&signer', 'u8'] });

  const sold = await ask('sell', [7]);

  assert.deepEqual(sold, ['07']);
  assert.deepEqual({ encodes: node.encodes.length, moduleReads: node.moduleReads }, { encodes: 0, moduleReads: 2 });
});

test('a function that is not there costs one read of its module, however old the one at hand is', async (t) => {
  const { node, clock, ask } = await scene(t);
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

test('a parameter that an upgrade added is noticed at once', async (t) => {
  const { node, publish, ask } = await scene(t);
  publish({ buy: ['&signer', 'u64', 'bool'] });

  assert.deepEqual(await ask('buy', ['5', true]), ['0500000000000000', '01']);
  assert.equal(node.encodes.length, 0);
});

test('another signature for the same arguments is noticed within a second', async (t) => {
  const { node, clock, publish, ask } = await scene(t);
  publish({ buy: ['&signer', 'u128'] });

  clock.ms = 500;
  assert.deepEqual(await ask('buy', ['5']), ['0500000000000000']);
  assert.equal(node.moduleReads, 1);
  clock.ms = 1_000;
  assert.deepEqual(await ask('buy', ['5']), ['05000000000000000000000000000000']);
});

test('half-way through that second the module is read in the background, and nobody waits for it', async (t) => {
  const { node, clock, publish, ask } = await scene(t);
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

test('a function is checked anew as soon as its ABI has changed, however small the share', async (t) => {
  const { node, publish, ask } = await scene(t, 1e-9);
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
