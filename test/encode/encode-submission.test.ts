import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompiledModule } from '../../src/encode/abi.ts';
import type { LoadModule } from '../../src/encode/encode-submission.ts';
import type { EncodeOutcome } from '../../src/encode/outcome.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { bodyOf, type Call, encodeBy, moduleOf, resultOf } from './requests.ts';

interface Options extends Call {
  readonly params?: readonly string[];
  readonly generics?: number;
}

function encode(options: Options): Promise<EncodeOutcome> {
  return encodeBy(moduleOf(options.params ?? [], options.generics), options);
}

/** `vector<vector<...inner...>>`. */
function vectorsOf(levels: number, inner: string): string {
  return `${'vector<'.repeat(levels)}${inner}${'>'.repeat(levels)}`;
}

async function encodeOne(type: string, value: string): Promise<string> {
  return resultOf(await encode({ params: [type], values: `[${value}]` }));
}

/** Rows of a parameter's type, a value in JSON, and what comes of it. */
async function assertOutcomes(rows: readonly (readonly [string, string, string])[]): Promise<void> {
  for (const [type, value, outcome] of rows) assert.equal(await encodeOne(type, value), outcome, `${type} ${value}`);
}

test('a number for a small integer counts by its source text', async () => {
  await assertOutcomes([
    ['u8', '1', 'encoded'],
    ['u8', '1.0', 'refused'],
    ['u8', '1e0', 'refused'],
    ['u8', '10e-1', 'refused'],
    ['u8', '0.1E1', 'refused'],
    ['u8', '256', 'refused'],
    ['u8', '-0', 'doubtful value'],
    ['u16', '65535', 'encoded'],
    ['u16', '65536', 'refused'],
    ['u32', '4294967295', 'encoded'],
    ['u32', '4294967296', 'refused'],
    ['u32', '99999999999999999999', 'refused'],
  ]);
});

test('a large integer is a string, in the spellings that every node takes', async () => {
  await assertOutcomes([
    ['u64', '"+007"', 'encoded'],
    ['u64', '7', 'refused'],
    ['u128', `"${2n ** 128n - 1n}"`, 'encoded'],
    ['u128', `"${2n ** 128n}"`, 'refused'],
    ['u128', '"+1"', 'encoded'],
    ['u256', `"${2n ** 256n - 1n}"`, 'encoded'],
    ['u256', `"${2n ** 256n}"`, 'refused'],
    ['u256', `"${'9'.repeat(1000)}"`, 'refused'],
    ['u256', '"007"', 'encoded'],
    ['u256', '"+1"', 'doubtful value'],
    ['u256', '""', 'doubtful value'],
    ['u64', '"1\\n"', 'refused'],
    ['u64', '"\u0661"', 'refused'],
  ]);
});

test('300,000 zeros are read in the time they take to scan, and more are left to a node', async () => {
  const zeros = '0'.repeat(300_000);
  const started = cpuMs();
  assert.equal(await encodeOne('u64', `"${zeros}7"`), 'encoded');
  assert.equal(await encodeOne('u64', `"${zeros}x"`), 'refused');
  assert.equal((await encode({ more: `,"replay_protection_nonce":"${zeros}x"` })).kind, 'refused');
  assert.equal(await encodeOne('u64', `"${zeros.repeat(4)}7"`), 'too many steps');
  assert.ok(cpuMs() - started < 1000);
});

test('an option with more than one reading is left to a node', async () => {
  assert.equal(await encodeOne('0x1::option::Option<u64>', '{"vec":["1","2"]}'), 'doubtful value');
  assert.equal(await encodeOne('0x1::option::Option<u64>', '{"vec":["1"],"x":1}'), 'doubtful value');
  assert.equal(await encodeOne('0x1::option::Option<u8>', '{"vec":"0x0102"}'), 'doubtful value');
  assert.equal(await encodeOne('0x1::option::Option<u8>', '{"vec":"0102"}'), 'doubtful value');
  assert.equal(await encodeOne('0x1::option::Option<u8>', '{"vec":"01"}'), 'encoded');
  assert.equal(await encodeOne('0x1::option::Option<u8>', '{"vec":[1]}'), 'refused');
});

test('parameters that only a node can lay out are left to it, even where the value would have no bytes of them', async () => {
  await assertOutcomes([
    ['i64', '"1"', 'signed integer'],
    ['vector<i8>', '[]', 'signed integer'],
    ['0x1::option::Option<i8>', '{"vec":[]}', 'signed integer'],
    ['|u64|bool', '"0x1::m::f"', 'unsupported parameter'],
    ['&u64', '"1"', 'unsupported parameter'],
    ['&mut 0x1::coin::Coin', '{}', 'unsupported parameter'],
    ['vector<signer>', '[]', 'unsupported parameter'],
    ['vector<0x2::m::S>', '[]', 'struct argument'],
    ['0xcafe::m::Absent', '{}', 'struct argument'],
    ['T3', '"1"', 'unreadable abi'],
    ['u512', '"1"', 'unreadable abi'],
    ['0x1::object::Object', '"0x1"', 'struct argument'],
    ['0x1::string::String<u8>', '"a"', 'struct argument'],
  ]);
});

test('a type parameter is replaced by a plain type and not by a struct', async () => {
  const table: [string, string, string, string][] = [
    ['T0', 'u64', '"9"', 'encoded'],
    ['vector<T0>', 'u8', '"0x01"', 'encoded'],
    ['vector<T0>', 'u8', '[1]', 'refused'],
    ['T0', '0x1::string::String', '"a"', 'encoded'],
    ['T0', 'vector<0x1::option::Option<u8>>', '[{"vec":"0x"}]', 'encoded'],
    ['T0', '0x1::object::Object<u8>', '"0x1"', 'generic argument'],
    ['vector<T0>', '0x1::object::Object<u8>', '[]', 'generic argument'],
    ['T0', '0x5::m::S', '{}', 'generic argument'],
    ['T0', 'signer', '"0x1"', 'generic argument'],
    ['0x1::object::Object<T0>', '0x5::m::S', '"0x1"', 'encoded'],
    ['vector<0x1::object::Object<T0>>', '0x5::m::S', '[{"inner":"0x1"}]', 'generic argument'],
    ['vector<0x1::object::Object<T0>>', 'signer', '[]', 'generic argument'],
    ['vector<0x1::object::Object<vector<T0>>>', '0x5::m::S', '[]', 'generic argument'],
    ['0x1::option::Option<0x1::object::Object<T0>>', '0x5::m::S', '{"vec":[]}', 'generic argument'],
    ['vector<0x1::object::Object<T0>>', 'u64', '[{"inner":"0x1"}]', 'encoded'],
    ['vector<0x1::object::Object<0x5::m::S>>', 'u64', '[{"inner":"0x1"}]', 'encoded'],
  ];
  for (const [type, argument, value, expected] of table) {
    const outcome = await encode({ params: [type], generics: 1, types: [argument], values: `[${value}]` });
    assert.equal(resultOf(outcome), expected, `${type} of ${argument}`);
  }
});

test('a request loads 64 structs, however many parameters they are spread over', async () => {
  const struct = { name: 'S', is_native: false, generic_type_params: [], fields: [{ name: 'v', type: 'bool' }] };
  const encodeStructs = async (count: number) => {
    const module = moduleOf(
      Array.from({ length: count }, () => '0xcafe::m::S'),
      0,
      { structs: [struct] },
    );
    let loads = 0;
    const loadModule = (): Promise<CompiledModule> => {
      loads += 1;
      return Promise.resolve(module);
    };
    const values = JSON.stringify(Array.from({ length: count }, () => ({ v: true })));
    return [resultOf(await encodeBy(loadModule, { values })), loads];
  };

  // The function's own module is one load more.
  assert.deepEqual(await encodeStructs(64), ['encoded', 65]);
  assert.deepEqual(await encodeStructs(65), ['struct argument', 65]);
});

test('type arguments beyond what every node reads alike are left to a node', async () => {
  const table: [string, string][] = [
    [vectorsOf(8, 'u8'), 'encoded'],
    [vectorsOf(9, 'u8'), 'type argument'],
    [vectorsOf(10, 'u8'), 'refused'],
    [vectorsOf(7, '0x1::m::S'), 'encoded'],
    [vectorsOf(8, '0x1::m::S'), 'type argument'],
    ['0x1::a::A<0x1::a::A<0x1::a::A<0x1::a::A<u8>>>>', 'encoded'],
    ['0x1::a::A<0x1::a::A<0x1::a::A<0x1::a::A<vector<u8>>>>>', 'type argument'],
    ['i64', 'signed integer'],
    ['vector<i8>', 'signed integer'],
    ['0x1::i8::S', 'signed integer'],
    ['|u8|u8', 'type argument'],
    ['&u8', 'refused'],
    ['T0', 'refused'],
    ['0x1::a::A<u8,>', 'encoded'],
    ['vector<u8,>', 'refused'],
    ['0x1::a::A<vector<u8 , >>', 'refused'],
    ['', 'refused'],
  ];
  for (const [argument, expected] of table) {
    const outcome = await encode({ generics: 1, types: [argument] });
    assert.equal(resultOf(outcome), expected, argument);
  }
});

test('a text that may not be what the client sent is left to a node', async () => {
  const string = '0x1::string::String';
  assert.equal(await encodeOne(string, '"\\ud83d\\ude00"'), 'encoded');
  assert.equal(await encodeOne(string, '"\\\\ud800"'), 'encoded');
  assert.equal(await encodeOne(string, '"\\ud800"'), 'doubtful text');
  assert.equal(await encodeOne(string, '"\ufffd"'), 'doubtful text');
  assert.equal(await encodeOne(string, '"\ud800"'), 'doubtful text');
  const ignored = await encode({ more: ',"x":{"\\udc00":1}' });
  assert.deepEqual(ignored, { kind: 'forward', reason: 'doubtful text' });
});

test('JSON that nodes may read in another way is left to them, wherever it stands', async () => {
  const [marker, nested] = ['$serde_json::private::Number', `${'['.repeat(127)}${']'.repeat(127)}`];
  const table: [string, string][] = [
    ...['1e999', '-1E+309', '9'.repeat(400), `0.1e${'9'.repeat(30)}`].map((number): [string, string] => [
      `"x":[${number}]`,
      'doubtful value',
    ]),
    ['"sender":"0x1"', 'duplicate key'],
    ['"x":{"a":1,"a":1}', 'duplicate key'],
    ['"sende\\u0072":"0x2"', 'duplicate key'],
    [`"x":{"${marker}":"abc"}`, 'doubtful text'],
    [`"x":[{"a":1,"${marker.replace('$', '\\u0024')}":"1"}]`, 'doubtful text'],
    [`"${marker}":"1"`, 'doubtful text'],
    [`"x":${nested}`, 'nested too deep'],
    [`"x":[${'0,'.repeat(4_999)}0]`, 'too many values'],
  ];
  for (const [member, reason] of table) {
    assert.deepEqual(await encode({ more: `,${member}` }), { kind: 'forward', reason }, member.slice(0, 40));
  }
  assert.equal(
    (await encode({ more: `,"x":[${'1e307,'.repeat(4_800)}0],"y":${nested.slice(1, -1)}` })).kind,
    'encoded',
  );
  assert.equal(await encodeOne('u8', `{"${marker}":"1"}`), 'doubtful text');
  assert.equal(await encodeOne('0x1::string::String', `"${marker}"`), 'encoded');
  const types = [`0x1::a::B<${'u8,'.repeat(6_000)}>`];
  assert.deepEqual(await encode({ types }), { kind: 'forward', reason: 'type argument' });
});

test('the parse and the writing are two pieces of work, which run when the caller has a turn for them', async () => {
  const pieces: string[] = [];
  const run = async <T>(work: () => T): Promise<T> => {
    pieces.push('waits');
    await Promise.resolve();
    pieces.push('runs');
    return work();
  };
  const loadModule = (): Promise<CompiledModule> => {
    pieces.push('module');
    return Promise.resolve(moduleOf(['u64']));
  };
  const outcome = await encodeBy(loadModule, { values: '["1"]' }, { run });
  assert.deepEqual(pieces, ['waits', 'runs', 'module', 'waits', 'runs']);
  assert.deepEqual(outcome, await encode({ params: ['u64'], values: '["1"]' }));
  assert.equal((await encodeBy(loadModule, '{', { run })).kind, 'refused');
});

test('payloads of other kinds are left to a node', async () => {
  const table: [string, string][] = [
    ['{"type":"script_payload"}', 'script payload'],
    ['{"type":"encrypted_transaction_payload"}', 'encrypted payload'],
    ['{"type":"something_new"}', 'unknown payload'],
    [
      '{"type":"multisig_payload","multisig_address":"0x1","transaction_payload":{"type":"script_payload"}}',
      'script payload',
    ],
  ];
  for (const [payload, reason] of table) {
    const body = bodyOf({}).replace(/"payload":\{.*\}\}$/, `"payload":${payload}}`);
    assert.deepEqual(await encodeBy(undefined, body), { kind: 'forward', reason });
  }
});

test('malformed requests are refused as nodes refuse them', async () => {
  const whole = bodyOf({});
  const bodies = ['', '[]', 'null', '{}', whole.slice(1), `\ufeff${whole}`, whole.replace('"0x1"', '"0X1"')];
  bodies.push(whole.replace('"payload"', '"Payload"'), whole.replace('"0xcafe::m::f"', '"0xcafe::m"'));
  for (const body of bodies) {
    const outcome = await encodeBy(undefined, body);
    assert.ok(outcome.kind === 'refused' && outcome.code === 'web_framework_error', body);
  }
});

test('what an old ABI denies is believed only after the module was read afresh', async () => {
  const upgraded = moduleOf(['u64']);
  const olds = [undefined, moduleOf([]), moduleOf(['u64'], 1), moduleOf([], 0, { exposed_functions: [] })];
  for (const old of olds) {
    const reads: boolean[] = [];
    const loadModule: LoadModule = (_, __, options) => {
      reads.push(options?.fresh ?? false);
      return Promise.resolve(options?.fresh === true ? upgraded : old);
    };
    assert.equal((await encodeBy(loadModule, { values: '["1"]' })).kind, 'encoded');
    assert.deepEqual(reads, [false, true]);
  }
});

test('what a fresh module denies too is refused', async () => {
  for (const module of [undefined, moduleOf([]), moduleOf(['u64'], 1)]) {
    const outcome = await encodeBy(module, { values: '["1"]' });
    assert.ok(outcome.kind === 'refused' && outcome.code === 'invalid_input');
  }
});

test('a module that is not the one asked for is not used', async () => {
  for (const more of [{ address: '0xcaff' }, { name: 'M' }, { structs: undefined }, { exposed_functions: {} }]) {
    const module = moduleOf([], 0, more);
    assert.deepEqual(await encodeBy(module), { kind: 'forward', reason: 'unreadable abi' });
  }
});

test('what the writer declines is left to a node, never written short', async () => {
  assert.deepEqual(await encodeBy(moduleOf([]), {}, { chainId: 300 }), { kind: 'forward', reason: 'encoder fault' });
});

test("a failure to load the module is the caller's to handle", async () => {
  const loading = Promise.reject(new Error('no node reachable'));
  await assert.rejects(
    encodeBy(() => loading),
    { message: 'no node reachable' },
  );
});

test('another ABI of the same function shows in the signature', async () => {
  const [first, second] = [await encode({ params: ['&signer'] }), await encode({ params: ['signer'] })];
  assert.ok(first.kind === 'encoded' && second.kind === 'encoded');
  assert.equal(first.functionId, '0xcafe::m::f');
  assert.notEqual(first.signature, second.signature);
});

test('requests at the same time do not mix their bytes', async () => {
  const alone = await encode({ params: ['u64'], values: '["1"]' });
  const together = await Promise.all(Array.from({ length: 50 }, () => encode({ params: ['u64'], values: '["1"]' })));
  for (const outcome of together) assert.deepEqual(outcome, alone);
});
