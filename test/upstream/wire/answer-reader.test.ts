import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerHeads } from '../../../src/upstream/wire/answer-head.ts';
import { AnswerReader } from '../../../src/upstream/wire/answer-reader.ts';
import { BadAnswerError } from '../../../src/upstream/wire/bad-answer.ts';

interface Read {
  status: number;
  body: string;
  /** `undefined`: it has not come to its end. */
  isKept: boolean | undefined;
}

/** Gives a reader the pieces, each in the same place; it is asked the next question when an answer has ended. */
function readAll(pieces: readonly string[], { isHead = false, isClosed = false, questions = 1 } = {}) {
  const answers: Read[] = [];
  let last: Read | undefined;
  let left = questions;
  const reader = new AnswerReader(new AnswerHeads(), {
    onHead: ({ status }) => answers.push((last = { status, body: '', isKept: undefined })),
    onData: (bytes) => (last !== undefined ? (last.body += bytes.toString('latin1')) : undefined),
    onEnd: (isKept) => {
      if (last !== undefined) last.isKept = isKept;
      left -= 1;
      if (left > 0) reader.begin(isHead);
    },
  });
  reader.begin(isHead);
  const place = Buffer.alloc(1024);
  for (const piece of pieces) reader.take(place.subarray(0, place.write(piece, 'latin1')));
  const isWhole = isClosed ? reader.close() : undefined;
  return { answers, isWhole };
}

const counted = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello';
const chunked =
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a="b";c\r\nhel\r\n02\r\nlo\r\n0\r\nX: y\r\n\r\n';
const whole = { status: 200, body: 'hello', isKept: true };

for (const [name, text, expected] of [
  ['a length', counted, whole],
  ['chunks', chunked, whole],
  ['no body by its status', 'HTTP/1.1 204 No Content\r\n\r\n', { status: 204, body: '', isKept: true }],
  [
    'no length but a status without a body',
    'HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n',
    { status: 304, body: '', isKept: true },
  ],
  ['an empty body', 'HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n', { status: 404, body: '', isKept: true }],
  ['an interim answer first', `HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n${counted}`, whole],
  [
    'the last of its connection',
    'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok',
    { status: 200, body: 'ok', isKept: false },
  ],
] as const) {
  test(`an answer with ${name} is read alike wherever it is cut`, () => {
    for (let cut = 0; cut <= text.length; cut += 1) {
      assert.deepEqual(readAll([text.slice(0, cut), text.slice(cut)]).answers, [expected], `cut at ${cut}`);
    }
    assert.deepEqual(readAll(text.split('')).answers, [expected], 'byte by byte');
  });
}

test('a body that the end of the connection ends is whole then, and not before', () => {
  const text = 'HTTP/1.1 200 OK\r\n\r\nhel';
  assert.deepEqual(readAll([text, 'lo']).answers, [{ status: 200, body: 'hello', isKept: undefined }]);
  const ended = readAll([text, 'lo'], { isClosed: true });
  assert.deepEqual(ended, { answers: [{ status: 200, body: 'hello', isKept: false }], isWhole: true });
});

test('an answer that breaks off is not whole', () => {
  for (const text of [counted, chunked]) {
    for (let cut = 0; cut < text.length; cut += 1) {
      const { answers, isWhole } = readAll([text.slice(0, cut)], { isClosed: true });
      assert.deepEqual([isWhole, answers[0]?.isKept], [false, undefined], `cut at ${cut}`);
    }
  }
});

test('the answer to HEAD has no body, whatever it says', () => {
  for (const framing of ['Content-Length: 5', 'Transfer-Encoding: chunked', 'Date: now']) {
    const { answers } = readAll([`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`], { isHead: true });
    assert.deepEqual(answers, [{ status: 200, body: '', isKept: true }]);
  }
});

test('bytes behind an answer end the connection before the next question could be given them', () => {
  assert.throws(() => readAll([`${counted}${counted}`]), BadAnswerError);
  const { answers } = readAll([`${counted}H`], { questions: 2 });
  assert.deepEqual(answers, [{ ...whole, isKept: false }]);
});

test('one question after the other is answered on a connection', () => {
  const { answers } = readAll([counted, chunked, counted], { questions: 3 });
  assert.deepEqual(answers, [whole, whole, whole]);
});

for (const [what, text] of [
  ['a chunk longer than it says', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n'],
  ['a chunk without a length', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\nhello\r\n'],
  ['a chunk of a negative length', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nhel\r\n'],
  ['a chunk of more than any', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000000\r\n'],
  ['a chunk line that ends in a line feed', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nhel\r\n'],
  ['a chunk line without an end', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;${'a'.repeat(1100)}`],
  [
    'trailers without an end',
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${`a: ${'b'.repeat(500)}\r\n`.repeat(40)}`,
  ],
  ['a trailer that is none', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX\r\n\r\n'],
  ['a head without an end', `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(17_000)}`],
  ['another protocol instead', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\n'],
  ['interim answers without an end', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(17)],
  ['an empty line before it', `\r\n${counted}`],
] as const) {
  test(`${what} is refused`, () => {
    const pieces = text.match(/[^]{1,1000}/g) ?? [];
    assert.throws(() => readAll(pieces), BadAnswerError);
  });
}
