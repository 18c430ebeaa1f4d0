/** Rules for nodes that contradict each other: heads, chains, roots and forks, as tables and properties without nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  agreementOf,
  elect,
  type ForkRange,
  type HeadReport,
  isConfirmed,
  isCredible,
  isLeftBehind,
  isOfFuture,
  narrowed,
  nearest,
  nextComparison,
  voteOnRoots,
} from '../../src/upstream/contradictions.ts';
import { fc } from '../support/fast-check.ts';
import { rowsIn } from '../support/tables.ts';

const nowUsec = 1_800_000_000_000_000n;
const second = 1_000_000n;

/** A node's report: `behind` seconds by its own clock. */
const node = (version: bigint, behind = 0n): HeadReport => ({ version, timestampUsec: nowUsec - behind * second });

/** `1000000`: in step; `1000000-60`: 60 s behind by its clock; `past 1000000`: of a recorded ledger, with a clock of its own. */
function reportIn(text: string): HeadReport {
  const [, isPast, head = '', apart = '0'] = /^(past )?(\d+)([+-]\d+)?$/.exec(text) ?? assert.fail(text);
  const version = BigInt(head);
  return isPast === undefined
    ? node(version, -BigInt(apart))
    : { version, timestampUsec: 1_000_000n + version * 5_000n };
}

/** Two nodes of a ledger that stopped an hour ago. */
const stopped = [node(1_000_000n, 3600n), node(1_000_000n, 3600n)];

/** Claim, a node's own head, those of the others, and whether it is believed. */
const heads = `
a node alone is | 9000000 | | yes
a node a few blocks ahead is | 1000500 | 1000000 | yes
a node behind the others is | 1000000 | 2000000 | yes
a million versions ahead of an equally current node is not | 2000000 | 1000000 | no
nor ahead of two | 2000000 | 1000000, 1000010 | no
what a majority is ahead by is | 2000000 | 2000010, 1000000 | yes
a node that is an hour behind by its own clock does not hold back one in step | 2000000 | 1000000-3600 | yes
a time far in the future explains nothing | 9000000+90000 | 1000000 | no
a ledger of another time explains a lag by its own clock | past 1019000 | past 1000000 | yes
a burst of versions explains a lag of seconds | 1100000 | 1000000-6 | yes
but not any lag | past 1000000000 | past 1000000 | no
10,000 versions need no explanation | 1010000 | 1000000 | yes
one more does | 1010001 | 1000000 | no
an older time takes nothing away | 1005000-50 | 1000000 | yes
no lead is too long over a node that is an hour behind | 30000000 | 1000000-3600 | yes
but of a node in step | 30000000-61 | 1000000-3600 | no
a node 60 s behind our clock is in step | 3000000 | 1000000-60 | no
a node 61 s behind is not | 3000000 | 1000000-61 | yes
a node 60 s ahead of our clock is in step | 3000000 | 1000000+60 | no
a node 61 s ahead is not | 3000000 | 1000000+61 | yes
where the ledger stands, one current node far ahead is not | 6000000 | 1000000-3600, 1000000-3600 | no
nor one with a time that is only nearer to the clock | 6000000-1800 | 1000000-3600, 1000000-3600 | no
nor by two nodes that stopped a block apart | 6000000 | 1000000-3600, 999500-3602 | no
nor by two that stopped 1,000 versions apart | 6000000 | 1000000-3600, 999000-3600 | no
two that are 1,001 versions apart do not add to a current node against it | 6000000 | 1000000-3600, 998999-3600, 5000000 | yes
a third that stands elsewhere does not help | 6000000 | 1000000-3600, 1000000-3600, 2000000-1800 | no
one that goes on by some blocks is | 1010000 | 1000000-3600, 1000000-3600 | yes
one that a second follows is | 6000000 | 1000000-3600, 1000000-3600, 5990000 | yes
also when more still stand | 6000000 | 1000000-3600, 1000000-3600, 1000000-3600, 5999000-2 | yes
nodes that are behind each at its own version do not hold one back | 6000000 | 1000000-3600, 998999-3605 | yes
current nodes are judged as ever | 1030000 | 1000000-2, 1000000-2 | yes
`;

for (const [claim = '', own = '', others = '', expected] of rowsIn(heads)) {
  test(`believed: ${claim}`, () => {
    const reports = others === '' ? [] : others.split(', ').map(reportIn);
    assert.equal(isCredible(reportIn(own), reports, nowUsec), expected === 'yes');
  });
}

test('a lead without a lag explains nothing on a ledger of another time either', () => {
  const past = reportIn('past 1000000');
  assert.equal(isCredible({ ...past, version: 1_100_000n }, [past], nowUsec), false);
});

test('a ledger time more than a minute ahead of our clock is of the future', () => {
  const behind = [60n, 0n, -60n, -61n];
  assert.deepEqual(
    behind.map((seconds) => isOfFuture(node(1n, seconds), nowUsec)),
    [false, false, false, true],
  );
});

test('where the ledger stands, a node whose lead grew before the eyes of the others is believed', () => {
  assert.equal(isCredible(node(6_000_000n), stopped, nowUsec, true), true);
});

const leftBehind: readonly (readonly [other: HeadReport, expected: boolean])[] = [
  [node(1_000_000n, 31n), true],
  [node(1_000_000n, 30n), false],
  [node(1_990_000n, 3600n), false],
  [node(1_989_999n, 3600n), true],
];

test('a node is left behind when both its version and its time are far from the head', () => {
  const reported = leftBehind.map(([other]) => isLeftBehind(node(2_000_000n), other, nowUsec, 30n * second));
  assert.deepEqual(
    reported,
    leftBehind.map(([, expected]) => expected),
  );
});

test('nodes in step are half a second of the ledger apart, 500 versions at least, from where the second is by now', () => {
  assert.deepEqual(
    [nearest(1_000n, 0, 5_000), nearest(1_000n, 0.5, 0), nearest(1_000n, 0.5, 400), nearest(1_000n, 4, 100)],
    [1_500n, 1_500n, 1_700n, 3_400n],
  );
});

test('a node up to 10,000 versions behind a head proves that the ledger has not gone back', () => {
  const heads = [9_999n, 10_000n, 30_000n].map((other) => isConfirmed(20_000n, other));
  assert.deepEqual(heads, [false, true, true]);
});

/** Claim, chains that nodes report (`-`: none yet), the standing chain, and the elected one. */
const chainVotes = `
without a report there is no chain | - - | | undefined
the first report decides | - 2 | | 2
most nodes decide | 1 2 2 | | 2
a tie goes to the node configured first | 1 2 | | 1
a tie keeps the standing chain | 1 2 | 2 | 2
a majority turns a standing chain | 1 1 2 | 2 | 1
a chain without reports loses | 1 - | 2 | 1
silence leaves the standing chain | - | 2 | 2
`;

for (const [claim = '', reported = '', standing, elected] of rowsIn(chainVotes)) {
  test(`vote on the chain: ${claim}`, () => {
    const chains = reported.split(' ').map((chain) => (chain === '-' ? undefined : Number(chain)));
    assert.equal(String(elect(chains, standing ? Number(standing) : undefined)), elected);
  });
}

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
