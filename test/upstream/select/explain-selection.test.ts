/** Reasons for the order of nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { explainSelection } from '../../../src/upstream/select/candidates.ts';
import type { Need, Candidate } from '../../../src/upstream/select/ranking.ts';

function node(name: string, oldest: number, head: number, changes: Partial<Candidate> = {}): Candidate {
  const window = { oldest: version(oldest), head: version(head), safeOldest: BigInt(oldest) };
  return { name, tier: 'full', health: 'usable', window, cost: 1, headTolerance: 0, ...changes };
}

function version(number: number) {
  return LedgerVersion.of(BigInt(number));
}

function at(number: number): Need {
  return { kind: 'version', version: version(number) };
}

function told(need: Need, ...candidates: readonly Candidate[]): string {
  const { ordered, leftOut } = explainSelection(candidates, need);
  const asked = ordered.map(
    ({ candidate, behind }) => `${candidate.name}${behind === undefined ? '' : ` (${behind})`}`,
  );
  const others = leftOut.map(({ candidate, because }) => `not ${candidate.name} (${because})`);
  return [...asked, ...others].join(', ');
}

const full = node('full', 500, 1000);
const dear = node('dear', 500, 1000, { cost: 9 });
const usual = node('usual', 500, 1000, { cost: 5 });
const deep = node('deep', 100, 1000);
const dearDeep = node('dear and deep', 100, 1000, { cost: 9 });
const quarter = node('quarter', 375, 1000, { cost: 9 });
const archive = node('archive', 0, 1000, { tier: 'archival' });
const down = node('down', 500, 1000, { health: 'down' });
const suspect = node('suspect', 500, 1000, { isSuspect: true });
const foreign = node('foreign', 0, 1000, { health: 'foreign' });
const unheard: Candidate = { ...full, name: 'unheard', window: undefined };

const cases: readonly (readonly [string, Need, readonly Candidate[], string])[] = [
  ['equal nodes are in order of cost', at(800), [dear, usual, full], 'full, usual (load), dear (load)'],
  ['a deeper window is kept for later', at(800), [deep, full], 'full, deep (depth)'],
  ['a window a quarter deeper shares the load', at(800), [quarter, full], 'full, quarter (load)'],
  ['depth is no matter to the newest state', { kind: 'head' }, [dearDeep, full], 'full, dear and deep (load)'],
  ['archival nodes come last', at(800), [archive, deep, full], 'full, deep (depth), archive (tier)'],
  ['a node that is down comes after all others', at(800), [down, archive], 'archive, down (health)'],
  ['a suspect node comes after all others', at(800), [suspect, full], 'full, suspect (health)'],
  [
    'a drained node is left out',
    at(800),
    [{ ...archive, name: 'drained', isDrained: true }, full],
    'full, not drained (drained)',
  ],
  ['a node of another chain is left out', at(800), [foreign, full], 'full, not foreign (other chain)'],
  [
    'only the deepest of the nodes that have pruned the version is left',
    at(50),
    [full, deep, archive],
    'archive, deep (holding), not full (pruned)',
  ],
  ['below every edge only the deepest is asked', at(50), [full, deep], 'deep, not full (pruned)'],
  ['a node without a report comes after a sure holder', at(800), [unheard, full], 'full, unheard (holding)'],
  ['above every head the nearest is asked', at(2000), [node('behind', 500, 900), full], 'full, behind (distance)'],
  ['the newest state is where the head is', { kind: 'head' }, [node('behind', 500, 900), full], 'full, behind (lag)'],
  [
    'the submission node is asked first, then the deeper',
    { kind: 'transaction', submittedTo: 'deep' },
    [full, deep, archive, down],
    'deep, archive (submission), full (depth), down (health)',
  ],
  [
    'of nodes with the newest state, one that is down comes last',
    { kind: 'head' },
    [down, full],
    'full, down (health)',
  ],
  [
    'a submission node that is down is asked second',
    { kind: 'transaction', submittedTo: 'down' },
    [down, full, archive],
    'full, down (health), archive (submission)',
  ],
];

for (const [claim, need, candidates, expected] of cases) {
  test(claim, () => {
    assert.equal(told(need, ...candidates), expected);
    assert.equal(told(need, ...candidates.toReversed()), expected);
  });
}
