/** Order of nodes: tables over made-up fleets. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import type { Unit, WindowView } from '../../../src/upstream/node/retention-window.ts';
import {
  type AnswersSoFar,
  type Choice,
  deepest,
  deepestUnasked,
  explainNodes,
  noAnswers,
  pick,
} from '../../../src/upstream/select/pick.ts';
import {
  type Candidate,
  holdingOf,
  isSureOf,
  type Need,
  prunedBelow,
  readClassOf,
  unitOf,
  type Rule,
  rules,
  versionOf,
} from '../../../src/upstream/select/ranking.ts';
import { fc } from '../../support/fast-check.ts';
import { Draw, seed } from '../../support/spellings.ts';
import { rowsIn } from '../../support/tables.ts';

/** `safe`: start of the sure part of the window, by default its oldest version. */
interface MadeUp extends Partial<Omit<Candidate, 'window' | 'upstream'>> {
  readonly oldest?: number;
  readonly safe?: number;
  readonly head?: number;
}

/** A full usable node; without `head` its window is unknown. */
function node(name: string, { oldest = 0, safe = oldest, head, ...rest }: MadeUp): Candidate {
  const window: WindowView | undefined =
    head === undefined
      ? undefined
      : { head: LedgerVersion.of(BigInt(head)), oldest: LedgerVersion.of(BigInt(oldest)), safeOldest: BigInt(safe) };
  return { upstream: name, name, tier: 'full', health: 'usable', window, cost: 1, headTolerance: 0, ...rest };
}

const archival = { tier: 'archival' } as const;
const down = { health: 'down' } as const;

function at(version: number): Need {
  return { kind: 'version', version: LedgerVersion.of(BigInt(version)) };
}

function block(height: bigint): Need {
  return { kind: 'block', height };
}

function lastWord(fleet: readonly Candidate[], ...prunedAt: readonly Candidate[]): string | undefined {
  return deepestUnasked(fleet, new Set(prunedAt.map(({ upstream }) => upstream)))?.name;
}

function first(fleet: readonly Candidate[], need: Need, random = Math.random): string | undefined {
  return pick(fleet, need, noAnswers, { random })?.node.name;
}

function names(choice: Choice<unknown> | undefined): string {
  return choice === undefined ? '' : choice.alike.map(({ name }) => name).join(' ');
}

const full = node('full', { oldest: 500, safe: 520, head: 1000 });
const middle = node('middle', { oldest: 300, safe: 310, head: 1000 });
const archive = node('archive', { oldest: 0, head: 1000, ...archival });
const unknown = node('unknown', { health: 'unproven' });
const broken = node('broken', { oldest: 500, head: 1000, ...down });
const lagging = node('lagging', { oldest: 450, head: 900 });
const foreign = node('foreign', { oldest: 0, head: 5000, health: 'foreign' });
const nodes: readonly Candidate[] = [
  full,
  middle,
  archive,
  unknown,
  broken,
  lagging,
  foreign,
  node('drained', { oldest: 500, head: 1000, isDrained: true }),
  node('ejected', { oldest: 500, head: 1000, isEjected: true }),
  node('deferred', { oldest: 500, head: 1000, isDeferred: true }),
  node('suspect', { oldest: 500, head: 1000, isSuspect: true, cost: 2 }),
  node('withheld', { oldest: 500, head: 1000, isWithheld: true }),
  node('withheld0', { oldest: 0, head: 1000, isWithheld: true }),
  node('down', { oldest: 500, head: 1000, ...down }),
  node('down0', { oldest: 0, head: 1000, ...down }),
  node('deep-down', { oldest: 0, head: 1000, ...archival, ...down }),
  node('fresh-down', { oldest: 500, head: 2000, ...down }),
  node('gone', { oldest: 850, head: 1000, ...down }),
  node('late', { oldest: 900, head: 1000 }),
  node('cheap', { oldest: 500, head: 1000, cost: 0 }),
  node('quarter', { oldest: 375, head: 1000, cost: 9 }),
  node('half', { oldest: 500, head: 1000, weight: 0.5, cost: 0 }),
  node('busy', { oldest: 500, head: 1000, isFull: true }),
  node('all', { oldest: 0, head: 1000 }),
  node('deep', { oldest: 0, head: 1000, cost: 0 }),
  node('small', { oldest: 500, head: 1000, ...archival }),
  node('other', { health: 'unproven', cost: 0 }),
  node('new', {}),
  node('new-archive', archival),
  node('ahead', { oldest: 600, head: 1010 }),
  node('b', { oldest: 600, head: 1000, cost: 0 }),
  node('far', { oldest: 500, head: 1000, isLagging: true }),
  node('far-head', { head: 1000, isLagging: true }),
  node('far-late', { head: 900, isLagging: true }),
  node('fresh-bad', { head: 2000, isEjected: true }),
  node('tolerant', { head: 1000, headTolerance: 20, cost: 9 }),
  node('close', { head: 980, headTolerance: 20, cost: 1 }),
  node('beyond', { head: 979, headTolerance: 20, cost: 0 }),
  node('doubted', { head: 5000, isSuspect: true }),
  node('gone-ahead', { head: 5000, ...down }),
  node('drained-ahead', { head: 5000, isDrained: true }),
  node('past-ledgers', { head: 2 ** 45 }),
];

function named(names: string): readonly Candidate[] {
  return names.split(' ').flatMap((each) => nodes.find(({ name }) => name === each) ?? []);
}

function needIn(text: string): Need {
  const [kind = '', argument = ''] = text.split(' ');
  if (kind === 'block') return block(BigInt(argument));
  if (kind === 'hash') return { kind: 'transaction', submittedTo: argument };
  return kind === 'head' || kind === 'exact' ? { kind: 'head', isExact: kind === 'exact' } : at(Number(kind));
}

function ruleIn(text = ''): string {
  const rule = text.replace(/:.*/, '');
  assert.equal(text, `${rule}: ${rules[rule as Rule]}`);
  return rule;
}

/** The nodes as they are asked while each fails, each with the rule that puts it behind the one before, and the others. */
function order(fleet: readonly Candidate[], need: Need): string {
  const { asked, leftOut } = explainNodes(fleet, need);
  const others = leftOut.map(({ name, because }) => `not ${name} (${ruleIn(because)})`);
  return [
    ...asked.map(({ name, behind }) => (behind === undefined ? name : `${name} (${ruleIn(behind)})`)),
    ...others.toSorted(),
  ].join(', ');
}

/** Claim, need, nodes and their order; `hash`: of a transaction, with the node of its submission. */
const orders = `
the shallowest holder first, then the next deeper | 800 | archive middle full | full, middle (depth), archive (tier)
one that is passed over comes last | 800 | ejected middle | middle, ejected (trust)
its own edge counts in | 520 | archive full | full, archive (tier)
the edge band goes to the deeper node first | 519 | full archive | archive, full (holding)
the edge band, at the last reported edge | 500 | full archive | archive, full (holding)
the edge band of the only node is asked | 505 | full | full
below the edge the next deeper, a node that refuses last | 400 | full middle archive | middle, archive (tier), full (holding)
archival nodes when needed | 100 | full middle archive | archive, middle (holding), not full (pruned)
below every edge only the deepest | 100 | full middle | middle, not full (pruned)
below the deepest edge one node of two | 100 | full cheap | cheap, not full (pruned)
a deeper full node before an archival one | 700 | archive all | all, archive (tier)
an archival tier keeps out although it is as shallow | 800 | small full | full, small (tier)
a quarter deeper shares the load | 800 | quarter full | full, quarter (load)
weights come before load | 800 | half full | half, full (weight)
a full node is passed over | 800 | busy middle | middle, busy (place)
a node that holds it before one not known | 800 | unknown full | full, unknown (trust)
a usable node without a report is not sure | 800 | new full | full, new (holding)
of nodes not known the cheaper first | 800 | unknown other | other, unknown (load)
archival before a node not known | 800 | unknown archive | archive, unknown (trust)
a node not known before one that has pruned it | 400 | full unknown | unknown, full (holding)
a node behind after the ones that hold it | 950 | lagging full archive | full, archive (tier), lagging (holding)
above every head the nearest head first | 1020 | lagging full ahead | ahead, full (distance), lagging (distance)
above every head, windows unknown last | 950 | unknown lagging | lagging, unknown (trust)
above every head, a usable node without a report last | 950 | new lagging | lagging, new (distance)
above equal heads the archival tier last | 1001 | archive full | full, archive (tier)
a node that is down after all that answer | 800 | broken archive | archive, broken (trust)
down and the only holder: it is asked | 800 | broken | broken
pruned by all: a node that answers is asked | 800 | gone late | late, not gone (pruned)
down, then pruned as the last word | 800 | broken late | broken, late (holding)
nodes of another chain and drained ones never | 800 | foreign full drained | full, not drained (drained), not foreign (chain)
nodes of another chain and drained ones not even alone | 800 | foreign drained | not drained (drained), not foreign (chain)
passed over before down | 800 | broken ejected | ejected, broken (trust)
a deferred or suspect node after one that answers | 800 | deferred archive suspect | archive, deferred (trust), suspect (load)
a node far behind serves what it holds | 800 | far middle | far, middle (depth)
withheld: after the passed over, before the down | 800 | down withheld ejected full | full, ejected (trust), withheld (trust), down (trust)
the only holder is withheld: it is asked before one that is down | 100 | down0 withheld0 full | withheld0, down0 (trust), full (holding)
no node is known | 800 | |
a block is read from its holder | block 800 | archive full middle | full, middle (depth), archive (tier)
a block below the edges | block 100 | full middle archive | archive, middle (holding), not full (pruned)
a block above a head | block 950 | lagging full | full, lagging (holding)
the freshest first, then by lag | head | lagging full ahead | ahead, full (lag), lagging (lag)
among equals a full node before an archival one | head | archive full | full, archive (tier)
among equals the cheaper, however deep | head | full deep | deep, full (load)
a fresher archival node before a full one | head | lagging archive | archive, lagging (lag)
an unproven node after those that answer | head | unknown lagging | lagging, unknown (trust)
down after lagging | head | fresh-down lagging | lagging, fresh-down (trust)
far behind after passed over | head | far-head fresh-bad | fresh-bad, far-head (lag)
far behind before down | head | broken far-late | far-late, broken (trust)
nodes of another chain never | head | foreign full | full, not foreign (chain)
deferred after one that answers, though fresher | head | deferred lagging | lagging, deferred (trust)
without a window, though usable, last | head | new lagging | lagging, new (lag)
withheld after passed over | head | down withheld ejected full | full, ejected (trust), withheld (trust), down (trust)
heads within the tolerance are equally fresh | head | tolerant close beyond | close, tolerant (load), beyond (lag)
the tolerance counts from believed heads | head | tolerant close beyond doubted | close, tolerant (load), beyond (lag), doubted (trust)
and from usable nodes | head | tolerant close beyond gone-ahead | close, tolerant (load), beyond (lag), gone-ahead (trust)
and from those that may be asked | head | tolerant close beyond drained-ahead | close, tolerant (load), beyond (lag), not drained-ahead (drained)
a head past any ledger makes the others lag and no more | head | full past-ledgers | past-ledgers, full (lag)
where it must be exact, a close node is not as fresh | exact | close tolerant | tolerant, close (lag)
a full node first, then from the deepest up | hash | middle archive b | b, archive (tier), middle (deepest)
the submission node first, then from the deepest up | hash middle | full middle archive | middle, archive (submission), full (deepest)
the archival node of a submission first | hash archive | full archive | archive, full (submission)
a submission node that is down is asked once another has missed | hash broken | broken full archive | full, broken (trust), archive (submission)
so is one that is passed over | hash ejected | ejected middle archive | middle, ejected (trust), archive (submission)
a withheld one is not | hash withheld | down withheld ejected full | full, ejected (trust), withheld (trust), down (trust)
a submission node of another chain is not asked | hash foreign | foreign full | full, not foreign (chain)
a submission node that was removed does not matter | hash removed | full archive | full, archive (tier)
down last | hash full | deep-down full middle | full, middle (submission), deep-down (trust)
windows unknown: archival counts as deeper | hash | new new-archive | new, new-archive (tier)
`;

for (const [claim = '', need = '', names = '', expected] of rowsIn(orders)) {
  test(`order: ${claim}`, () => {
    assert.equal(order(named(names), needIn(need)), expected);
    assert.equal(order(named(names).toReversed(), needIn(need)), expected);
  });
}

const standIns = (nodes: readonly Candidate[], need: Need) => names(pick(nodes, need, noAnswers));

test('only nodes that are as good for a request stand in for the best, and their tier is no matter', () => {
  const same = node('same', { oldest: 480, head: 1000 });
  const edge = node('edge', { oldest: 700, safe: 900, head: 1000 });
  const bad = node('bad', { oldest: 500, head: 1000, isEjected: true });
  assert.equal(standIns([full, same, archive, edge, unknown, bad, broken], at(800)), 'full same archive');
  assert.equal(standIns([full, archive, lagging], { kind: 'head' }), 'full archive');
  assert.equal(standIns([bad, broken], at(800)), 'bad');
  assert.equal(standIns([], at(800)), '');
  const archives = pick([archive, { ...archive, name: 'twin' }], at(800), noAnswers, { isLast: true });
  assert.equal(names(archives), 'archive twin');
  // Where all have pruned it, one 410 is as good as another.
  assert.match(standIns([full, { ...full, name: 'other' }], at(100)), /^(full|other)$/);
});

const twin = node('twin', { oldest: 480, head: 1000, cost: 9 });

/** Claim, nodes, and the choice. */
const places = `
a full node is passed over for one that is as good | busy twin | twin at once
a deeper one stands in as well | busy middle | middle at once
archival nodes stand in while half of their places are free | busy archive | archive at once
and not beyond, because they keep the others | busy half-archive | busy after a wait
archival nodes give all places to their own versions | half-archive | half-archive at once
without a free place the request waits at the best | busy broken | busy after a wait
a node that is worse never stands in | busy ejected-middle | busy after a wait
`;

for (const [claim = '', names = '', expected] of rowsIn(places)) {
  test(`places: ${claim}`, () => {
    const waiting = [
      twin,
      { ...archive, name: 'half-archive', isHalfFull: true },
      { ...middle, name: 'ejected-middle', isEjected: true },
    ];
    const fleet = names.split(' ').flatMap((name) => [...nodes, ...waiting].find((each) => each.name === name) ?? []);
    for (const nodes of [fleet, fleet.toReversed()]) {
      const choice = pick(nodes, at(800), noAnswers);
      assert.equal(`${choice?.node.name} ${choice?.isFree === true ? 'at once' : 'after a wait'}`, expected);
    }
  });
}

/**
 * Claim, need, nodes, the attempts so far, and the next node. `full`: was asked; `full-410`: has pruned the data; `full-404`:
 * misses it; `410`: one refused without a usable body; `answer`: a node has answered; `last`: no attempt follows.
 */
const nexts = `
the first is asked first | 800 | full middle archive | | full
then one that was not asked | 800 | full middle archive | full | middle
the last attempt belongs to the deepest holder | 800 | full middle archive | full last | archive
none is asked twice | 800 | full middle archive | full middle archive |
the deepest of three at once, as the last | 800 | full b middle archive | last | archive
a full one, when it is the deepest | 800 | full b middle | last | middle
one that has surely pruned the data comes after one that is down | 800 | late down0 | last | down0
the deepest holder of a block | block 800 | full b middle archive | last | archive
that of a transaction | hash | full b middle archive | last | archive
a full one as well | hash | full b middle | last | middle
the newest state is as new at a full node | head | archive full | last | full
one that is down is not the last | hash | b full deep-down | last | full
a sure holder comes before a possible one | 800 | middle new-archive | last | middle
of a transaction an archival node may be deeper | hash | middle new-archive | last | new-archive
a full one without a report is not | hash | middle new | last | middle
of two as deep the cheaper | hash | full cheap | last | cheap
or the archival one | hash | deep archive | last | archive
after a 410 only a node that may hold the version, and the deepest first | 505 | full middle archive | full-410 | archive
then the next | 505 | full middle archive | full-410 archive | middle
none, if all have surely pruned it | 100 | full middle | middle-410 |
without a 410 one is asked | 100 | full middle | middle | full
the refusal without a usable body counts as well | 100 | full middle | middle 410 |
the only node is asked once | 505 | full | full-410 |
after the 410 of a transaction the deepest | hash | full middle archive | full-410 | archive
after a 404, which is a miss and no 410, as well | hash | full middle archive | full-404 | archive
a 410 to a read without a version leaves the deepest node only | head | full middle archive | full-410 | archive
once | head | full archive | full-410 archive |
none, if that one refused | head | full middle | middle-410 |
without a 410 the others | head | full middle | middle | full
a node that is not believed adds nothing to the answer of one that is | 800 | full suspect | full answer |
it is asked without an answer | 800 | full suspect | full | suspect
and after a 410 | 800 | full suspect | full-410 answer | suspect
and after a 404 | hash | full suspect | full-404 answer | suspect
and when one of several nodes at an address has pruned the data | 800 | full suspect | full 410 answer | suspect
also for a read without a version | head | full doubted | full 410 answer | doubted
a believed node adds to any answer | 800 | full middle | full answer | middle
no node, no choice | 800 | | answer |
`;

for (const [claim = '', need = '', names = '', attempts = '', expected] of rowsIn(nexts)) {
  test(`next: ${claim}`, () => {
    const words = attempts.split(' ');
    const withoutIt = words.filter((word) => /-4\d\d$/.test(word)).map((word) => word.slice(0, -4));
    const soFar: AnswersSoFar<unknown> = {
      // Words that name no node do not matter.
      asked: new Set([...words, ...withoutIt]),
      prunedAt: new Set(withoutIt),
      anyPruned: words.some((word) => word.endsWith('410')),
      bestAnswer: words.includes('answer') ? 'an answer' : undefined,
    };
    const choice = pick(named(names), needIn(need), soFar, { isLast: words.includes('last'), random: () => 0 });
    assert.equal(choice?.node.name ?? '', expected);
  });
}

function nameOfDeepest(...fleet: readonly Candidate[]): string | undefined {
  return deepest(fleet)?.name;
}

test('the deepest is the one with the lowest edge; of equals, or of the unknown, the archival one', () => {
  assert.equal(nameOfDeepest(full, archive, middle), 'archive');
  assert.equal(nameOfDeepest(full, middle), 'middle');
  assert.equal(nameOfDeepest(foreign, full), 'full');
  assert.equal(nameOfDeepest(node('a', { oldest: 0, head: 10 }), node('b', { oldest: 0, head: 10, ...archival })), 'b');
  assert.equal(nameOfDeepest(node('a', {}), node('b', archival)), 'b');
  assert.equal(nameOfDeepest(full, node('b', archival)), 'b');
  assert.equal(nameOfDeepest(node('b', archival), full), 'b');
  assert.equal(nameOfDeepest(foreign), undefined);
  assert.equal(nameOfDeepest(), undefined);
});

test('after a refusal the deepest is asked, unless one as deep has refused', () => {
  const fleet = [full, middle, archive, foreign];
  assert.equal(lastWord(fleet, full), 'archive');
  assert.equal(lastWord(fleet, full, archive), undefined);
  assert.equal(lastWord([full, broken], full), undefined);
  assert.equal(lastWord([full, { ...middle, ...down }], full), 'middle');
  assert.equal(lastWord([], full), undefined);
  const second = { ...archive, name: 'second' };
  assert.equal(lastWord([archive, second], archive), undefined);
  assert.equal(lastWord([archive, second], second), undefined);
});

/** First places by name, over 2,100 equal steps of chance. */
function firstPlaces(need: Need, ...fleet: readonly Candidate[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let step = 0; step < 2_100; step += 1) {
    const name = first(fleet, need, () => (step + 0.5) / 2_100);
    if (name !== undefined) counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

test('first places among nodes that are alike are in proportion to their weights, whatever their load', () => {
  const window = { oldest: 500, head: 1000 };
  const one = node('one', { ...window, cost: 4 });
  const two = node('two', { ...window, cost: 4 });
  const idle = node('light', { ...window, cost: 0, weight: 0.1 });
  const busy = { ...idle, cost: 9 };
  for (const need of [at(800), { kind: 'head' }, { kind: 'transaction' }] as const) {
    for (const light of [idle, busy]) {
      assert.equal(firstPlaces(need, one, light, two)['light'], 100, need.kind);
      assert.equal(firstPlaces(need, { ...one, weight: 0.05 }, light)['light'], 1_400, need.kind);
    }
  }
  assert.deepEqual(firstPlaces(at(800), idle, { ...busy, name: 'dear' }), { light: 2_100 });
});

test('a draw at the end of a share is of the next node', () => {
  const [light, heavy] = [node('light', { weight: 0.5 }), node('heavy', { weight: 1.5 })];
  assert.equal(
    first([light, heavy], { kind: 'head' }, () => 0.25),
    'heavy',
  );
});

test('a light node that holds little gets no more than its share; of its weight, depth decides', () => {
  const deep = node('deep', { oldest: 0, head: 1000 });
  const light = node('light', { oldest: 900, head: 1000, weight: 0.05 });
  assert.deepEqual(firstPlaces(at(950), deep, light), { deep: 2_000, light: 100 });
  assert.deepEqual(firstPlaces(at(950), light, deep), { deep: 2_000, light: 100 });
  assert.deepEqual(firstPlaces(at(950), { ...deep, weight: 0.05 }, light), { light: 2_100 });
  // Among heavy nodes of two depths, the light one counts as one of the shallower.
  const shallow = node('shallow', { oldest: 800, head: 1000 });
  assert.deepEqual(firstPlaces(at(950), deep, shallow, light), { shallow: 2_000, light: 100 });
  const deeper = node('light', { oldest: 0, head: 2000, weight: 0.5 });
  assert.deepEqual(firstPlaces(at(950), node('one', { oldest: 500, head: 2000 }), deeper), { one: 2_100 });
});

test('a weight changes nothing but the first place: a light node is asked alone, and where it is the only holder', () => {
  const light = node('light', { oldest: 0, head: 1000, weight: 0.001 });
  assert.equal(order([light], at(800)), 'light');
  assert.equal(order([light, full], at(300)), 'light, full (holding)');
  assert.equal(order([light, { ...full, ...down }], at(800)), 'light, full (trust)');
  assert.equal(order([{ ...light, tier: 'archival' }, full], at(800)), 'full, light (tier)');
  assert.equal(
    first([{ ...light, tier: 'archival' }, full], at(800), () => 0),
    'full',
  );
});

test('the holding of a version changes at the safe edge, the edge and the head', () => {
  const said = [499n, 500n, 519n, 520n, 1000n, 1001n].map((version) =>
    holdingOf(full.window, LedgerVersion.of(version)),
  );
  assert.deepEqual(said, ['pruned', 'edge', 'edge', 'held', 'held', 'unknown']);
  assert.equal(holdingOf(undefined, LedgerVersion.of(5n)), 'unknown');
});

test('a node is sure of what it holds, and of the newest state, while nothing is against it', () => {
  const head: Need = { kind: 'head' };
  const rows: readonly (readonly [node: Candidate, need: Need, expected: boolean])[] = [
    [full, at(520), true],
    [full, at(519), false],
    [full, at(499), false],
    [full, at(1001), false],
    [full, block(520n), true],
    [full, block(519n), false],
    [full, head, true],
    [full, { kind: 'transaction' }, true],
    [node('new', {}), head, true],
    [node('new', {}), at(800), false],
    ...[unknown, broken, { ...full, isEjected: true }, { ...full, isWithheld: true }].flatMap((each) =>
      [at(800), head].map((need) => [each, need, false] as const),
    ),
  ];
  for (const [each, need, expected] of rows) assert.equal(isSureOf(each, need), expected, `${each.name} ${need.kind}`);
});

test('answers must reach the version of a read, or the least of the newest state, and no height', () => {
  const min = LedgerVersion.of(7n);
  const needs: readonly Need[] = [at(5), { kind: 'head', min }, { kind: 'head' }, block(5n), { kind: 'transaction' }];
  assert.deepEqual(needs.map(versionOf), [5n, 7n, undefined, undefined, undefined]);
});

const costs = [5, 1, 4, 2, 3];
const alike = costs.map((cost, index) => node(`n${index}`, { oldest: 500, head: 1000, cost }));

const drawn = (...numbers: number[]) => first(alike, at(800), () => numbers.shift() ?? 0);

test('the cheaper of two nodes drawn at random is asked', () => {
  assert.equal(drawn(0, 0), 'n1');
  // Index 2, and one step on from it: index 3.
  assert.equal(drawn(0.4, 0), 'n3');
  // Index 4, and round to index 0.
  assert.equal(drawn(0.99, 0), 'n4');
});

test('of two nodes of one cost the first drawn is first, so that equal nodes share evenly', () => {
  const equal = alike.map((candidate) => ({ ...candidate, cost: 1 }));
  const firsts = [0, 0.2, 0.4, 0.6, 0.8].map((drawn) => first(equal, at(800), () => drawn));
  assert.deepEqual(firsts, ['n0', 'n1', 'n2', 'n3', 'n4']);
  assert.deepEqual(firstPlaces(at(800), ...equal.slice(0, 2)), { n0: 1_050, n1: 1_050 });
  assert.deepEqual(firstPlaces(at(800), ...alike.slice(0, 2)), { n1: 2_100 });
});

test('power of two choices: the dearest node is never first, and the cheaper the likelier', () => {
  const draw = new Draw(7);
  const firsts = new Map<string, number>();
  for (let round = 0; round < 10_000; round += 1) {
    const name = first(alike, at(800), () => draw.upTo(1_000_000) / 1_000_001) ?? '';
    firsts.set(name, (firsts.get(name) ?? 0) + 1);
  }
  const byCost = ['n1', 'n3', 'n4', 'n2', 'n0'].map((name) => (firsts.get(name) ?? 0) / 10_000);
  // Of five nodes the i-th cheapest wins against the 5 - i dearer ones: 4, 3, 2, 1 and 0 of 10 pairs.
  for (const [index, share] of byCost.entries()) assert.ok(Math.abs(share - (4 - index) / 10) < 0.03, byCost.join());
});

test('nodes up to a quarter deeper than the shallowest share its load; a deeper one is reserved for older versions', () => {
  const fleet = [
    node('shallow', { oldest: 800, head: 1000, cost: 9 }),
    node('quarter', { oldest: 750, head: 1000, cost: 1 }),
    node('deeper', { oldest: 749, head: 1000, cost: 0 }),
  ];
  assert.equal(order(fleet, at(900)), 'quarter, shallow (load), deeper (depth)');
});

const anyCandidate: fc.Arbitrary<Candidate> = fc
  .record({
    name: fc.uuid(),
    tier: fc.constantFrom('full' as const, 'archival' as const),
    health: fc.constantFrom('usable' as const, 'unproven' as const, 'down' as const, 'foreign' as const),
    edges: fc.option(fc.tuple(fc.nat(50), fc.nat(50), fc.nat(20))),
    cost: fc.nat(5),
    headTolerance: fc.nat(5),
  })
  .map(({ name, edges, ...rest }) => {
    const [oldest = 0, length = 0, margin = 0] = edges ?? [];
    return node(name, edges === null ? rest : { ...rest, oldest, head: oldest + length, safe: oldest + margin });
  });

const anyNeed: fc.Arbitrary<Need> = fc.oneof(
  fc.nat(110).map(at),
  fc.constant<Need>({ kind: 'head' }),
  fc.constant<Need>({ kind: 'transaction', submittedTo: undefined }),
);

/** Windows that no honest node has: edges above heads, versions past any ledger, speeds and costs of no meaning. */
const anyNonsense: fc.Arbitrary<Candidate> = fc
  .record({
    name: fc.uuid(),
    tier: fc.constantFrom('full' as const, 'archival' as const),
    health: fc.constantFrom('usable' as const, 'unproven' as const, 'down' as const, 'foreign' as const),
    isSuspect: fc.boolean(),
    edges: fc.option(fc.tuple(anyEdge(), anyEdge(), anyEdge())),
    cost: anyNumber(),
    headTolerance: anyNumber(),
  })
  .map(({ edges, ...rest }) => {
    const [oldest = 0n, head = 0n, safeOldest = 0n] = edges ?? [];
    const window = { oldest: oldest as LedgerVersion, head: head as LedgerVersion, safeOldest };
    return Object.assign(rest, { upstream: rest.name, window: edges === null ? undefined : window });
  });

function anyEdge(): fc.Arbitrary<bigint> {
  return fc.oneof(fc.bigInt(0n, 3n), fc.bigInt(-10n, 2n ** 64n), fc.constant(2n ** 200n));
}

function anyNumber(): fc.Arbitrary<number> {
  return fc.oneof(fc.integer(), fc.double(), fc.constantFrom(Number.NaN, Infinity, -Infinity, -1));
}

test('in any fleet, by any reports: no node twice, no foreign node, and one node unless there is none', () => {
  const versions = fc.oneof(fc.nat(4).map(BigInt), fc.constantFrom(2n ** 64n - 1n, 2n ** 63n));
  const needs = fc.oneof(
    versions.map((version): Need => ({ kind: 'version', version: LedgerVersion.of(version) })),
    anyNeed,
    versions.map((min): Need => ({ kind: 'head', min: LedgerVersion.of(min) })),
  );
  const fleets = fc.uniqueArray(fc.oneof(anyCandidate, anyNonsense), { selector: ({ name }) => name, maxLength: 10 });
  fc.assert(
    fc.property(fleets, needs, seed, (fleet, need, seed) => {
      const draw = new Draw(seed);
      const own = fleet.filter(({ health }) => health !== 'foreign').map(({ name }) => name);
      const { asked, leftOut } = explainNodes(fleet, need);
      const inOrder = asked.map(({ name }) => name);
      assert.equal(new Set(inOrder).size, inOrder.length);
      assert.ok(inOrder.every((name) => own.includes(name)));
      assert.equal(inOrder.length > 0, own.length > 0);
      assert.equal(asked.length + leftOut.length, fleet.length);
      if (need.kind !== 'version') assert.equal(inOrder.length, own.length);
      const chosen = first(fleet, need, () => draw.upTo(999) / 1000);
      assert.ok(chosen === undefined ? own.length === 0 : own.includes(chosen));
    }),
    { numRuns: 1500 },
  );
});

test('in any fleet, a pinned read passes over no usable holder, and asks a full one before an archival one', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(anyCandidate, { selector: ({ name }) => name, maxLength: 8 }),
      fc.nat(110),
      (fleet, version) => {
        const holds = ({ health, window }: Candidate): boolean =>
          health === 'usable' && holdingOf(window, LedgerVersion.of(BigInt(version))) === 'held';
        const holders = fleet.filter(holds);
        const chosen = pick(fleet, at(version), noAnswers)?.node;
        if (holders.length === 0 || chosen === undefined) return;
        assert.ok(holds(chosen));
        assert.equal(chosen.tier, holders.some(({ tier }) => tier === 'full') ? 'full' : 'archival');
      },
    ),
    { numRuns: 1500 },
  );
});

test('each node that is not chosen has a reason, and the chosen one has none', () => {
  const reasons = new Map<Candidate, Rule>();
  pick([full, twin, middle, archive, lagging], at(950), noAnswers, { random: () => 0, reasons });
  const named = [...reasons].map(([{ name }, rule]) => [name, rule]);
  const expected = { twin: 'load', middle: 'depth', archive: 'tier', lagging: 'holding' };
  assert.deepEqual(Object.fromEntries(named), expected);
});

test('explain gives each node as plain data, with the rule that put it behind or left it out', () => {
  const marks = ['isDrained', 'isSuspect', 'isEjected', 'isDeferred', 'isWithheld', 'isLagging', 'isFull'] as const;
  const marked = (value: boolean) => Object.fromEntries(marks.map((mark) => [mark, value]));
  const usable = { tier: 'full', health: 'usable', ...marked(false), weight: undefined };
  const known = { oldest: '500', safeOldest: '520', head: '1000', because: undefined };
  const sure = node('sure', { oldest: 500, safe: 510, head: 1000, cost: 2.04 });
  const edge = node('edge', { oldest: 500, safe: 520, head: 1000, cost: 1.26, weight: 2 });
  const drained = node('drained', { ...archival, ...down, ...marked(true) });
  const whole = { ...usable, name: 'sure', ...known, safeOldest: '510', holding: 'held', cost: 2, behind: undefined };
  const behind = 'holding: it holds the version less surely';
  const unknown = { holding: 'unknown', oldest: undefined, safeOldest: undefined, head: undefined, behind: undefined };
  const because = 'drained: an operator has drained it';
  assert.deepEqual(explainNodes([edge, drained, sure], at(510)), {
    asked: [whole, { ...usable, name: 'edge', ...known, weight: 2, holding: 'edge', cost: 1.3, behind }],
    leftOut: [{ ...usable, name: 'drained', ...archival, ...down, ...marked(true), ...unknown, cost: 1, because }],
  });
  // No window decides about the newest state.
  assert.deepEqual(explainNodes([sure], { kind: 'head' }).asked, [{ ...whole, holding: undefined }]);
});

test('a read is of the archive when some full node has pruned its version or block, or may have on arrival', () => {
  const windowOf = (candidate: Candidate, ofBlocks = archive) => ({
    tier: candidate.tier,
    latencyMs: () => 5,
    window: {
      around: (atMs: number, unit: Unit) => {
        assert.equal(atMs, 105);
        return { versions: candidate, blocks: ofBlocks }[unit].window;
      },
    },
  });
  const classOf = (need: Need, nodes: readonly ReturnType<typeof windowOf>[], isView = false) =>
    readClassOf(need, isView, prunedBelow(nodes, unitOf(need), 100));
  const nodes = [archive, middle, full].map((candidate) => windowOf(candidate));
  const classes = [1000, 520, 519, 499, 1001].map((version) => classOf(at(version), nodes));
  assert.deepEqual(classes, ['head', 'head', 'archive', 'archive', 'head']);
  assert.equal(classOf(at(100), [windowOf({ ...archive, window: full.window })]), 'head');
  assert.equal(classOf(block(100n), nodes), 'head');
  assert.equal(classOf(block(400n), [windowOf(middle, full)]), 'archive');
  assert.equal(classOf(at(100), nodes, true), 'view');
  // The edge of a node that has not reported for long is expected above its last head, which says nothing of later ones.
  const away = windowOf(node('away', { oldest: 500, safe: 5_000, head: 900 }));
  assert.deepEqual(
    [900, 901, 1000].map((version) => classOf(at(version), [...nodes, away])),
    ['archive', 'head', 'head'],
  );
  assert.equal(classOf({ kind: 'head' }, nodes), 'head');
});

test('the documents list the rules in the order in which they decide', () => {
  const text = readFileSync('docs/resilience.md', 'utf8');
  const listed = [...text.matchAll(/`([a-z]+)`/g)]
    .map(([, name]) => name)
    .filter((name) => Object.hasOwn(rules, name ?? ''));
  assert.deepEqual([...new Set(listed)], Object.keys(rules));
});
