// Purges of a process with a store, beside reads that the store answers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { ReadThrough } from '../../../src/cache/read-through.ts';
import type { AnswerLoad } from '../../../src/cache/tiers.ts';
import { answerOf, keyAt, loadThrough } from '../../support/answers.ts';
import { openStore, storeFolder } from '../../support/stores.ts';

const key = keyAt(7n);
const origin = { upstream: 'node', tookMs: 1, version: undefined, retryAfter: undefined };
const node: AnswerLoad = () => Promise.resolve({ answer: answerOf('after'), origin, head: 7n });

test('a read that the store answers during a purge is not left in memory', async (t) => {
  const { store, write } = await openStore(t, { folder: storeFolder(t) });
  await write(key, answerOf('before'));
  const memory = new MemoryCache({ maxBytes: 2 ** 20, onEvict: () => {} });
  const reads = new ReadThrough({
    memory,
    stored: { store, followMs: () => 0, onLookup: () => {} },
    shared: undefined,
  });

  const purged = reads.purge({ kind: 'everything' });
  const during = await loadThrough(reads, key, node);
  assert.deepEqual(during.origin, 'store');
  assert.deepEqual(await purged, { reads: 1, isStoreClear: true });

  assert.equal(memory.peek(key), undefined);
  const next = await loadThrough(reads, key, node);
  assert.equal(next.answer.body.toString(), 'after');
});
