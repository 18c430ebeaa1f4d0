// Answers as bytes: which are answers, and that the next request gets its own in every case.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Upstream } from '../../../src/upstream/node/upstream.ts';
import { ask, nodeAt, textOf } from '../../support/node-client.ts';
import { listen } from '../../support/listen.ts';

const line = 'HTTP/1.1 200 OK\r\n';
const counted = `${line}Content-Length: 5\r\n\r\nhello`;
const chunkedHead = `${line}Transfer-Encoding: chunked\r\n\r\n`;
const chunked = `${chunkedHead}3;a="b";c\r\nhel\r\n02\r\nlo\r\n0\r\nX: y\r\n\r\n`;
const next = 'the next answer';

interface Answering {
  readonly pieces: readonly string[];
  readonly isEnded?: boolean;
}

/** Answers `/next` soundly, and every other path with the pieces. */
async function nodeThatAnswers(t: TestContext, { pieces, isEnded = false }: Answering): Promise<Upstream> {
  const server = createServer((socket) => {
    socket.setNoDelay(true).on('error', () => undefined);
    const give = async (): Promise<void> => {
      for (const piece of pieces) {
        socket.write(piece, 'latin1');
        await setImmediate();
      }
      if (isEnded) socket.end();
    };
    socket.on('data', (chunk) => {
      if (!chunk.toString('latin1').includes(' /next ')) void give();
      else socket.write(`${line}Content-Length: ${next.length}\r\n\r\n${next}`);
    });
  });
  const port = await listen(t, server);
  return nodeAt(t, port);
}

for (const [name, text, expected] of [
  ['with a length', counted, { status: 200, body: 'hello', isFramed: true }],
  ['in chunks', chunked, { status: 200, body: 'hello', isFramed: true }],
  [
    'behind an interim answer',
    `HTTP/1.1 103 E\r\nLink: a\r\n\r\n${counted}`,
    { status: 200, body: 'hello', isFramed: true },
  ],
  [
    'without a body by its status',
    'HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n',
    { status: 304, body: '', isFramed: true },
  ],
] as const) {
  test(`an answer ${name} is the same wherever it is cut`, async (t) => {
    for (let cut = 1; cut <= text.length; cut += 7) {
      const node = await nodeThatAnswers(t, { pieces: [text.slice(0, cut), text.slice(cut)] });
      const { status, body, isFramed } = await ask(node, '/');
      assert.deepEqual({ status, body: body.toString(), isFramed }, expected, `cut at ${cut}`);
      assert.equal(await textOf(ask(node, '/next')), next);
    }
  });
}

test('a body that ends with its connection counts as one that may be cut', async (t) => {
  const node = await nodeThatAnswers(t, { pieces: [`${line}\r\nhel`, 'lo'], isEnded: true });
  const { body, isFramed } = await ask(node, '/');
  assert.deepEqual([body.toString(), isFramed], ['hello', false]);
});

test('the answer to HEAD has no body, despite its head', async (t) => {
  for (const framing of ['Content-Length: 5', 'Transfer-Encoding: chunked']) {
    const node = await nodeThatAnswers(t, { pieces: [`${line}${framing}\r\n\r\n`] });
    assert.equal((await ask(node, '/', { method: 'HEAD' })).body.length, 0);
    assert.equal(await textOf(ask(node, '/next')), next);
  }
});

test('names of headers are in lower case, repeated ones are lists, and no name is a property', async (t) => {
  const fields = 'X-Node-Epoch:\t 7\r\nSet-Cookie: a\r\nset-cookie: b\r\nEmpty:\r\nconstructor: a\r\n__proto__: b\r\n';
  const node = await nodeThatAnswers(t, { pieces: [`${line}${fields}Content-Length: 0\r\n\r\n`] });
  const { headers } = await ask(node, '/');
  assert.deepEqual(Object.entries(headers), [
    ['x-node-epoch', '7'],
    ['set-cookie', ['a', 'b']],
    ['empty', ''],
    ['constructor', 'a'],
    ['__proto__', 'b'],
    ['content-length', '0'],
  ]);
});

const withHead = (fields: string): string => `${line}${fields}\r\n\r\nhello`;
const inChunks = (fields: string): string => `${line}${fields}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`;

for (const [name, text] of [
  ['two equal lengths', withHead('Content-Length: 5\r\nContent-Length: 5')],
  ['lengths that differ', withHead('Content-Length: 5\r\nContent-Length: 6')],
  ['a length ahead of chunks', inChunks('Content-Length: 5\r\nTransfer-Encoding: chunked')],
  ['a length behind chunks', inChunks('Transfer-Encoding: chunked\r\nContent-Length: 5')],
  ['a list of lengths', withHead('Content-Length: 5, 5')],
  ['a signed length', withHead('Content-Length: +5')],
  ['a length in hexadecimal', withHead('Content-Length: 0x5')],
  ['an empty length', withHead('Content-Length: ')],
  ['a length with space behind it', withHead('Content-Length: 5 ')],
  ['a length above any number', withHead('Content-Length: 99999999999999999999999')],
  ['a further transfer coding', inChunks('Transfer-Encoding: gzip, chunked')],
  ['chunks in chunks', inChunks('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked')],
  ['a transfer coding without an end', withHead('Transfer-Encoding: identity')],
  ['an unknown transfer coding', withHead('Transfer-Encoding: xchunked')],
  ['a coding behind chunks', inChunks('Transfer-Encoding: chunked, gzip')],
  ['space before the colon', withHead('Content-Length : 5')],
  ['a folded line', withHead('A: b\r\n c: d\r\nContent-Length: 5')],
  ['a bare line feed', withHead('A: b\nContent-Length: 5')],
  ['a bare carriage return', withHead('A: b\rContent-Length: 5')],
  ['a control character', withHead('A: \u0000b\r\nContent-Length: 5')],
  ['a line without a colon', withHead('A\r\nContent-Length: 5')],
  ['a line without a name', withHead(': b\r\nContent-Length: 5')],
  ['another protocol', counted.replace('/1.1', '/2')],
  ['a later version', counted.replace('/1.1', '/1.2')],
  ['no status', counted.replace('200 ', '')],
  ['a status below every class', counted.replace('200', '099')],
  ['a status above every class', counted.replace('200', '600')],
  ['a chunk longer than its length', `${chunkedHead}3\r\nhello\r\n0\r\n\r\n`],
  ['a chunk without a length', `${chunkedHead}\r\nhello\r\n0\r\n\r\n`],
  ['a chunk of a negative length', `${chunkedHead}-3\r\nhel\r\n0\r\n\r\n`],
  ['a chunk above any length', `${chunkedHead}fffffffffffffffff\r\nhel\r\n0\r\n\r\n`],
  ['a chunk line that ends in a line feed', `${chunkedHead}3\nhel\r\n0\r\n\r\n`],
  ['a trailer that is none', `${chunkedHead}0\r\nX\r\n\r\n`],
  ['a length as a trailer', `${chunkedHead}5\r\nhello\r\n0\r\nContent-Length: 3\r\n\r\n`],
  ['trailers above the bound', `${chunkedHead}0\r\n${`a: ${'b'.repeat(500)}\r\n`.repeat(40)}\r\n`],
  ['a head above the bound', withHead(`A: ${'b'.repeat(17_000)}\r\nContent-Length: 5`)],
  ['more headers than the bound', withHead(`${'a:\r\n'.repeat(17_000)}Content-Length: 5`)],
  ['another protocol instead', 'HTTP/1.1 101 S\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n'],
  ['a 101 that names no protocol', `HTTP/1.1 101 S\r\n\r\n${counted}`],
  ['a 100 that no request asked for', `HTTP/1.1 100 Continue\r\n\r\n${counted}`],
  ['interim answers without an end', `${'HTTP/1.1 102 P\r\n\r\n'.repeat(17)}${counted}`],
] as const) {
  test(`an answer with ${name} is refused`, async (t) => {
    const node = await nodeThatAnswers(t, { pieces: [text] });
    await assert.rejects(ask(node, '/'));
    assert.equal(await textOf(ask(node, '/next')), next);
  });
}

test('an answer that breaks off is refused, wherever that is', async (t) => {
  for (const text of [counted, chunked, counted.replace('Content', 'Connection: close\r\nContent')]) {
    for (let cut = 0; cut < text.length; cut += 5) {
      const node = await nodeThatAnswers(t, { pieces: [text.slice(0, cut)], isEnded: true });
      await assert.rejects(ask(node, '/'), `cut at ${cut}`);
      assert.equal(await textOf(ask(node, '/next')), next);
    }
  }
});

for (const [name, answer, rest] of [
  ['an answer', counted, `${line}Content-Length: 5\r\n\r\nSTRAY`],
  ['the start of an answer', counted, 'HTTP/1.1 2'],
  ['bytes without a form', counted, 'STRAY'],
  ['a body that its status forbids', 'HTTP/1.1 204 N\r\n\r\n', 'STRAY'],
  ['a body that its status forbids and its head announces', 'HTTP/1.1 304 N\r\nContent-Length: 5\r\n\r\n', 'STRAY'],
] as const) {
  test(`${name} behind an answer answers no later request`, async (t) => {
    for (const pieces of [[answer + rest], [answer, rest]]) {
      const node = await nodeThatAnswers(t, { pieces });
      await ask(node, '/');
      assert.equal(await textOf(ask(node, '/next')), next);
    }
  });
}

test('an answer whose head comes byte by byte is bounded by the time of the request', async (t) => {
  const node = await nodeThatAnswers(t, { pieces: [`${line}A: `, ...Array<string>(1_000).fill('b'), '\r\n'] });
  await assert.rejects(ask(node, '/', { signal: AbortSignal.timeout(300) }), { name: 'TimeoutError' });
  assert.equal(await textOf(ask(node, '/next')), next);
});
