import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha3_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { BcsWriter } from '../../src/encode/bcs.ts';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import type { EncodeOutcome } from '../../src/encode/outcome.ts';
import { signingPrefixes } from '../../src/encode/transaction.ts';
import { runFuzz } from './fuzz.ts';
import { mutants } from './mutants.ts';
import { groups, loaderOf, readGroup, readText, type Vector } from './vectors.ts';

/** Payloads outside the interface that only a node encodes. */
function whyLeftToNodes(vector: Vector): string {
  const { payload } = vector.request as { payload: { type: string } };
  return payload.type === 'script_payload' ? 'script payload' : 'signed integer';
}

function encode(vector: Vector, broken: { readonly writer?: BcsWriter } = {}): Promise<EncodeOutcome> {
  const context = { chainId: vector.chain_id, signingDomain: 'APTOS', loadModule: loaderOf(vector), ...broken };
  return encodeSubmission(JSON.stringify(vector.request), context);
}

for (const group of groups) {
  test(`${group}: bytes are right, and what the interface describes is not left to a node`, async () => {
    for (const vector of readGroup(group)) {
      if (vector.expected_hex === undefined) continue;
      const outcome = await encode(vector);
      if (outcome.kind === 'encoded') {
        assert.equal(outcome.hex, vector.expected_hex, vector.name);
        continue;
      }
      assert.ok(vector.beyond_spec, `${vector.name}: ${JSON.stringify(outcome)}`);
      assert.deepEqual(outcome, { kind: 'forward', reason: whyLeftToNodes(vector) }, vector.name);
    }
  });

  test(`${group}: what nodes refuse is never encoded, and refused with their code if at all`, async () => {
    for (const vector of readGroup(group)) {
      if (vector.expected_error === undefined) continue;
      const outcome = await encode(vector);
      assert.notEqual(outcome.kind, 'encoded', vector.name);
      if (outcome.kind === 'refused') assert.equal(outcome.code, vector.expected_error.error_code, vector.name);
    }
  });
}

test('bytes that people read one by one are those of the encoder', async () => {
  for (const section of readText('hand-checked.md').split(/^## /m).slice(1)) {
    const [group, name] = section.slice(0, section.indexOf('\n')).split(' / ');
    const vector = readGroup(`${group}.json`).find((candidate) => candidate.name === name);
    assert.ok(vector, section);
    const byHand = [...section.matchAll(/^\| `([0-9a-f]+)` \|/gm)].map((match) => match[1]);
    const outcome = await encode(vector);
    assert.equal(outcome.kind === 'encoded' && outcome.hex, `0x${byHand.join('')}`, name);
  }
});

const vectors = groups.flatMap(readGroup).filter(({ expected_hex: hex }) => hex !== undefined);

async function isCaughtByVectors(writer: BcsWriter): Promise<boolean> {
  for (const vector of vectors) {
    const outcome = await encode(vector, { writer });
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

test('the prefixes of the domain APTOS are the published ones (protocol 5.7)', () => {
  const { plain, withData } = signingPrefixes('APTOS');
  assert.equal(bytesToHex(plain), 'b5e97db07fa0bd0e5598aa3643a9bc6f6693bddc1a9fec9e674a461eaa00b193');
  assert.equal(bytesToHex(withData), '5efa3c4f02f83a0f4b2d69fc95c607cc02825cc4e7be536ef0992df050d9e67c');
});

test('the prefixes of any domain are what @noble/hashes makes of it', () => {
  for (const domain of ['APTOS', 'NODE', '', 'a domain: 漢字', 'x'.repeat(300)]) {
    const { plain, withData } = signingPrefixes(domain);
    assert.deepEqual(new Uint8Array(plain), sha3_256(utf8ToBytes(`${domain}::RawTransaction`)));
    assert.deepEqual(new Uint8Array(withData), sha3_256(utf8ToBytes(`${domain}::RawTransactionWithData`)));
  }
});
