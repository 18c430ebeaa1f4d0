import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fuzzTargets } from './targets.ts';

// A moment for each; `npm run fuzz` takes longer.
for (const target of fuzzTargets) {
  test(`${target.name}: whatever comes is read or refused as it should be, and soon`, async () => {
    const { failure } = await target.run({ runs: 100, seed: 1 });
    assert.equal(failure, undefined, failure);
  });
}
