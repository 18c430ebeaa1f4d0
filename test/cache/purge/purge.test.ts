/** The steps of a purge: here, in Redis and at the other replicas. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { purge } from '../../../src/cache/purge.ts';
import { ReadThrough } from '../../../src/cache/read-through.ts';
import { answerOf, keyAt } from '../../support/answers.ts';

const everything = { kind: 'everything' } as const;

test('an answer read from Redis before its purge is dropped as well, here and at the other replicas', async () => {
  const memory = new MemoryCache(1_000_000);
  const tiers = new ReadThrough(memory, undefined, undefined);
  const [key, answer] = [keyAt(5n), answerOf('old')];
  memory.store(key, answer);
  let others = 'old';
  const { memory: reads } = await purge(everything, (scope) => tiers.purge(scope), {
    clear: () => {
      assert.deepEqual([memory.find(key), others], [undefined, '']);
      memory.store(key, answer);
      others = 'found in Redis';
      return Promise.resolve(1);
    },
    publishPurge: () => {
      others = '';
      return Promise.resolve({ notified: 1, acknowledged: 1 });
    },
  });
  assert.deepEqual([memory.find(key), others, reads], [undefined, '', 2]);
});

const all = { notified: 2, acknowledged: 2 };
const some = { notified: 2, acknowledged: 1 };

/** Keys that Redis deleted, the reports of the replicas before and after it, and whether the store has the purge. */
const outcomes = [
  ['nothing is missing', 3, [all, all], true, true],
  ['Redis could not be cleared', undefined, [all, all], true, false],
  ['no replica could be notified', 3, [undefined, undefined], true, false],
  ['a replica has not cleared before Redis was cleared', 3, [some, all], true, false],
  ['a replica has not cleared after Redis was cleared', 3, [all, some], true, false],
  ['the store has no record', 3, [all, all], false, false],
] as const;

for (const [name, keys, reports, isStoreClear, isComplete] of outcomes) {
  test(`a purge is ${isComplete ? '' : 'not '}complete: ${name}`, async () => {
    const left = [...reports];
    const purged = await purge(everything, () => Promise.resolve({ reads: 0, isStoreClear }), {
      clear: () => Promise.resolve(keys),
      publishPurge: () => Promise.resolve(left.shift()),
    });
    const last = reports.find((report) => report !== all) ?? all;
    const replicas = reports[0] === undefined ? 'unavailable' : { told: last?.notified, cleared: last?.acknowledged };
    assert.deepEqual([purged.isComplete, purged.redis, purged.replicas], [isComplete, keys ?? 'unavailable', replicas]);
  });
}
