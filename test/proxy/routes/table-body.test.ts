/** Canonical bodies of requests for table items. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTableBody } from '../../../src/proxy/routes/canonical-body.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';

type Operation = Parameters<typeof parseTableBody>[0];

function parse(operation: Operation, text: string, digest?: string) {
  const { subject, bytes } = parseTableBody(operation, Buffer.from(text), digest);
  return { subject, sent: String(bytes) };
}

const item = '{"key_type":"address","value_type":"0x1::a::B<0x2::c::D, u8>","key":"0x01"}';

const canonical: readonly (readonly [claim: string, operation: Operation, text: string, expected: string])[] = [
  ['an item in its canonical form', 'table_item', item, item],
  [
    'an item with members in another order and types in another spelling',
    'table_item',
    '{ "key": "0x01", "value_type": "0x01::a::B<0x0002::c::D,u8>", "key_type": " address" }',
    item,
  ],
  [
    'a key of any JSON value, numbers as they are spelled',
    'table_item',
    '{"key_type":"u64","value_type":"bool","key":{"b":1.0,"a":[null]}}',
    '{"key_type":"u64","value_type":"bool","key":{"a":[null],"b":1.0}}',
  ],
  ['a raw item', 'raw_table_item', '{ "key" : "0x01" }', '{"key":"0x01"}'],
];

for (const [claim, operation, text, expected] of canonical) {
  test(`${claim} is sent and keyed in its canonical form`, () => {
    assert.deepEqual(parse(operation, text), { subject: `json:${expected}`, sent: expected });
  });
}

const unchanged: readonly (readonly [claim: string, operation: Operation, text: string])[] = [
  ['an item with a fourth member', 'table_item', '{ "key_type":"u8","value_type":"u8","key":1,"more":2}'],
  ['an item with a key type of newer nodes', 'table_item', '{ "key_type":"|u8|u8","value_type":"u8","key":1}'],
  ['an item with a value type of newer nodes', 'table_item', '{ "key_type":"u8","value_type":"|u8|u8","key":1}'],
  ['an item above 8 kB', 'table_item', `{ "key_type":"u8","value_type":"u8","key":"${'a'.repeat(8 * 1024)}"}`],
  ['a raw item with a second member', 'raw_table_item', '{ "key":"0x01","key_type":"u8"}'],
];

for (const [claim, operation, text] of unchanged) {
  test(`${claim} is sent as it came, under a key of all its bytes`, () => {
    const { subject, sent } = parse(operation, text);
    assert.equal(sent, text);
    assert.match(subject, /^text:[\w-]{43}$/);
    assert.notEqual(parse(operation, `${text} `).subject, subject);
    assert.equal(parse(operation, text, 'a digest').subject, 'text:a digest');
  });
}

const refused: readonly (readonly [operation: Operation, text: string, message: string])[] = [
  ['table_item', '{"key_type":"u8","value_type":"u8"}', '"key" is missing'],
  ['table_item', '{"value_type":"u8","key":1}', '"key_type" holds something that is not a string'],
  ['table_item', '{"key_type":"u8","key":1}', '"value_type" holds something that is not a string'],
  ['table_item', '{"key_type":"u8","value_type":8,"key":1}', '"value_type" holds something that is not a string'],
  ['raw_table_item', '{}', '"key" is missing'],
  ['raw_table_item', '[]', 'an object is expected'],
];

for (const [operation, text, message] of refused) {
  test(`the ${operation} ${text} is refused: ${message}`, () => {
    assert.throws(
      () => parse(operation, text),
      (error) =>
        error instanceof GatewayError &&
        error.fault === 'malformed' &&
        error.message === `parse request payload error: ${message}`,
    );
  });
}
