import assert from 'node:assert/strict';
import { test } from 'node:test';
import { electChain } from '../../src/upstream/chain-vote.ts';

const cases: readonly {
  readonly claim: string;
  readonly told: readonly (number | undefined)[];
  readonly standing?: number;
  readonly elected: number | undefined;
}[] = [
  { claim: 'nobody has told anything', told: [undefined, undefined], elected: undefined },
  { claim: 'whoever speaks first is believed', told: [undefined, 2], elected: 2 },
  { claim: 'most nodes decide', told: [1, 2, 2], elected: 2 },
  { claim: 'of equals the node configured first decides', told: [1, 2], elected: 1 },
  { claim: 'of equals the standing chain stays', told: [1, 2], standing: 2, elected: 2 },
  { claim: 'a majority turns a standing chain', told: [1, 1, 2], standing: 2, elected: 1 },
  { claim: 'a chain that no node tells any more goes', told: [1, undefined], standing: 2, elected: 1 },
  { claim: 'silence leaves the standing chain', told: [undefined], standing: 2, elected: 2 },
];

for (const { claim, told, standing, elected } of cases) {
  test(`vote on the chain: ${claim}`, () => {
    assert.equal(electChain(told, standing), elected);
  });
}
