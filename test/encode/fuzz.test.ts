import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxSteps } from '../../src/encode/outcome.ts';
import { runFuzz } from './fuzz.ts';
import { measureWork } from './work.ts';

test('8,000 made-up requests encode byte for byte as the reference does, and wrong ones not at all', async () => {
  const result = await runFuzz({ seed: 1, cases: 8_000 });
  assert.deepEqual(result.failures, []);
  assert.equal(result.equal + result.refused, 8_000);
  // Enough of both kinds, so that the sentence above means something.
  assert.ok(result.equal > 6_800, `only ${result.equal} were encoded`);
  assert.ok(result.refused > 400, `only ${result.refused} were wrong`);
});

// The encoder ends within its steps with a right outcome for all ABIs and arguments.

test('1,200 made-up calls of ABIs that are shared, recursive, wide and deep end within their steps, and their bytes are right', async () => {
  const result = await measureWork({ seed: 1, cases: 1_200 });

  assert.deepEqual(result.failures, []);
  assert.ok(result.mostSteps.steps <= maxSteps);
  // Enough of each kind, so that the title means something.
  assert.ok(result.equal > 400, `${result.equal} were encoded`);
  assert.ok(result.bounded > 80, `${result.bounded} were left to nodes for their steps`);
  assert.ok(result.other > 200, `${result.other} were not encoded for another reason`);
});
