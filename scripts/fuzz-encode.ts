/**
 * The long differential fuzz of src/encode against the reference encoder: `npm run fuzz:encode [-- CASES [SEED]]`,
 * 1,000,000 cases from a seed of today unless told. Exits with 1 if a case went wrong, and prints its number.
 */
import { generateCase } from '../test/encode/generate.ts';
import { runFuzz } from '../test/encode/fuzz.ts';

const [cases = 1_000_000, seed = Math.floor(Date.now() / 86_400_000) * 10_000_000] = process.argv.slice(2).map(Number);
const started = performance.now();
const result = await runFuzz({ seed, cases });
const seconds = ((performance.now() - started) / 1000).toFixed(0);

console.log(`fuzz:encode: seed ${seed}, ${result.cases} cases in ${seconds} s`);
console.log(
  `${result.equal} encoded and equal, ${result.refused} wrong and not encoded, ${result.failures.length} failed`,
);
for (const failure of result.failures) {
  console.log(`case ${failure.seed}: ${JSON.stringify(failure.outcome)}\n  expected ${failure.expected}`);
  console.log(`  request ${generateCase(failure.seed).bodyText}`);
}
process.exitCode = result.failures.length === 0 ? 0 : 1;
