/** The vote on roots, their agreement, and the search for a fork: tables and properties without nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  agreementOf,
  narrowed,
  nextComparison,
  voteOnRoots,
  type ForkRange,
} from '../../src/upstream/contradictions.ts';
import { fc } from '../support/fast-check.ts';

/** Votes by words such as `a1`: node a reports root 1. */
const votes: readonly (readonly [claim: string, reports: string, absent: number, believed: string, doubted: string])[] =
  [
    ['equal roots are believed', 'a1 b1', 0, 'a b', ''],
    ['a node alone is believed', 'a1', 0, 'a', ''],
    ['no report says nothing', '', 0, '', ''],
    ['a node alone is no proof against a doubted one that is silent', 'a1', 1, '', ''],
    ['two are, against one', 'a1 b1', 1, 'a b', ''],
    ['two are not, against two', 'a1 b1', 2, '', ''],
    ['of three, the one that differs is doubted', 'a1 b2 c1', 0, 'a c', 'b'],
    ['whichever is reported first', 'a2 b1 c1', 0, 'b c', 'a'],
    ['of two that differ, both are doubted', 'a1 b2', 0, '', 'a b'],
    ['two against two are all doubted', 'a1 b2 c1 d2', 0, '', 'a b c d'],
    ['the most frequent root is believed, though it has no majority', 'a1 b2 c3 d1', 0, 'a d', 'b c'],
    ['unless silent nodes may be as many', 'a1 b2 c1', 2, '', 'a b c'],
  ];

for (const [claim, reports, absent, believed, doubted] of votes) {
  test(claim, () => {
    const roots = reports === '' ? [] : reports.split(' ').map(([node = '', root = '']) => ({ node, root }));
    const vote = voteOnRoots(roots, absent);
    assert.deepEqual([vote.believed.toSorted().join(' '), vote.doubted.toSorted().join(' ')], [believed, doubted]);
    assert.equal(vote.believed.length, believed === '' ? 0 : believed.split(' ').length);
  });
}

test('the search finds the first difference exactly, with 27 comparisons in 2^27 versions, or one more for a hint', () => {
  const most = 2n ** 27n - 1n;
  fc.assert(
    fc.property(
      fc.bigInt(0n, 2n ** 40n),
      fc.bigInt(0n, most),
      fc.bigInt(0n, most),
      fc.option(fc.bigInt(0n, 2n * most), { nil: undefined }),
      (from, span, at, hint) => {
        const fork = from + (at > span ? span : at);
        let range: ForkRange = { from, differsAt: from + span };
        let compared = 0;
        for (let version = nextComparison(range, hint); version !== undefined; version = nextComparison(range)) {
          assert.ok(version >= range.from && version < range.differsAt);
          range = narrowed(range, version, version < fork ? 'same' : 'other');
          compared += 1;
        }
        assert.deepEqual(range, { from: fork, differsAt: fork });
        assert.ok(compared <= (hint === undefined ? 27 : 28), String(compared));
      },
    ),
    { numRuns: 2_000 },
  );
});

test('versions that are pruned meanwhile end the search at the lowest version that differs and is held', () => {
  const edge = 700n;
  let range: ForkRange = { from: 0n, differsAt: 1_000n };
  for (let version = nextComparison(range); version !== undefined; version = nextComparison(range)) {
    range = narrowed(range, version, version < edge ? 'pruned' : 'other');
  }
  assert.deepEqual(range, { from: edge, differsAt: edge });
});

test('a hint outside of the range is not used', () => {
  const range = { from: 10n, differsAt: 20n };
  assert.deepEqual(
    [9n, 10n, 19n, 20n].map((hint) => nextComparison(range, hint)),
    [15n, 10n, 19n, 15n],
  );
  assert.equal(nextComparison({ from: 20n, differsAt: 20n }, 20n), undefined);
});

const reportOf = (root: string | undefined, head = 900n, oldest = 0n) => ({ root, head, oldest });

test('every agreement on a root, by the answer of each node', () => {
  const cases = [
    [[], 'unknown'],
    [[reportOf('right')], 'same'],
    [[reportOf('wrong')], 'other'],
    [[reportOf(undefined)], 'unknown'],
    [[reportOf('right'), reportOf(undefined)], 'same'],
    [[reportOf('right'), reportOf('wrong')], 'mixed'],
    [[reportOf('wrong'), reportOf(undefined, 900n)], 'unknown'],
    [[reportOf('wrong'), reportOf(undefined, 899n)], 'other'],
    [[reportOf('wrong'), reportOf(undefined, 1_000n, 900n)], 'unknown'],
    [[reportOf(undefined, 899n)], 'unknown'],
    [[reportOf(undefined, 1_000n, 900n)], 'unknown'],
    [[reportOf(undefined, 1_000n, 901n)], 'pruned'],
    [[reportOf(undefined, 1_000n, 901n), reportOf('right')], 'same'],
    [[reportOf(undefined, 1_000n, 901n), reportOf('wrong')], 'other'],
  ] as const;
  for (const [reports, agreement] of cases)
    assert.equal(agreementOf({ version: 900n, root: 'right' }, reports), agreement, agreement);
});
