/**
 * The long fuzz of everything that parses bytes from outside: `npm run fuzz [-- RUNS [SEED [TARGET]]]`, 100,000 inputs
 * for each target from a seed of today by default; LEDGERGATE_FUZZ_RUNS and LEDGERGATE_FUZZ_SEED override both. Exits
 * with 1 if anything went wrong, and prints how to see it again.
 */
import process from 'node:process';
import { fuzzTargets } from '../test/fuzz/targets.ts';

const { LEDGERGATE_FUZZ_RUNS: runsText, LEDGERGATE_FUZZ_SEED: seedText } = process.env;
const [runsGiven = runsText, seedGiven = seedText, only] = process.argv.slice(2);
const runs = Number(runsGiven ?? 100_000);
const seed = Number(seedGiven ?? Math.floor(Date.now() / 86_400_000));
if (!Number.isSafeInteger(runs) || runs < 1 || !Number.isSafeInteger(seed)) throw new Error('usage: RUNS SEED TARGET');

console.log(`fuzz: seed ${seed}, ${runs} inputs for each target`);
for (const target of fuzzTargets) {
  if (only !== undefined && target.name !== only) continue;
  const startedMs = performance.now();
  const result = await target.run({ runs, seed });
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const verdict = result.failure === undefined ? 'fine' : 'FAILED';
  console.log(
    `${target.name.padEnd(32)} ${result.runs} in ${seconds} s, slowest ${result.slowestMs.toFixed(1)} ms: ${verdict}`,
  );
  if (result.failure === undefined) continue;
  console.log(result.failure);
  process.exitCode = 1;
}
