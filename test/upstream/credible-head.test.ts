import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isCredible, type HeadReport } from '../../src/upstream/contradictions.ts';

const nowUsec = 1_800_000_000_000_000n;
const second = 1_000_000n;

/** A node's report: `behind` seconds by its own clock. */
const node = (version: bigint, behind = 0n): HeadReport => ({ version, timestampUsec: nowUsec - behind * second });
/** A recorded or simulated ledger, with a clock of its own. */
const past = (version: bigint): HeadReport => ({ version, timestampUsec: 1_000_000n + version * 5_000n });

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
  ];

for (const [claim, own, others, expected] of rows) {
  test(claim, () => {
    assert.equal(isCredible(own, others, nowUsec), expected);
  });
}
