import assert from 'node:assert/strict';
import { test } from 'node:test';
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
