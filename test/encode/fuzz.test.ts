import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runFuzz } from './fuzz.ts';

test('20,000 made-up requests encode byte for byte as the reference does, and wrong ones not at all', async () => {
  const result = await runFuzz({ seed: 1, cases: 20_000 });
  assert.deepEqual(result.failures, []);
  assert.equal(result.equal + result.refused, 20_000);
  // Enough of both kinds, so that the sentence above means something.
  assert.ok(result.equal > 17_000, `only ${result.equal} were encoded`);
  assert.ok(result.refused > 1000, `only ${result.refused} were wrong`);
});
