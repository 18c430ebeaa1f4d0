/**
 * Long fuzz of src/encode, 1,000,000 cases from a seed of today by default. Exits with 1 if a case went wrong, and
 * prints its number.
 *
 * `npm run fuzz:encode [-- CASES [SEED]]`: against the reference encoder.
 * `npm run fuzz:encode -- work [CASES [SEED]]`: on ABIs that are made to keep the encoder busy; reports the most steps
 * and the longest time of one encoding.
 */
import { generateCase } from '../test/encode/generate.ts';
import { runFuzz } from '../test/encode/fuzz.ts';
import { generateWork } from '../test/encode/generate-abi.ts';
import { measureWork, type Most } from '../test/encode/work.ts';

const given = process.argv.slice(2);
const isOfWork = given[0] === 'work';
const numbers = (isOfWork ? given.slice(1) : given).map(Number);
const [cases = 1_000_000, seed = Math.floor(Date.now() / 86_400_000) * 10_000_000] = numbers;
const startedMs = performance.now();
const seconds = (): string => ((performance.now() - startedMs) / 1000).toFixed(0);

if (isOfWork) await fuzzWork();
else await fuzzBytes();

async function fuzzBytes(): Promise<void> {
  const result = await runFuzz({ seed, cases });
  console.log(`fuzz:encode: seed ${seed}, ${result.cases} cases in ${seconds()} s`);
  console.log(
    `${result.equal} encoded and equal, ${result.refused} wrong and not encoded, ${result.failures.length} failed`,
  );
  for (const failure of result.failures) {
    console.log(`case ${failure.seed}: ${JSON.stringify(failure.outcome)}\n  expected ${failure.expected}`);
    console.log(`  request ${generateCase(failure.seed).bodyText}`);
  }
  process.exitCode = result.failures.length === 0 ? 0 : 1;
}

async function fuzzWork(): Promise<void> {
  const { equal, bounded, other, mostSteps, longest, failures } = await measureWork({ seed, cases });
  console.log(`fuzz:encode work: seed ${seed}, ${cases} cases in ${seconds()} s`);
  console.log(`${equal} encoded and equal, ${bounded} left to nodes for their steps, ${other} not encoded otherwise`);
  console.log(`most steps: ${format(mostSteps)}; longest: ${format(longest)}; ${failures.length} failed`);
  for (const failure of failures.slice(0, 10)) {
    console.log(`case ${failure.seed}: ${JSON.stringify(failure.outcome)}\n  expected ${failure.expected}`);
    console.log(`  request ${generateWork(failure.seed).bodyText}`);
  }
  process.exitCode = failures.length === 0 ? 0 : 1;
}

function format({ steps, ms, seed }: Most): string {
  return `${steps} steps in ${ms.toFixed(1)} ms (case ${seed})`;
}
