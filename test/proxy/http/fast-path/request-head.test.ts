import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeaderBlocks, readHead } from '../../../../src/proxy/http/fast-path/request-head.ts';
import { heldBytes } from '../../../support/heap.ts';

const count = 400;
const chunkBytes = 64 * 1024;

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
