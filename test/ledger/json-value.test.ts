import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonError, JsonValue } from '../../src/ledger/json-value.ts';

function faultOf(text: string): string {
  try {
    JsonValue.parse(text);
  } catch (error) {
    assert.ok(error instanceof JsonError);
    return error.fault;
  }
  return 'none';
}

test('a number stays the text it was written as', () => {
  for (const text of ['0', '-0', '1.0', '1e0', '1E+2', '-1.25e-7', '18446744073709551616', '9007199254740993']) {
    assert.deepEqual(JsonValue.parse(text), { kind: 'number', text });
    assert.equal(JsonValue.canonical(JsonValue.parse(` [ ${text} ] `)), `[${text}]`);
  }
});

test('texts outside RFC 8259 are refused as syntax', () => {
  const texts = [
    ['', ' ', '01', '1.', '.5', '+1', '1e', '-', 'nul', 'truee', "'a'", '[1,]', '{"a":1,}', '{a:1}', '{"a"}'],
    ['[1 2]', '1 2', '"\t"', '"\\x41"', '"\\x0041"', '"\\u12g4"', '"a', '[', '{', '\ufeff1', '\u00a01', 'NaN'],
    ['/**/1', '1n'],
  ].flat();
  for (const text of texts) assert.equal(faultOf(text), 'syntax', text);
});

const errors: readonly (readonly [text: string, message: string])[] = [
  ['[1]]', 'unexpected text after the value at position 3'],
  ['[x]', 'expected a value at position 1'],
  ['{1:2}', 'expected a key at position 1'],
  ['{"a" 1}', 'expected ":" at position 5'],
  ['{"a":1 2}', 'expected "," or "}" at position 7'],
  ['[1 2]', 'expected "," or "]" at position 3'],
  ['"a', 'control character or end of text in a string at position 2'],
  ['"a\\u12x4"', 'bad escape at position 2'],
  ['-a', 'expected a digit at position 1'],
  ['{"a":1,"\\u0061":2}', 'duplicate key "a" at position 7'],
  ['{"$serde_json::private::Number":"1"}', 'a reserved key at position 1'],
  ['["\\ud800"]', 'half of a surrogate pair in a string at position 1'],
  ['[1e308]', 'a number beyond the range of a double at position 1'],
  ['['.repeat(128), 'nested deeper than 127 at position 127'],
  [`[${'0,'.repeat(19_999)}0]`, 'more values than are read here at position 9999'],
];

test('an error names the fault and its position', () => {
  for (const [text, message] of errors) {
    assert.throws(() => JsonValue.parseOfNodes(text), { name: 'JsonError', message }, text.slice(0, 40));
  }
});

test('numbers below 1e308 are in the range of every reader', () => {
  for (const text of ['9.99e307', '-9.99e307', '9'.repeat(308)]) {
    assert.deepEqual(JsonValue.parseOfNodes(text), { kind: 'number', text });
  }
});

test('each escape is read as its character', () => {
  assert.equal(JsonValue.parse('"\\b\\f\\n\\r\\t\\/\\"\\\\\\u00e9\\u00E9"'), '\b\f\n\r\t/"\\\u00e9\u00e9');
});

test('a key written twice is distinguished from other faults, also when it is spelled with escapes', () => {
  assert.equal(faultOf('{"a":1,"b":2,"\\u0061":1}'), 'duplicate key');
  assert.equal(faultOf('[{"x":{"":1,"":1}}]'), 'duplicate key');
  assert.equal(faultOf('[{"a":1},{"a":1}]'), 'none');
  assert.equal(
    JsonValue.canonical(JsonValue.parse('{"__proto__":1,"constructor":2}')),
    '{"__proto__":1,"constructor":2}',
  );
});

test('a key that nodes reserve for numbers is distinguished, wherever it stands and however it is spelled', () => {
  const marker = '$serde_json::private::Number';
  for (const key of [
    marker,
    '$serde_json::private::',
    '$serde_json::private::RawValue',
    marker.replace('$', '\\u0024'),
  ]) {
    assert.equal(faultOf(`{"${key}":"1"}`), 'reserved key', key);
    assert.equal(faultOf(`[{"a":{"b":1,"${key}":"x"}}]`), 'reserved key', key);
  }
  assert.equal(faultOf(`{"a":"${marker}","$serde_json::private":1,"${marker.slice(1)}":1}`), 'none');
});

test('nesting is read to depth 128 and not further, however deep the text goes', () => {
  assert.equal(faultOf('['.repeat(128) + ']'.repeat(128)), 'none');
  assert.equal(faultOf('['.repeat(129) + ']'.repeat(129)), 'too deep');
  assert.equal(faultOf('{"a":'.repeat(1_000_000)), 'too deep');
  assert.throws(() => JsonValue.parse('['.repeat(129)), { fault: 'too deep', at: 128 });
});

/** A list of `values` values, the list included, and a last item. */
const after = (values: number, last: string): string => `[${'1,'.repeat(values - 1)}${last}]`;

test('a text for nodes has 5,000 values and escapes at most, and not one more is read', () => {
  for (const [last, values] of [
    ['1', 1],
    ['{"a":{"b":[null]}}', 4],
    ['"\\n"', 2],
    ['{"\\n\\n":1}', 4],
  ] as const) {
    JsonValue.parseOfNodes(after(5_000 - values, last));
    assert.throws(() => JsonValue.parseOfNodes(after(5_001 - values, last)), { fault: 'too many values' }, last);
    JsonValue.parse(after(5_001 - values, last));
  }
});

test('spellings of one value have one canonical text', () => {
  const compact = '{"a":[1,"\u00e9\\n/"],"b":{"c":null,"d":true}}';
  const spread = '\n{ "b" : {"d":true,\t"c" : null } , "\\u0061":[ 1 ,"\\u00e9\\u000A\\/" ]\r}';
  assert.equal(JsonValue.canonical(JsonValue.parse(compact)), compact);
  assert.equal(JsonValue.canonical(JsonValue.parse(spread)), compact);
});

test('different values have different canonical texts, numbers spelled differently among them', () => {
  const texts = [
    ['1', '1.0', '1e0', '10e-1', '"1"', '[1]', '[1,1]', '["1"]', '{}', '[]', 'null', '"null"', '""'],
    ['{"":""}'],
  ].flat();
  assert.equal(new Set(texts.map((text) => JsonValue.canonical(JsonValue.parse(text)))).size, texts.length);
});

test('a lone surrogate passes through and is written as an escape', () => {
  assert.equal(JsonValue.parse('"\\ud800x"'), '\ud800x');
  assert.equal(JsonValue.canonical(JsonValue.parse('"\\uD800x"')), '"\\ud800x"');
  assert.equal(JsonValue.canonical(JsonValue.parse('"\\ud83d\\ude00"')), '"\u{1f600}"');
});
