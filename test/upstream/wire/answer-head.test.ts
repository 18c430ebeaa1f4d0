import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerHeads, readAnswerHead } from '../../../src/upstream/wire/answer-head.ts';
import { BadAnswerError } from '../../../src/upstream/wire/bad-answer.ts';

const line = 'HTTP/1.1 200 OK\r\n';

test('names are in lower case, values without the space around them, repeated headers are lists', () => {
  const { status, headers } = readAnswerHead(`${line}X-Node-Epoch:\t 7 \r\nSet-Cookie: a\r\nset-cookie: b\r\nEmpty:`);
  assert.equal(status, 200);
  assert.deepEqual({ ...headers }, { 'x-node-epoch': '7', 'set-cookie': ['a', 'b'], empty: '' });
});

test('no name of a header is anything but a name', () => {
  const { headers } = readAnswerHead(`${line}constructor: a\r\n__proto__: b`);
  assert.deepEqual(Object.entries(headers), [
    ['constructor', 'a'],
    ['__proto__', 'b'],
  ]);
});

for (const [fields, framing, isKept, keptMs] of [
  ['Content-Length: 5', { kind: 'counted', bytes: 5 }, true, undefined],
  ['Transfer-Encoding: Chunked', { kind: 'chunked' }, true, undefined],
  ['Date: now', { kind: 'close' }, true, undefined],
  ['Content-Length: 0\r\nConnection: Close', { kind: 'counted', bytes: 0 }, false, undefined],
  ['Content-Length: 0\r\nConnection: foo, close', { kind: 'counted', bytes: 0 }, false, undefined],
  ['Content-Length: 0\r\nConnection: closed', { kind: 'counted', bytes: 0 }, true, undefined],
  ['Content-Length: 0\r\nKeep-Alive: timeout=5, max=100', { kind: 'counted', bytes: 0 }, true, 5_000],
  ['Content-Length: 0\r\nKeep-Alive: max=100', { kind: 'counted', bytes: 0 }, true, undefined],
] as const) {
  test(`what ends the answer and what becomes of its connection: ${JSON.stringify(fields)}`, () => {
    const head = readAnswerHead(line + fields);
    assert.deepEqual([head.framing, head.isKept, head.keptMs], [framing, isKept, keptMs]);
  });
}

test('HTTP/1.0 keeps no connection, and has no chunks', () => {
  assert.equal(readAnswerHead('HTTP/1.0 200 OK\r\nContent-Length: 1').isKept, false);
  assert.throws(() => readAnswerHead('HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked'), BadAnswerError);
});

for (const [what, head] of [
  ['two lengths', `${line}Content-Length: 5\r\nContent-Length: 5`],
  ['lengths that differ', `${line}Content-Length: 5\r\nContent-Length: 6`],
  ['a length and chunks', `${line}Content-Length: 5\r\nTransfer-Encoding: chunked`],
  ['a list of lengths', `${line}Content-Length: 5, 5`],
  ['a signed length', `${line}Content-Length: +5`],
  ['a length in hexadecimal', `${line}Content-Length: 0x5`],
  ['no length', `${line}Content-Length: `],
  ['a length with space behind it', `${line}Content-Length: 5 `],
  ['more than any body', `${line}Content-Length: 9999999999999999`],
  ['another coding', `${line}Transfer-Encoding: gzip, chunked`],
  ['chunks in chunks', `${line}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked`],
  ['a coding that ends nowhere', `${line}Transfer-Encoding: identity`],
  ['a space before the colon', `${line}Content-Length : 5`],
  ['a folded line', `${line}A: b\r\n c: d`],
  ['a bare line feed', `${line}A: b\nContent-Length: 5`],
  ['a bare carriage return', `${line}A: b\rContent-Length: 5`],
  ['a control character', `${line}A: \u0000b`],
  ['a line without a colon', `${line}A`],
  ['a line without a name', `${line}: b`],
  ['an empty line', `${line}\r\nA: b`],
  ['another protocol', 'HTTP/2 200 OK'],
  ['a later version', 'HTTP/1.2 200 OK'],
  ['no status', 'HTTP/1.1 OK'],
  ['a status of two digits', 'HTTP/1.1 20 OK'],
  ['a status of no class', 'HTTP/1.1 600 OK'],
  ['nothing', ''],
] as const) {
  test(`${what} is refused`, () => {
    assert.throws(() => readAnswerHead(head), BadAnswerError);
  });
}

test('a line that is long and no header takes no longer than one that is', () => {
  const [spaces, heads] = [' '.repeat(16_000), 50];
  const startMs = performance.now();
  for (let at = 0; at < heads; at += 1) {
    assert.throws(() => readAnswerHead(`${line}A:${spaces}\u0001${at}`), BadAnswerError);
    assert.equal(readAnswerHead(`${line}A:${spaces}${at}${spaces}`).headers['a'], String(at));
  }
  // A regular expression with two ways to take a space: 500 ms for each.
  assert.ok(performance.now() - startMs < 5_000);
});

const withLength = (at: number): string => `${line}Content-Length: ${at}`;

test('the same head is read once, another anew, however many there were', () => {
  const heads = new AnswerHeads();
  const first = heads.read(withLength(1));
  assert.equal(heads.read(withLength(1)), first);
  assert.deepEqual(heads.read(withLength(2)).framing, { kind: 'counted', bytes: 2 });
  assert.equal(heads.read(withLength(1)), first);
  for (let at = 0; at < 100; at += 1) heads.read(withLength(at));
  assert.deepEqual(heads.read(withLength(1)), first);
  assert.notEqual(heads.read(withLength(1)), first);
});
