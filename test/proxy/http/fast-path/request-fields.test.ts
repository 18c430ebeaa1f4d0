/** Fields of HTTP/2 requests, read as header lines of HTTP/1.1. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeaderBlocks } from '../../../../src/proxy/http/fast-path/request-head.ts';
import { KnownFields } from '../../../../src/proxy/http/fast-path/h2-hits.ts';

const pseudo = [':method', 'GET', ':scheme', 'https', ':authority', 'a', ':path', '/v1/x'];

function read(raw: readonly string[]): KnownFields | undefined {
  return KnownFields.read(raw, new HeaderBlocks());
}

test('plain fields are a block of headers with the authority as host', () => {
  const fields = read([...pseudo, 'accept', 'application/x-bcs', 'accept-encoding', 'gzip']);
  assert.equal(fields?.pathAt, 7);
  const { headers, form, coding, isPlain } = fields.block;
  assert.deepEqual({ ...headers }, { host: 'a', accept: 'application/x-bcs', 'accept-encoding': 'gzip' });
  assert.deepEqual([form, coding, isPlain], ['bcs', 'gzip', true]);
  assert.equal(read([...pseudo, 'origin', 'https://page.example'])?.block.isPlain, false);
});

test('fields match a request that differs in its target alone', () => {
  const raw = [...pseudo, 'accept', '*/*'];
  const fields = read(raw);
  assert.equal(fields?.matches(raw.with(7, '/v1/y')), true);
  for (const [at, text] of raw.entries()) {
    if (at !== 7) assert.equal(fields?.matches(raw.with(at, `${text}x`)), false, text);
  }
  assert.equal(fields?.matches([...raw, 'x', 'y']), false);
  assert.equal(fields?.matches(pseudo), false);
});

const unsupported: readonly (readonly [string, readonly string[]])[] = [
  ['another method', pseudo.with(1, 'HEAD')],
  ['no path', pseudo.slice(0, 6)],
  ['no authority', pseudo.toSpliced(4, 2)],
  ['an authority with a user', pseudo.with(5, 'b@a')],
  ['an authority that ends a line', pseudo.with(5, 'a\r\nx: y')],
  ['a second host', [...pseudo, 'host', 'a']],
  ['a field twice', [...pseudo, 'x', 'y', 'x', 'z']],
  ['a value that ends a line', [...pseudo, 'x', 'y\nz: 1']],
  ['a name that ends a line', [...pseudo, 'x\n', 'y']],
  ['a value with blanks around it', [...pseudo, 'x', ' y']],
  ['a value that is no ASCII', [...pseudo, 'x', 'caf\u00e9']],
  ['an expectation', [...pseudo, 'expect', '100-continue']],
  ['a part', [...pseudo, 'range', 'bytes=0-3']],
  ['a connection that closes', [...pseudo, 'connection', 'close']],
  ['too many fields', [...pseudo, ...Array.from({ length: 65 }, (_, at) => [`x${at}`, 'y']).flat()]],
  ['too long a block', [...pseudo, 'x', 'y'.repeat(5_000)]],
];

for (const [name, raw] of unsupported) {
  test(`unsupported: ${name}`, () => {
    assert.equal(read(raw), undefined);
  });
}
