import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findNearMiss, nearMissHint } from '../../../src/ledger/lib/near-miss.ts';
import { CancelToken } from '../../../src/ledger/stop.ts';
import { fc } from '../../support/fast-check.ts';

const keys = ['timeout', 'deadline', 'probeInterval', 'connections', 'maxAttempts'];

test('a typo, a swap, another case and another separator find the key', () => {
  const table = {
    timout: 'timeout',
    timeuot: 'timeout',
    Timeout: 'timeout',
    probe_interval: 'probeInterval',
    'probe-interval': 'probeInterval',
    connection: 'connections',
    maxAtempts: 'maxAttempts',
  };
  for (const [word, key] of Object.entries(table)) assert.equal(findNearMiss(word, keys), key, word);
});

test('another word has no near miss', () => {
  for (const word of ['', 'x', 'retries', 'keepAlive', '__proto__'])
    assert.equal(findNearMiss(word, keys), undefined, word);
});

/** The least number of insertions, deletions, replacements and swaps of neighbours between the ends of two words. */
function distanceOf(left: string, right: string): number {
  if (left === '' || right === '') return left.length + right.length;
  const [one, other] = [left.slice(1), right.slice(1)];
  const isSwap = left.length > 1 && right.length > 1 && left[0] === right[1] && left[1] === right[0];
  return Math.min(
    distanceOf(one, right) + 1,
    distanceOf(left, other) + 1,
    distanceOf(one, other) + (left[0] === right[0] ? 0 : 1),
    isSwap ? distanceOf(left.slice(2), right.slice(2)) + 1 : Infinity,
  );
}

test('a word is near with a third of its letters wrong, or one, and not with all', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 5 });
  fc.assert(
    fc.property(word, fc.array(word, { minLength: 1, maxLength: 3 }), (typed, known) => {
      const distances = known.map((other) => distanceOf(typed, other));
      const near = known.filter((other, at) => {
        const tolerated = Math.max(1, Math.floor(Math.max(typed.length, other.length) / 3));
        return (distances[at] ?? 0) <= tolerated && (distances[at] ?? 0) < other.length;
      });
      const nearest = near.toSorted((one, other) => distanceOf(typed, one) - distanceOf(typed, other))[0];
      assert.equal(findNearMiss(typed, known), nearest);
      assert.equal(nearMissHint(typed, known, 'p.'), nearest === undefined ? '' : ` (did you mean "p.${nearest}"?)`);
      assert.equal(nearMissHint(typed, known), nearest === undefined ? '' : ` (did you mean "${nearest}"?)`);
    }),
    { numRuns: 500 },
  );
});

test('the nearest wins', () => {
  // Two of six letters.
  assert.equal(findNearMiss('ports', ['pxrtsy']), 'pxrtsy');
  assert.equal(findNearMiss('ports', ['posts', 'port', 'ports1']), 'posts');
  assert.equal(findNearMiss('hots', ['port', 'host']), 'host');
});

test('listeners are called once, in order, with the reason', () => {
  const stop = new CancelToken();
  const told: unknown[] = [];
  stop.addEventListener('abort', () => told.push(['first', stop.aborted, stop.reason]));
  stop.addEventListener('abort', () => told.push(['second']));
  assert.deepEqual([stop.aborted, stop.reason], [false, undefined]);
  stop.abort('enough');
  stop.abort('again');
  assert.deepEqual(told, [['first', true, 'enough'], ['second']]);
  assert.equal(stop.reason, 'enough');
});

test('a removed listener is not called, not even when another listener removes it', () => {
  const stop = new CancelToken();
  const told: string[] = [];
  const gone = (): void => void told.push('gone');
  const last = (): void => void told.push('last');
  stop.addEventListener('abort', gone);
  stop.removeEventListener('abort', gone);
  stop.removeEventListener('abort', gone);
  stop.addEventListener('abort', () => {
    told.push('first');
    stop.removeEventListener('abort', last);
    stop.addEventListener('abort', gone);
  });
  stop.addEventListener('abort', last);
  stop.abort('enough');
  assert.deepEqual(told, ['first']);
});
