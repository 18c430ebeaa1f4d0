import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Read } from '../../../src/proxy/reads/read.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { CachedTarget, ownCopy, TargetCache, targetCacheBytes } from '../../../src/proxy/http/target-cache.ts';

const tag = '0x1::account::Account';

function target(account: number): string {
  return `/accounts/0x${account.toString(16)}/resource/${tag}?ledger_version=5`;
}

const router = new Router('');

/** Finds the target, or adds it as the gateway adds one whose answer is in memory. */
function ask(targets: TargetCache, account: number): 'cached' | 'added' | 'refused' {
  if (targets.find(target(account), 'json') !== undefined) return 'cached';
  if (!targets.admits()) return 'refused';
  const own = ownCopy(target(account));
  const match = router.match('GET', own);
  targets.add(own, new CachedTarget(match.route, match.parse(undefined) as Read));
  return 'added';
}

test('with room every target is added; a full cache admits 1 in 16', () => {
  const targets = new TargetCache();
  const fits = Math.floor(targetCacheBytes / 2 / 1_650);
  const first = Array.from({ length: fits }, (_, account) => ask(targets, account));
  assert.deepEqual(new Set(first), new Set(['added']));
  let next = fits;
  while (ask(targets, next) === 'added') next += 1;
  assert.ok(next < 2 * fits, `${next} targets in ${targetCacheBytes} bytes`);
  const others = Array.from({ length: 1_600 }, () => ask(targets, (next += 1)));
  assert.equal(others.filter((what) => what === 'added').length, 100);
});

test('frequent targets enter a full cache soon, and stay', () => {
  const targets = new TargetCache();
  let cold = 1_000_000;
  const often = Array.from({ length: 100 }, (_, account) => account);
  const fill = (): void => {
    for (let count = 0; count < 40_000; count += 1) ask(targets, (cold += 1));
  };
  fill();
  for (let round = 0; round < 200; round += 1) for (const account of often) ask(targets, account);
  for (let round = 0; round < 50; round += 1) {
    for (let count = 0; count < 2_000; count += 1) ask(targets, (cold += 1));
    for (const account of often) assert.equal(ask(targets, account), 'cached');
  }
});

test('names of which V8 hashes the length alone are not kept', () => {
  const targets = new TargetCache();
  const match = router.match('GET', target(1));
  const read = match.parse(undefined) as Read;
  const kept = [16_383, 16_384].map((characters) => {
    const name = 'a'.repeat(characters);
    targets.addNamed(name, new CachedTarget(match.route, read));
    return targets.findNamed(name) !== undefined;
  });
  assert.deepEqual(kept, [true, false]);
});
