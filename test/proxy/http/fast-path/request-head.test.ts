/** Heads of requests on the fast path: blocks of headers, and fields of HTTP/2 read as header lines of HTTP/1.1. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KnownFields } from '../../../../src/proxy/http/fast-path/h2-hits.ts';
import { HeaderBlocks, readHead } from '../../../../src/proxy/http/fast-path/request-head.ts';
import { heldBytes } from '../../../support/heap.ts';

const count = 400;
const chunkBytes = 64 * 1024;

test('a condition is no part of the block that targets share, and two of them are unsupported', () => {
  const blocks = new HeaderBlocks();
  const read = (lines: string) => readHead(`GET /v1/a HTTP/1.1\r\n${lines}\r\n\r\n`, 0, blocks)?.block;

  const [one, other] = ['"a"', 'W/"b", "c"'].map((tag) => read(`Host: a\r\nIf-None-Match: ${tag}\r\nAccept: */*`));

  assert.deepEqual([one?.condition, other?.condition], ['"a"', 'W/"b", "c"']);
  assert.equal(other?.headers['if-none-match'], 'W/"b", "c"');
  assert.equal(one?.known, read('Host: a\r\nAccept: */*')?.known);
  assert.equal(read('Host: a\r\nAccept: */*')?.condition, undefined);
  assert.equal(read('If-None-Match:\r\nHost: a')?.condition, '');
  assert.equal(read('Host: a\r\nIf-None-Match: "a"\r\nif-none-match: "b"'), undefined);
  assert.equal(read('Host: a\r\nIf-None-Match:  "a"'), undefined);
  assert.equal(read('Host: a\r\nIf-None-Match: "a" '), undefined);
  assert.equal(read('If-None-Match: "a"'), undefined);
});

test('a cached header block does not keep its chunk in memory', () => {
  const blocks = new HeaderBlocks();
  const before = heldBytes();

  for (let index = 0; index < count; index += 1) {
    const head = `GET /v1/a HTTP/1.1\r\nHost: a\r\nUser-Agent: somebody who is ${index}\r\n\r\n`;
    const text = Buffer.from(head.padEnd(chunkBytes)).toString('latin1');
    assert.equal(readHead(text, 0, blocks)?.block.headers['user-agent'], `somebody who is ${index}`);
  }

  const taken = heldBytes() - before;
  // The surrounding chunks would take 26 MB.
  assert.ok(taken < 2_000_000, `${taken} bytes`);
  assert.notEqual(blocks.find('Host: a'), undefined);
});

const pseudo = [':method', 'GET', ':scheme', 'https', ':authority', 'a', ':path', '/v1/x'];

function readFields(raw: readonly string[]): KnownFields | undefined {
  return KnownFields.read(raw, new HeaderBlocks());
}

test('plain fields are a block of headers with the authority as host', () => {
  const fields = readFields([...pseudo, 'accept', 'application/x-bcs', 'accept-encoding', 'gzip']);
  assert.equal(fields?.pathAt, 7);
  const { headers, form, coding, isPlain } = fields.block;
  assert.deepEqual({ ...headers }, { host: 'a', accept: 'application/x-bcs', 'accept-encoding': 'gzip' });
  assert.deepEqual([form, coding, isPlain], ['bcs', 'gzip', true]);
  assert.equal(readFields([...pseudo, 'origin', 'https://page.example'])?.block.isPlain, false);
});

test('fields match a request that differs in its target alone', () => {
  const raw = [...pseudo, 'accept', '*/*'];
  const fields = readFields(raw);
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
    assert.equal(readFields(raw), undefined);
  });
}
