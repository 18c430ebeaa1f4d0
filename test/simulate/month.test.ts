import assert from 'node:assert/strict';
import { test } from 'node:test';
import { archiveShares } from '../../simulate/month.ts';

test('a tier that holds all asks once for each read, a smaller one more often, one with an end again', () => {
  const [all = 0, small = 0, ended = 0] = archiveShares(
    [
      { name: 'all', bytes: Infinity, ttlSeconds: Infinity },
      { name: 'small', bytes: 1e6, ttlSeconds: Infinity },
      { name: 'ended', bytes: Infinity, ttlSeconds: 100 },
    ],
    { links: 50, skew: 0, readsPerSecond: 10, seconds: 1_000 },
  );

  // Each of 50 is read some 200 times in 1,000 s.
  assert.ok(Math.abs(all * 10_000 - 50) < 5, String(all));
  assert.ok(small > 0.5, String(small));
  assert.ok(ended > all * 8 && ended < all * 11, String(ended));
});
