/** The steps of a purge, and what happens in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { purge } from '../../../src/cache/purge/purger.ts';
import { ReadThrough } from '../../../src/cache/read-through.ts';
import { answerOf, keyAt } from '../../support/answers.ts';

test('an answer read from Redis before its purge is dropped as well, here and at the other replicas', async () => {
  const memory = new MemoryCache({ maxBytes: 1_000_000, onEvict: () => {} });
  const tiers = new ReadThrough({ memory, shared: undefined });
  const [key, answer] = [keyAt(5n), answerOf('old')];
  memory.store(key, answer);
  let others = 'old';
  const { memory: reads } = await purge(
    { kind: 'everything' },
    {
      forget: (scope) => tiers.purge(scope),
      shared: {
        clear: () => {
          assert.equal(memory.find(key), undefined);
          assert.equal(others, '');
          memory.store(key, answer);
          others = 'found in Redis';
          return Promise.resolve(1);
        },
        publishPurge: () => {
          others = '';
          return Promise.resolve({ told: 1, cleared: 1 });
        },
      },
    },
  );
  assert.deepEqual([memory.find(key), others, reads], [undefined, '', 2]);
});

const incomplete = [
  ['Redis could not be cleared', undefined, { told: 1, cleared: 1 }],
  ['nobody could be told', 3, undefined],
  ['a replica did not say that it is done', 3, { told: 2, cleared: 1 }],
] as const;

for (const [why, keys, told] of incomplete) {
  test(`a purge is not complete: ${why}`, async () => {
    const purged = await purge(
      { kind: 'everything' },
      {
        forget: () => Promise.resolve({ reads: 0, isStoreClear: undefined }),
        shared: { clear: () => Promise.resolve(keys), publishPurge: () => Promise.resolve(told) },
      },
    );
    assert.equal(purged.isComplete, false);
  });
}

const twice = [
  [
    'before Redis was cleared',
    [
      { told: 1, cleared: 0 },
      { told: 1, cleared: 1 },
    ],
  ],
  [
    'after Redis was cleared',
    [
      { told: 1, cleared: 1 },
      { told: 1, cleared: 0 },
    ],
  ],
] as const;

for (const [when, outcomes] of twice) {
  test(`a purge is incomplete when a replica has not cleared ${when}`, async () => {
    const told = [...outcomes];
    const purged = await purge(
      { kind: 'everything' },
      {
        forget: () => Promise.resolve({ reads: 0, isStoreClear: undefined }),
        shared: { clear: () => Promise.resolve(3), publishPurge: () => Promise.resolve(told.shift()) },
      },
    );
    assert.deepEqual([purged.isComplete, purged.replicas], [false, { told: 1, cleared: 0 }]);
  });
}
