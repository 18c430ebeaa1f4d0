// The function of a view, as rights by function see it: canonical, or not certain.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseViewBody } from '../../../src/proxy/routes/canonical-body.ts';

const bcsType = 'application/x.aptos.view_function+bcs';

interface Spelling {
  readonly name?: string;
  readonly types?: string;
  readonly values?: string;
  readonly more?: string;
}

function json({ name = '"0x1::coin::balance"', types = '', values = '', more = '' }: Spelling): Buffer {
  return Buffer.from(`{"function":${name},"type_arguments":[${types}],"arguments":[${values}]${more}}`);
}

function functionOf(bytes: Buffer, isRestricted = true): string | undefined {
  return parseViewBody('application/json', bytes, { isRestricted }).functionId;
}

test('every spelling of a function in JSON is one function', () => {
  for (const name of [
    '"0x1::coin::balance"',
    '"1::coin::balance"',
    `"0x${'0'.repeat(63)}1::coin::balance"`,
    '"0x0001::\\u0063oin::balanc\\u0065"',
    '"0x1\\u003A:coin::balance"',
  ]) {
    assert.equal(functionOf(json({ name })), '0x1::coin::balance', name);
  }
  assert.equal(functionOf(json({ name: '"0xABC::M::f"' })), '0xabc::M::f');
  const reordered = '\n{ "arguments":[], "type_arguments":[], "functio\\u006e" : "0x01::a::b" }';
  assert.equal(functionOf(Buffer.from(reordered)), '0x1::a::b');
});

test('a body that nodes may read otherwise has no certain function', () => {
  const bodies: Readonly<Record<string, Buffer>> = {
    'the function twice': json({ more: ',"function":"0x1::a::b"' }),
    'the function twice, once escaped': json({ more: ',"\\u0066unction":"0x1::a::b"' }),
    'another member twice': json({ values: '{"a":1,"a":2}' }),
    'a member that nodes keep for numbers': json({ more: ',"x":{"$serde_json::private::Number":"1"}' }),
    'half of a pair': json({ more: ',"x":"\\ud800"' }),
    'a number beyond doubles': json({ values: '1e999' }),
    'a type of newer nodes': json({ types: '"|u64|u64 has copy"' }),
    'more values than are parsed': json({ values: `${'0,'.repeat(6_000)}0` }),
  };
  for (const [title, bytes] of Object.entries(bodies)) assert.equal(functionOf(bytes), undefined, title);
});

test('a large view is parsed for a client with rights by function alone, under the same key', () => {
  const large = json({ name: '"0x01::coin::balance"', values: `"${'a'.repeat(60_000)}"` });
  const [restricted, other] = [true, false].map((isRestricted) =>
    parseViewBody('application/json', large, { isRestricted }),
  );
  assert.equal(restricted?.functionId, '0x1::coin::balance');
  assert.equal(other?.functionId, undefined);
  assert.equal(restricted?.subject, other?.subject);
  // The node gets the text whose function was read.
  assert.match(String(restricted?.bytes), /^\{"function":"0x1::coin::balance",/);
  assert.equal(other?.bytes, large);

  assert.equal(functionOf(json({ values: `"${'a'.repeat(65_600)}"` })), undefined);
});

const address = `${'00'.repeat(31)}01`;

/** `hex`: the names behind the address of 32 bytes. */
function functionInBcs(hex: string): string | undefined {
  return parseViewBody(bcsType, Buffer.from(address + hex, 'hex')).functionId;
}

const text = (name: string): string => Buffer.from(name).toString('hex');

test('the function of a view in BCS is read from its bytes', () => {
  // The address, then "coin" and "balance" behind their lengths, no type arguments, no arguments.
  const called = `04${text('coin')}07${text('balance')}`;
  assert.equal(functionInBcs(`${called}0000`), '0x1::coin::balance');
  assert.equal(functionInBcs(`${called}ffff`), '0x1::coin::balance', 'arguments are the node’s');
  const long = 'a'.repeat(200);
  // 200 is c8 01 in ULEB128.
  assert.equal(functionInBcs(`04${text('coin')}c801${text(long)}0000`), `0x1::coin::${long}`);
});

test('bytes that are no canonical BCS of a function have none', () => {
  const rows: Readonly<Record<string, string>> = {
    'a length in a longer form': `04${text('coin')}8700${text('balance')}0000`,
    'a length of three bytes': `04${text('coin')}878000${text('balance')}0000`,
    'a length beyond the end': `04${text('coin')}08${text('balance')}`,
    'the end within the second byte of a length': `04${text('coin')}87`,
    'an empty name': `0400${text('balance')}`,
    'a name with a colon': `0a${text('coin::coin')}07${text('balance')}0000`,
    'a name beyond ASCII': `05${text('coïn')}07${text('balance')}0000`,
    'a NUL behind a name': `05${text('coin')}0007${text('balance')}0000`,
    'one name': `04${text('coin')}`,
    'no name': '',
  };
  for (const [title, hex] of Object.entries(rows)) assert.equal(functionInBcs(hex), undefined, title);
  assert.equal(parseViewBody(bcsType, Buffer.from(address.slice(2), 'hex')).functionId, undefined);
  assert.equal(parseViewBody(bcsType, Buffer.alloc(0)).functionId, undefined);
});
