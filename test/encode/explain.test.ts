import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainSubmission, formatExplanation, type ExplainedPart } from '../../src/encode/explain.ts';
import { groups, loaderOf, readGroup, readText, type Vector } from './vectors.ts';

async function explain(vector: Vector): Promise<readonly ExplainedPart[] | undefined> {
  const context = { chainId: vector.chain_id, signingDomain: 'APTOS', loadModule: loaderOf(vector) };
  const explanation = await explainSubmission(JSON.stringify(vector.request), context);
  return explanation.kind === 'explained' ? explanation.parts : undefined;
}

test('the parts of every vector, joined, are its bytes', async () => {
  let explained = 0;
  for (const vector of groups.flatMap(readGroup)) {
    const parts = await explain(vector);
    if (parts === undefined) continue;
    assert.equal(`0x${parts.map(({ hex }) => hex).join('')}`, vector.expected_hex, vector.name);
    explained += 1;
  }
  assert.ok(explained > 300);
});

test('bytes are parted where people parted them by hand', async () => {
  for (const section of readText('hand-checked.md').split(/^## /m).slice(1)) {
    const [group, name] = section.slice(0, section.indexOf('\n')).split(' / ');
    const vector = readGroup(`${group}.json`).find((candidate) => candidate.name === name);
    assert.ok(vector, section);
    const byHand = [...section.matchAll(/^\| `([0-9a-f]+)` \|/gm)].map((match) => match[1]);
    const parts = (await explain(vector))?.map(({ hex }) => hex) ?? [];
    assert.deepEqual(parts, byHand, name);
  }
});

test('the table shows offset, bytes, field and meaning of a coin transfer', async () => {
  const [vector] = readGroup('13-framework.json');
  assert.ok(vector);
  const table = formatExplanation((await explain(vector)) ?? []);
  assert.match(table, /^ {5}0 {2}b5e97db0[0-9a-f]{56} {2}prefix: SHA3-256 of "APTOS::RawTransaction"$/m);
  assert.match(table, /^ {4}64 {2}5f56000000000000 {50}sequence number: u64 22111$/m);
  assert.match(table, /function name: "transfer"$/m);
  assert.match(table, /argument 1, u64: u64 100000000$/m);
  assert.match(table, /expiration: u64 1735689600 seconds, 2025-01-01T00:00:00.000Z$/m);
  assert.match(table, /chain id: u8 1\n$/);
});

test('what is not encoded is not explained but answered as encodeSubmission answers it', async () => {
  const context = { chainId: 1, signingDomain: 'APTOS', loadModule: () => Promise.resolve(undefined) };
  assert.deepEqual(await explainSubmission('{"a":1,"a":2}', context), { kind: 'forward', reason: 'duplicate key' });
  const refused = await explainSubmission('{', context);
  assert.equal(refused.kind, 'refused');
});
