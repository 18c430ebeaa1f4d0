/** Which chain a node stands for, by the words of its answers and of looks at its ledger info. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NodeChain } from '../../src/upstream/node-chain.ts';

/** `4`: an answer of chain 4; `look 5`: a look that was sent after all that came before it; `late 5`: before it. */
type Word = `${'' | 'look ' | 'late '}${4 | 5 | 6}`;

/** Its chain, the chain in doubt, and whether the last word counted. */
type Known = readonly [number | undefined, number | undefined, boolean | undefined];

/** A node of chain 4 in a fleet of chain 4, after `words`. */
function after(words: readonly Word[]): Known {
  const chain = new NodeChain();
  chain.settle(4);
  let nowMs = 0;
  let counted: boolean | undefined;
  for (const word of words) {
    const [chainId = '', kind] = word.split(' ').reverse();
    nowMs += 10;
    const lookSentAtMs = kind === undefined ? undefined : kind === 'late' ? 0 : nowMs - 1;
    counted = chain.observe({ chainId: Number(chainId), fleetChainId: 4, nowMs, lookSentAtMs });
  }
  return [chain.id, chain.doubted, counted];
}

const cases: readonly (readonly [string, readonly Word[], Known])[] = [
  ['its own chain', ['4', 'look 4'], [4, undefined, true]],
  ['one answer of another chain is a doubt', ['5'], [4, 5, false]],
  ['so are many', ['5', '5', '5', '5'], [4, 5, false]],
  ['one look is a doubt', ['look 5'], [4, 5, false]],
  ['a look that was sent before the doubt settles nothing', ['5', 'late 5'], [4, 5, false]],
  ['a look after an answer settles the other chain', ['5', 'look 5'], [5, undefined, true]],
  ['two looks settle it', ['look 5', 'look 5'], [5, undefined, true]],
  ['a look at a third chain is a new doubt', ['5', 'look 6'], [4, 6, false]],
  ['answers of its own chain in a doubt count and leave the doubt', ['5', '4'], [4, 5, true]],
  ['and renew it: a look that was in flight settles nothing', ['5', '4', 'late 5'], [4, 5, false]],
  ['a look at its own chain ends the doubt', ['5', 'late 4'], [4, undefined, true]],
  ['after that the other chain needs two words again', ['5', 'look 4', 'look 5'], [4, 5, false]],
  ['back again', ['5', 'look 5', '4', 'look 4'], [4, undefined, true]],
];

for (const [claim, words, expected] of cases) {
  test(`the chain of a node: ${claim}`, () => {
    assert.deepEqual(after(words), expected);
  });
}

test('the first word of a node is believed when it is the fleet’s chain, and a doubt when it is not', () => {
  const chain = new NodeChain();
  assert.equal(chain.observe({ chainId: 7, fleetChainId: undefined, nowMs: 0 }), true);
  assert.equal(chain.id, 7);
  const other = new NodeChain();
  assert.equal(other.observe({ chainId: 5, fleetChainId: 4, nowMs: 0 }), false);
  assert.deepEqual([other.id, other.doubted], [undefined, 5]);
  assert.equal(other.observe({ chainId: 4, fleetChainId: 4, nowMs: 1 }), false);
  assert.equal(other.observe({ chainId: 4, fleetChainId: 4, nowMs: 2, lookSentAtMs: 1 }), true);
  assert.equal(other.id, 4);
});
