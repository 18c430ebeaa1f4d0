import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BcsWriter } from '../../src/encode/bcs.ts';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import { runFuzz } from './fuzz.ts';
import { mutants } from './mutants.ts';
import { groups, loaderOf, readGroup } from './vectors.ts';

const vectors = groups.flatMap(readGroup).filter(({ expected_hex: hex }) => hex !== undefined);

async function isCaughtByVectors(writer: BcsWriter): Promise<boolean> {
  for (const vector of vectors) {
    const context = { chainId: vector.chain_id, signingDomain: 'APTOS', loadModule: loaderOf(vector), writer };
    const outcome = await encodeSubmission(JSON.stringify(vector.request), context);
    if (outcome.kind === 'encoded' && outcome.hex !== vector.expected_hex) return true;
  }
  return false;
}

for (const mutant of mutants) {
  const { name } = mutant().constructor;
  test(`a broken encoder is caught by the vectors and by the fuzz: ${name}`, async () => {
    assert.ok(await isCaughtByVectors(mutant()), 'the vectors did not notice');
    const { failures } = await runFuzz({ seed: 1, cases: 5000, maxFailures: 1, writer: mutant() });
    assert.equal(failures[0]?.outcome.kind, 'encoded', 'the fuzz did not notice');
  });
}
