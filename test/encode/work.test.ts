// The encoder ends within its steps with a right outcome for all ABIs and arguments.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxSteps } from '../../src/encode/outcome.ts';
import { measureWork } from './work.ts';

test('3,000 made-up calls of ABIs that are shared, recursive, wide and deep end within their steps, and their bytes are right', async () => {
  const result = await measureWork({ seed: 1, cases: 3_000 });

  assert.deepEqual(result.failures, []);
  assert.ok(result.mostSteps.steps <= maxSteps);
  // Enough of each kind, so that the title means something.
  assert.ok(result.equal > 1_000, `${result.equal} were encoded`);
  assert.ok(result.bounded > 200, `${result.bounded} were left to nodes for their steps`);
  assert.ok(result.other > 500, `${result.other} were not encoded for another reason`);
});
