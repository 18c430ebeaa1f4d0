import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DistrustedFunctions, NodeEncoding, ShadowProof } from '../../src/encode/shadow.ts';
import type { EncodeOutcome } from '../../src/encode/outcome.ts';
import { errorBody } from '../support/error-body.ts';

/** The positions of marks are the same in every run. */
const distrusted = { names: [], marked: { salt: 'a secret', table: undefined } };

/** A proof whose clock stands until it is moved, and whose random numbers are given. */
function proofWith({ share = 0.01, roll = 0.5 }: { readonly share?: number; readonly roll?: number } = {}) {
  const clock = { ms: 0 };
  const proof = new ShadowProof({ share }, { random: () => roll, now: () => clock.ms, distrusted });
  return { proof, clock };
}

test('the first request of a function is checked, and again under another ABI', () => {
  const { proof } = proofWith();

  assert.equal(proof.shouldCheck('0x1::a::f', '0:["u64"]'), true);
  assert.equal(proof.shouldCheck('0x1::a::g', '0:["u64"]'), true);
  proof.prove('0x1::a::f', '0:["u64"]');
  assert.equal(proof.shouldCheck('0x1::a::f', '0:["u64"]'), false);
  assert.equal(proof.shouldCheck('0x1::a::f', '0:["u128"]'), true);
});

test('of a function that is proven, the share is checked', () => {
  for (const [roll, expected] of [
    [0.009, true],
    [0.01, false],
  ] as const) {
    const { proof } = proofWith({ share: 0.01, roll });
    proof.prove('f', 's');
    assert.equal(proof.shouldCheck('f', 's'), expected);
  }
});

test('an unproven function is asked about once in a while, not with every request', () => {
  const { proof, clock } = proofWith();

  const asked = Array.from({ length: 30 }, (_, index) => {
    clock.ms = index * 100;
    return proof.shouldCheck('f', 's');
  });

  assert.equal(asked.filter(Boolean).length, 3);
});

test('a check that no node was asked for is given back, and a proven function stays proven', () => {
  const { proof } = proofWith();
  const asked = (): boolean => proof.shouldCheck('f', 's');

  const first = [asked(), asked()];
  proof.giveBack('f', 'an ABI before');
  const afterAnother = asked();
  proof.giveBack('f', 's');
  const second = [asked(), asked()];
  proof.prove('f', 's');
  proof.giveBack('f', 's');

  assert.deepEqual([first, afterAnother, second, asked()], [[true, false], false, [true, false], false]);
});

test('a share of 0 checks nothing', () => {
  const { proof } = proofWith({ share: 0, roll: 0 });

  assert.equal(proof.shouldCheck('f', 's'), false);
});

test('a mismatch stands after equal bytes of other nodes', () => {
  const { proof } = proofWith();
  proof.prove('f', 's');

  proof.distrust('f');
  proof.prove('f', 's');

  assert.deepEqual([proof.isTrusted('f'), proof.isTrusted('g')], [false, true]);
  assert.deepEqual([...proof.distrusted], ['f']);
});

test('functions that are remembered as checked are bounded', () => {
  const { proof } = proofWith();
  for (let index = 0; index <= 20_000; index += 1) proof.prove(`f${index}`, 's');
  assert.deepEqual([proof.shouldCheck('f0', 's'), proof.shouldCheck('f20000', 's')], [true, false]);
});

test('an account with very many functions that differ takes one place with all of its functions', () => {
  const { proof } = proofWith();
  proof.distrust('0x1::coin::transfer');

  for (let index = 0; index < 100; index += 1) proof.distrust(`0xcafe::m${index}::f`);
  assert.deepEqual([proof.distrusted.size, proof.isTrusted('0xcafe::m::g')], [101, true]);
  for (let index = 100; index < 3_000; index += 1) proof.distrust(`0xcafe::m${index}::f`);

  assert.deepEqual([...proof.distrusted], ['0x1::coin::transfer', '0xcafe']);
  for (const functionId of ['0xcafe::m0::f', '0xcafe::m2999::f', '0xcafe::m::g', '0x1::coin::transfer']) {
    assert.equal(proof.isTrusted(functionId), false, functionId);
  }
  for (const functionId of ['0xcafe0::m0::f', '0xcaf::e::f', '0x1::coin::burn', 'no function']) {
    assert.equal(proof.isTrusted(functionId), true, functionId);
  }
});

test('an account that another process leaves to nodes is left to them here, and takes the place of its functions', () => {
  const { proof } = proofWith();
  for (const name of ['0xcafe::m::f', '0xcafe::m::g', '0x1::a::b', '0xcafe', '0xcafe::m::h', '0xcafe'])
    proof.distrust(name);

  assert.deepEqual([...proof.distrusted], ['0x1::a::b', '0xcafe']);
  assert.equal(proof.isTrusted('0xcafe::m::i'), false);
});

test('with every place taken, further accounts are left to nodes, and all others are encoded for here', () => {
  const { proof } = proofWith();
  const differing = Array.from({ length: 6_000 }, (_, index) => `0x${(index + 1).toString(16)}`);
  for (const account of differing) for (const name of ['a', 'b']) proof.distrust(`${account}::m::${name}`);

  assert.equal(proof.distrusted.size, 1_000);
  for (const account of differing) {
    assert.deepEqual(
      [proof.isTrusted(`${account}::m::a`), proof.isTrusted(`${account}::m::b`)],
      [false, false],
      account,
    );
  }
  for (let index = 0; index < 2_000; index += 1) assert.equal(proof.isTrusted(`0xcafe${index}::m::a`), true);
  // A place that was found before the table was full is for that function alone.
  assert.deepEqual([proof.isTrusted('0x1::m::c'), proof.isTrusted('0x1770::m::c')], [true, false]);
});

test('with every place taken, an account is taken as a whole and gives its places back', () => {
  const { proof } = proofWith();
  for (let index = 0; index < 100; index += 1) proof.distrust(`0xcafe::m::f${index}`);
  for (let index = 0; index < 900; index += 1) proof.distrust(`0x${index}::m::f`);

  proof.distrust('0xcafe::m::g');

  assert.deepEqual([proof.isTrusted('0xcafe::m::h'), proof.distrusted.size], [false, 901]);
});

test('a process that starts later leaves to nodes all that another one leaves to them', () => {
  const { proof } = proofWith();
  const first = new DistrustedFunctions({ names: [], marked: { salt: 'a secret', table: undefined } });
  const functions = Array.from({ length: 1_500 }, (_, index) => `0x${(index + 1).toString(16)}::m::f`);
  for (const functionId of functions) first.add(functionId);

  const later = new ShadowProof({ share: 0.01 }, { distrusted: structuredClone(first.all) });

  for (const functionId of functions) assert.equal(later.isTrusted(functionId), false, functionId);
  assert.deepEqual([later.isTrusted('0xcafe::m::f'), proof.isTrusted('0x1::m::f')], [true, true]);
});

test('a suspended function is left to nodes until every difference is examined', () => {
  const { proof } = proofWith();
  const trusted: boolean[] = [];
  const note = (): void => void trusted.push(proof.isTrusted('f'));

  proof.suspend('f');
  proof.suspend('f');
  note();
  proof.resume('f');
  note();
  proof.resume('f');
  note();

  assert.deepEqual(trusted, [false, false, true]);
  assert.equal(proof.isTrusted('g'), true);
});

const local = { hex: '0xab01', version: 100n };

const answers: readonly (readonly [what: string, answer: object, says: ReturnType<NodeEncoding['compareWith']>])[] = [
  ['the same bytes', { status: 200, body: '"0xab01"' }, 'equal'],
  ['the same bytes and a line end', { status: 200, body: '"0xab01"\n' }, 'equal'],
  ['the same bytes from a node that is behind', { status: 200, body: '"0xab01"', version: 9n }, 'equal'],
  ['other bytes', { status: 200, body: '"0xab02"' }, 'mismatch'],
  ['other bytes from a node that is behind', { status: 200, body: '"0xab02"', version: 9n }, 'mismatch'],
  ['more bytes', { status: 200, body: '"0xab0100"' }, 'mismatch'],
  ['bytes that may have been cut off', { status: 200, body: '"0xab', isFramed: false }, 'inconclusive'],
  ['a refusal by what is asked', { status: 400, body: errorBody('invalid_input', 'no') }, 'mismatch'],
  ['a refusal by form', { status: 400, body: errorBody('web_framework_error', 'no'), version: undefined }, 'unread'],
  ['a refusal by form with a version', { status: 400, body: errorBody('web_framework_error', 'no') }, 'unread'],
  ['a refusal of a name', { status: 400, body: errorBody('invalid_input', 'no'), version: undefined }, 'unread'],
  ['a refusal of a node behind', { status: 400, body: errorBody('invalid_input', 'no'), version: 99n }, 'inconclusive'],
  ['a refusal of another kind', { status: 400, body: errorBody('bcs_not_supported', 'no') }, 'inconclusive'],
  ['a refusal that is no node\u2019s', { status: 400, body: '<h1>Bad Request</h1>' }, 'inconclusive'],
  ['400 with JSON that is no object', { status: 400, body: 'null' }, 'inconclusive'],
  ['encoding turned off', { status: 403, body: errorBody('api_disabled', 'no') }, 'inconclusive'],
  ['overload', { status: 503, body: errorBody('overloaded', 'no') }, 'inconclusive'],
];

for (const [what, answer, says] of answers) {
  test(`${what}: ${says}`, () => {
    const node = new NodeEncoding({ status: 200, body: '', version: 100n, isFramed: true, ...answer });
    assert.equal(node.compareWith(local), says);
  });
}

const node = new NodeEncoding({ status: 200, body: '"0xab02"', version: 100n, isFramed: true });
const encodings: readonly (readonly [what: string, encoded: EncodeOutcome, isOfUpgrade: boolean])[] = [
  ['the node\u2019s bytes', { kind: 'encoded', hex: '0xab02', functionId: 'f', signature: '' }, true],
  ['other bytes', { kind: 'encoded', hex: '0xab01', functionId: 'f', signature: '' }, false],
  ['a refusal', { kind: 'refused', message: 'no', code: 'invalid_input' }, true],
  ['what only nodes encode', { kind: 'forward', reason: 'struct argument' }, true],
  ['more steps than are taken', { kind: 'forward', reason: 'too many steps' }, false],
  ['a fault of the encoder', { kind: 'forward', reason: 'encoder fault' }, false],
];

for (const [what, encoded, expected] of encodings) {
  test(`a difference is ${expected ? '' : 'not '}that of an upgrade when the other ABI comes to ${what}`, () => {
    assert.equal(node.isOfUpgrade(encoded), expected);
  });
}
