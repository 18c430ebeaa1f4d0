import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  elect,
  isConfirmed,
  isCredible,
  isLeftBehind,
  isOfFuture,
  nearest,
  type HeadReport,
} from '../../src/upstream/contradictions.ts';

const nowUsec = 1_800_000_000_000_000n;
const second = 1_000_000n;

/** A node's report: `behind` seconds by its own clock. */
const node = (version: bigint, behind = 0n): HeadReport => ({ version, timestampUsec: nowUsec - behind * second });
/** A recorded or simulated ledger, with a clock of its own. */
const past = (version: bigint): HeadReport => ({ version, timestampUsec: 1_000_000n + version * 5_000n });

/** Two nodes of a ledger that stopped an hour ago. */
const stopped = [node(1_000_000n, 3600n), node(1_000_000n, 3600n)];
/** Cases in which at least two other nodes stand at one version, with a time that is not current. */
const standing: readonly (readonly [string, HeadReport, readonly HeadReport[], boolean])[] = [
  ['one current node far ahead is not believed', node(6_000_000n), stopped, false],
  ['nor one with a time that is only nearer to the clock', node(6_000_000n, 1800n), stopped, false],
  [
    'nor by two nodes that stopped a block apart',
    node(6_000_000n),
    [node(1_000_000n, 3600n), node(999_500n, 3602n)],
    false,
  ],
  [
    'nor by two that stopped 1,000 versions apart',
    node(6_000_000n),
    [node(1_000_000n, 3600n), node(999_000n, 3600n)],
    false,
  ],
  [
    'two that are 1,001 versions apart do not add to a current node against it',
    node(6_000_000n),
    [node(1_000_000n, 3600n), node(998_999n, 3600n), node(5_000_000n)],
    true,
  ],
  ['a third that stands elsewhere does not help', node(6_000_000n), [...stopped, node(2_000_000n, 1800n)], false],
  ['one that goes on by some blocks is believed', node(1_010_000n), stopped, true],
  ['one that a second follows is', node(6_000_000n), [...stopped, node(5_990_000n)], true],
  ['also when more still stand', node(6_000_000n), [...stopped, node(1_000_000n, 3600n), node(5_999_000n, 2n)], true],
  [
    'nodes that are behind each at its own version do not hold one back',
    node(6_000_000n),
    [node(1_000_000n, 3600n), node(998_999n, 3605n)],
    true,
  ],
  ['current nodes are judged as ever', node(1_030_000n), [node(1_000_000n, 2n), node(1_000_000n, 2n)], true],
];

const rows: readonly (readonly [claim: string, own: HeadReport, others: readonly HeadReport[], isCredible: boolean])[] =
  [
    ['a node alone is believed', node(9_000_000n), [], true],
    ['a node a few blocks ahead is believed', node(1_000_500n), [node(1_000_000n)], true],
    ['a node behind the others is believed', node(1_000_000n), [node(2_000_000n)], true],
    ['a million versions ahead of an equally current node is not', node(2_000_000n), [node(1_000_000n)], false],
    ['nor ahead of two', node(2_000_000n), [node(1_000_000n), node(1_000_010n)], false],
    ['what a majority is ahead by is believed', node(2_000_000n), [node(2_000_010n), node(1_000_000n)], true],
    [
      'a node that is an hour behind by its own clock does not hold back one in step',
      node(2_000_000n),
      [node(1_000_000n, 3600n)],
      true,
    ],
    [
      'a time far in the future explains nothing',
      { version: 9_000_000n, timestampUsec: nowUsec + 90_000n * second },
      [node(1_000_000n)],
      false,
    ],
    ['a ledger of another time explains a lag by its own clock', past(1_019_000n), [past(1_000_000n)], true],
    ['a burst of versions explains a lag of seconds', node(1_100_000n), [node(1_000_000n, 6n)], true],
    ['but not any lag', past(1_000_000_000n), [past(1_000_000n)], false],
    ['nor a lead without a lag', { ...past(1_000_000n), version: 1_100_000n }, [past(1_000_000n)], false],
    ['10,000 versions need no explanation', node(1_010_000n), [node(1_000_000n)], true],
    ['one more does', node(1_010_001n), [node(1_000_000n)], false],
    ['an older time takes nothing away', node(1_005_000n, 50n), [node(1_000_000n)], true],
    ['no lead is too long over a node that is an hour behind', node(30_000_000n), [node(1_000_000n, 3600n)], true],
    ['but of a node in step', node(30_000_000n, 61n), [node(1_000_000n, 3600n)], false],
    ['a node 60 s behind our clock is in step', node(3_000_000n), [node(1_000_000n, 60n)], false],
    ['a node 61 s behind is not', node(3_000_000n), [node(1_000_000n, 61n)], true],
    ['a node 60 s ahead of our clock is in step', node(3_000_000n), [node(1_000_000n, -60n)], false],
    ['a node 61 s ahead is not', node(3_000_000n), [node(1_000_000n, -61n)], true],
    ...standing.map(
      ([claim, own, others, expected]) => [`where the ledger stands: ${claim}`, own, others, expected] as const,
    ),
  ];

for (const [claim, own, others, expected] of rows) {
  test(claim, () => {
    assert.equal(isCredible(own, others, nowUsec), expected);
  });
}

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

const votes: readonly {
  readonly claim: string;
  readonly reported: readonly (number | undefined)[];
  readonly standing?: number;
  readonly elected: number | undefined;
}[] = [
  { claim: 'without a report there is no chain', reported: [undefined, undefined], elected: undefined },
  { claim: 'the first report decides', reported: [undefined, 2], elected: 2 },
  { claim: 'most nodes decide', reported: [1, 2, 2], elected: 2 },
  { claim: 'a tie goes to the node configured first', reported: [1, 2], elected: 1 },
  { claim: 'a tie keeps the standing chain', reported: [1, 2], standing: 2, elected: 2 },
  { claim: 'a majority turns a standing chain', reported: [1, 1, 2], standing: 2, elected: 1 },
  { claim: 'a chain without reports loses', reported: [1, undefined], standing: 2, elected: 1 },
  { claim: 'silence leaves the standing chain', reported: [undefined], standing: 2, elected: 2 },
];

for (const { claim, reported, standing, elected } of votes) {
  test(`vote on the chain: ${claim}`, () => {
    assert.equal(elect(reported, standing), elected);
  });
}
