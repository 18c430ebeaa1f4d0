import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import type { EncodeOutcome } from '../../src/encode/outcome.ts';
import { groups, loaderOf, readGroup, readText, type Vector } from './vectors.ts';

/** Payloads outside the interface that only a node encodes. */
function whyLeftToNodes(vector: Vector): string {
  const { payload } = vector.request as { payload: { type: string } };
  return payload.type === 'script_payload' ? 'script payload' : 'signed integer';
}

function encode(vector: Vector): Promise<EncodeOutcome> {
  const context = { chainId: vector.chain_id, signingDomain: 'APTOS', loadModule: loaderOf(vector) };
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
