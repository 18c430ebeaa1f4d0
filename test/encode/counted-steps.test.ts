// The encoder's work stays within its steps and texts for all ABIs and arguments.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { maxSteps } from '../../src/encode/outcome.ts';
import { countWork, startCounting } from '../support/counted-work.ts';
import { generateWork, type WorkCase } from './generate-abi.ts';
import { encodeWork } from './work.ts';

/** Matches the sources that take part in an encoding. */
const files = /\/src\/(?:encode|ledger)\//;
/** Blocks of code that one step may take, and one character of request and ABIs. */
const perStep = 10;
const perCharacter = 8;
const perRequest = 2_500;

await startCounting();

async function assertCounted(made: WorkCase, title: string): Promise<void> {
  const run: { steps?: number } = {};
  const blocks = await countWork(files, async () => {
    run.steps = (await encodeWork(made)).steps;
  });
  const { steps = Infinity } = run;
  const characters = [made.bodyText, ...made.modules.values()].reduce((sum, text) => sum + text.length, 0);

  assert.ok(steps <= maxSteps, `${title}: ${steps} steps`);
  const bound = perStep * steps + perCharacter * characters + perRequest;
  assert.ok(blocks <= bound, `${title}: ${blocks} blocks with ${steps} steps and ${characters} characters`);
}

test('the code that runs for an encoding is bounded by its steps and its texts', async () => {
  for (let seed = 1; seed <= 300; seed += 1) await assertCounted(generateWork(seed), `case ${seed}`);
});
