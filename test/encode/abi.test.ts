import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileModule, type CompiledStruct } from '../../src/encode/abi.ts';
import { findAbiType, isSigner } from '../../src/encode/abi-type.ts';
import { Steps } from '../../src/encode/outcome.ts';
import { readText } from './vectors.ts';

test('signers are no parameters, wherever they stand and however they are taken', () => {
  for (const text of ['signer', '&signer', '&mut signer', '& signer']) {
    const type = findAbiType(text, new Steps());
    assert.ok(type !== undefined && isSigner(type), text);
  }
  for (const text of ['vector<signer>', '&u8', '0x1::signer::signer', 'T0']) {
    const type = findAbiType(text, new Steps());
    assert.ok(type !== undefined && !isSigner(type), text);
  }
});

test('a type that is not written as an ABI writes it is not read', () => {
  const texts = [
    ['', '&', 'u7', 'U8', 'vector', 'vector<>', 'vector<u8', 'u8>', '0x1', '0x1::a', '0x1::a::b<', 'T'],
    ['1::a::b', '0x1::a::b<>', 'u8 u8', '::a', `${'vector<'.repeat(100)}u8${'>'.repeat(100)}`, '0x1:a::b'],
    [`0x${'1'.repeat(65)}::a::b`],
  ].flat();
  for (const text of texts) assert.equal(findAbiType(text, new Steps()), undefined, text);
});

test('entry functions of any visibility are found, others are not', () => {
  const { abi } = compileModule(readText('modules/0x1__coin.json'));
  assert.equal(abi?.findEntryFunction('transfer', new Steps())?.id, '0x1::coin::transfer');
  assert.equal(abi?.findEntryFunction('transfer', new Steps())?.parameters?.length, 2);
  assert.equal(abi?.findEntryFunction('balance', new Steps()), undefined);
  assert.equal(abi?.findEntryFunction('toString', new Steps()), undefined);
});

test('what is no module answer has no ABI', () => {
  const bodies = [
    '',
    '{',
    '[]',
    'null',
    '{"bytecode":"0x"}',
    '{"bytecode":"0x","abi":null}',
    '{"abi":{"address":"0x1"}}',
  ];
  for (const body of bodies) assert.equal(compileModule(body).abi, undefined, body);
});

test('two functions of one name make an ABI unreadable', () => {
  const f = { name: 'f', is_entry: true, params: [], generic_type_params: [] };
  const abi = { address: '0x1', name: 'm', exposed_functions: [f, f], structs: [] };
  assert.equal(compileModule(JSON.stringify({ abi })).abi, undefined);
});

test('a struct is laid out by its fields; enums, native structs and those without fields are not', () => {
  const struct = { name: 'S', is_native: false, generic_type_params: [], fields: [{ name: 'a', type: 'u8' }] };
  const find = (source: object): CompiledStruct | undefined => {
    const abi = { address: '0x1', name: 'm', exposed_functions: [], structs: [{ ...struct, ...source }] };
    return compileModule(JSON.stringify({ abi })).abi?.findStruct('S', new Steps());
  };
  assert.equal(find({})?.fields.length, 1);
  assert.equal(find({ is_enum: false })?.fields.length, 1);
  const others = [{ is_enum: true }, { is_native: true }, { fields: [] }, { is_native: undefined }, { is_enum: 'no' }];
  for (const other of others) assert.equal(find(other), undefined, JSON.stringify(other));
});
