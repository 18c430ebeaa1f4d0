/** Order of nodes: tables over made-up fleets. */
import assert from 'node:assert/strict';
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
import { type Candidate, holdingOf, type Need, readClassOf, rules } from '../../../src/upstream/select/ranking.ts';
import { fc } from '../../support/fast-check.ts';
import { Draw, seed } from '../../support/spellings.ts';

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

/** Names of the nodes as they are asked while each fails. */
function order(fleet: readonly Candidate[], need: Need): string {
  return explainNodes(fleet, need)
    .asked.map(({ name }) => name)
    .join(' ');
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
const lagging = node('lagging', { oldest: 450, head: 900 });
const unknown = node('unknown', { health: 'unproven' });
const foreign = node('foreign', { oldest: 0, head: 5000, health: 'foreign' });
const drained = node('drained', { oldest: 500, head: 1000, isDrained: true });
const broken = node('broken', { oldest: 500, head: 1000, ...down });

const pinned: readonly (readonly [string, readonly Candidate[], number, string])[] = [
  ['the shallowest holder first, then the next deeper', [archive, middle, full], 800, 'full middle archive'],
  ['one that is passed over comes last', [{ ...full, isEjected: true }, middle], 800, 'middle full'],
  ['its own edge counts in', [archive, full], 520, 'full archive'],
  ['the edge band goes to the deeper node first', [full, archive], 519, 'archive full'],
  ['the edge band, at the last reported edge', [full, archive], 500, 'archive full'],
  ['the edge band of the only node is asked', [full], 505, 'full'],
  [
    'below the edge the next deeper is asked, a node that refuses last',
    [full, middle, archive],
    400,
    'middle archive full',
  ],
  ['archival nodes when needed', [full, middle, archive], 100, 'archive middle'],
  ['below every edge only the deepest is asked', [full, middle], 100, 'middle'],
  ['below the deepest edge one node of two', [full, node('twin', { oldest: 500, head: 1000, cost: 0 })], 100, 'twin'],
  ['below every edge, among three', [full, middle, node('deep', { oldest: 200, head: 1000 })], 100, 'deep'],
  ['a deeper full node before an archival one', [archive, node('all', { oldest: 0, head: 1000 })], 700, 'all archive'],
  [
    'an archival tier keeps out although it is as shallow',
    [node('small', { oldest: 500, head: 1000, ...archival }), full],
    800,
    'full small',
  ],
  ['a node that holds it before one not known', [unknown, full], 800, 'full unknown'],
  [
    'of nodes not known the cheaper first',
    [unknown, node('other', { health: 'unproven', cost: 0 })],
    800,
    'other unknown',
  ],
  ['archival before a node not known', [unknown, archive], 800, 'archive unknown'],
  ['a node not known before one that has pruned it', [full, unknown], 400, 'unknown full'],
  ['a node behind after the ones that hold it', [lagging, full, archive], 950, 'full archive lagging'],
  [
    'above every head the nearest head first',
    [lagging, full, node('ahead', { oldest: 600, head: 1010 })],
    1020,
    'ahead full lagging',
  ],
  ['above every head, windows unknown last', [unknown, lagging], 950, 'lagging unknown'],
  ['above equal heads the archival tier last', [archive, full], 1001, 'full archive'],
  ['a node that is down after all that answer', [broken, archive], 800, 'archive broken'],
  ['down and the only holder: it is asked', [broken], 800, 'broken'],
  [
    'pruned by all: a node that answers is asked',
    [node('gone', { oldest: 850, head: 1000, health: 'down' }), node('late', { oldest: 900, head: 1000 })],
    800,
    'late',
  ],
  ['down, then pruned as the last word', [broken, node('late', { oldest: 900, head: 1000 })], 800, 'broken late'],
  ['nodes of another chain never', [foreign, full], 800, 'full'],
  ['nodes of another chain not even alone', [foreign], 800, ''],
  ['drained nodes never', [drained, middle], 800, 'middle'],
  ['drained nodes not even alone', [drained], 800, ''],
  [
    'when all look bad, one that is passed over before one that is down',
    [broken, { ...full, isEjected: true }],
    800,
    'full broken',
  ],
  ['a deferred node after one that answers', [{ ...full, isDeferred: true }, archive], 800, 'archive full'],
  ['a node far behind serves what it holds', [{ ...full, isLagging: true }, middle], 800, 'full middle'],
  ['nobody is known', [], 800, ''],
];

for (const [claim, fleet, version, expected] of pinned) {
  test(`pinned: ${claim}`, () => {
    assert.equal(order(fleet, at(version)), expected);
    assert.equal(order(fleet.toReversed(), at(version)), expected);
  });
}

const newest: readonly (readonly [string, readonly Candidate[], string])[] = [
  [
    'the freshest first, then by lag',
    [lagging, full, node('ahead', { oldest: 600, head: 1010 })],
    'ahead full lagging',
  ],
  ['among equals a full node before an archival one', [archive, full], 'full archive'],
  ['among equals the cheaper, however deep', [full, node('deep', { head: 1000, cost: 0 })], 'deep full'],
  ['a fresher archival node before a full one', [lagging, archive], 'archive lagging'],
  ['an unproven node after those that answer', [unknown, lagging], 'lagging unknown'],
  ['a node that is down after a lagging one', [node('gone', { head: 2000, ...down }), lagging], 'lagging gone'],
  [
    'a node far behind after one that is passed over',
    [node('far', { head: 1000, isLagging: true }), node('bad', { head: 2000, isEjected: true })],
    'bad far',
  ],
  ['a node far behind before one that is down', [broken, node('far', { head: 900, isLagging: true })], 'far broken'],
  ['nodes of another chain never', [foreign, full], 'full'],
  ['a deferred node after one that answers, though fresher', [{ ...full, isDeferred: true }, lagging], 'lagging full'],
  ['a node without a window, though usable, last of them', [node('new', {}), lagging], 'lagging new'],
];

for (const [claim, fleet, expected] of newest) {
  test(`head: ${claim}`, () => {
    assert.equal(order(fleet, { kind: 'head' }), expected);
    assert.equal(order(fleet.toReversed(), { kind: 'head' }), expected);
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
});

const twin = node('twin', { oldest: 480, head: 1000, cost: 9 });
const places: readonly (readonly [string, readonly Candidate[], string, boolean])[] = [
  ['a full node is passed over for one that is as good', [{ ...full, isFull: true }, twin], 'twin', true],
  ['a deeper one stands in as well', [{ ...full, isFull: true }, middle], 'middle', true],
  [
    'archival nodes stand in while half of their places are free',
    [{ ...full, isFull: true }, archive],
    'archive',
    true,
  ],
  [
    'and not beyond, because they keep the others',
    [
      { ...full, isFull: true },
      { ...archive, isHalfFull: true },
    ],
    'full',
    false,
  ],
  ['of their own versions they give all places', [{ ...archive, isHalfFull: true }], 'archive', true],
  ['without a free place the request waits at the best', [{ ...full, isFull: true }, broken], 'full', false],
  [
    'a node that is worse never stands in',
    [
      { ...full, isFull: true },
      { ...middle, isEjected: true },
    ],
    'full',
    false,
  ],
];

for (const [claim, fleet, name, isFree] of places) {
  test(`places: ${claim}`, () => {
    for (const nodes of [fleet, fleet.toReversed()]) {
      const choice = pick(nodes, at(800), noAnswers);
      assert.deepEqual([choice?.node.name, choice?.isFree], [name, isFree]);
    }
  });
}

/** The node asked after one that does not hold the data. */
function missed(nodes: readonly Candidate[], need: Need): string {
  const choice = pick(nodes, need, noAnswers, { isLast: true, random: () => 0 });
  return choice?.node.name ?? '';
}

test('after a 410 or 404, the deepest node that may hold the data is asked', () => {
  const second = node('second', { oldest: 510, head: 1000, cost: 0 });
  const hash: Need = { kind: 'transaction', submittedTo: undefined };
  const gone = node('gone', { oldest: 0, head: 1000, ...archival, ...down });
  assert.equal(missed([full, second, middle, archive], at(800)), 'archive');
  assert.equal(missed([full, second, middle, archive], block(800n)), 'archive');
  assert.equal(missed([full, second, middle, archive], hash), 'archive');
  assert.equal(missed([full, second, middle], hash), 'middle');
  assert.equal(missed([second, full, gone], hash), 'full');
  // A sure holder comes before a possible one.
  assert.equal(missed([middle, node('y', archival)], at(800)), 'middle');
  assert.equal(missed([middle, node('y', archival)], hash), 'y');
  assert.equal(missed([middle, node('x', {})], hash), 'middle');
  assert.equal(missed([full, node('twin', { oldest: 500, head: 1000, cost: 0 })], hash), 'twin');
  assert.equal(missed([node('twin', { oldest: 0, head: 1000, cost: 0 }), archive], hash), 'archive');
});

test('head: nodes within the tolerance of the freshest believed head are equally fresh and share by load', () => {
  const fleet = [
    node('first', { head: 1000, headTolerance: 20, cost: 9 }),
    node('close', { head: 980, headTolerance: 20, cost: 1 }),
    node('late', { head: 979, headTolerance: 20, cost: 0 }),
  ];
  assert.equal(order(fleet, { kind: 'head' }), 'close first late');
  assert.equal(
    order([...fleet, node('doubted', { head: 5000, isSuspect: true })], { kind: 'head' }),
    'close first late doubted',
  );
  assert.equal(order([...fleet, node('gone', { head: 5000, ...down })], { kind: 'head' }), 'close first late gone');
});

const hashes: readonly (readonly [string, readonly Candidate[], string | undefined, string])[] = [
  [
    'a full node first, then from the deepest up',
    [middle, archive, node('b', { oldest: 600, head: 1000, cost: 0 })],
    undefined,
    'b archive middle',
  ],
  ['the submission node first, then from the deepest up', [full, middle, archive], 'middle', 'middle archive full'],
  ['the archival node of a submission first', [full, archive], 'archive', 'archive full'],
  [
    'a submission node that is down uses up no first attempt, and is asked once another has missed',
    [broken, full, archive],
    'broken',
    'full broken archive',
  ],
  [
    'so does a submission node that is passed over',
    [{ ...full, isEjected: true }, middle, archive],
    'full',
    'middle full archive',
  ],
  ['a submission node of another chain is not asked', [foreign, full], 'foreign', 'full'],
  ['a submission node that was removed does not matter', [full, archive], 'removed', 'full archive'],
  [
    'nodes that are down last',
    [node('deep', { oldest: 0, head: 1000, ...archival, ...down }), full, middle],
    'full',
    'full middle deep',
  ],
  ['windows unknown: archival counts as deeper', [node('x', {}), node('y', archival)], undefined, 'x y'],
  ['nobody is known', [], 'full', ''],
];

for (const [claim, fleet, submittedTo, expected] of hashes) {
  test(`transaction: ${claim}`, () => {
    assert.equal(order(fleet, { kind: 'transaction', submittedTo }), expected);
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
  assert.equal(order([light, full], at(300)), 'light full');
  assert.equal(order([light, { ...full, ...down }], at(800)), 'light full');
  assert.equal(order([{ ...light, tier: 'archival' }, full], at(800)), 'full light');
  assert.equal(
    first([{ ...light, tier: 'archival' }, full], at(800), () => 0),
    'full',
  );
});

test('a block is read from its holder, as a version is', () => {
  assert.equal(order([archive, full, middle], block(800n)), 'full middle archive');
  assert.equal(order([full, middle, archive], block(100n)), 'archive middle');
  assert.equal(order([lagging, full], block(950n)), 'full lagging');
});

test('the holding of a version changes at the safe edge, the edge and the head', () => {
  const said = [499n, 500n, 519n, 520n, 1000n, 1001n].map((version) =>
    holdingOf(full.window, LedgerVersion.of(version)),
  );
  assert.deepEqual(said, ['pruned', 'edge', 'edge', 'held', 'held', 'unknown']);
  assert.equal(holdingOf(undefined, LedgerVersion.of(5n)), 'unknown');
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
  assert.equal(order(fleet, at(900)), 'quarter shallow deeper');
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
    { numRuns: 5000 },
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
    { numRuns: 5000 },
  );
});

test('head: where it must be exact, a node within the tolerance is not as fresh', () => {
  const fleet = [
    node('close', { oldest: 0, head: 980, headTolerance: 20, cost: 1 }),
    node('first', { oldest: 0, head: 1000, headTolerance: 20, cost: 9 }),
  ];
  assert.equal(order(fleet, { kind: 'head', isExact: true }), 'first close');
  assert.equal(names(pick(fleet, { kind: 'head', isExact: true }, noAnswers)), 'first');
});

interface MadeUpAnswers {
  readonly asked?: readonly string[];
  readonly prunedAt?: readonly string[];
  readonly anyPruned?: boolean;
  readonly bestAnswer?: string;
  readonly isLast?: boolean;
}

/** Names of the nodes to ask next. */
function after(fleet: readonly Candidate[], need: Need, answers: MadeUpAnswers = {}): string {
  const { asked = [], prunedAt = [], anyPruned = prunedAt.length > 0, bestAnswer, isLast = false } = answers;
  const soFar: AnswersSoFar<unknown> = { asked: new Set(asked), prunedAt: new Set(prunedAt), anyPruned, bestAnswer };
  return pick(fleet, need, soFar, { isLast })?.node.name ?? '';
}

test('the next node is one that was not asked; the last attempt belongs to the deepest holder', () => {
  const fleet = [full, middle, archive];
  assert.equal(after(fleet, at(800)), 'full');
  assert.equal(after(fleet, at(800), { asked: ['full'] }), 'middle');
  assert.equal(after(fleet, at(800), { asked: ['full'], isLast: true }), 'archive');
  assert.equal(after(fleet, at(800), { asked: ['full', 'middle', 'archive'] }), '');
});

test('after a 410 only a node that may hold the version is asked, and the deepest first', () => {
  assert.equal(after([full, middle, archive], at(505), { asked: ['full'], prunedAt: ['full'] }), 'archive');
  assert.equal(after([full, middle, archive], at(505), { asked: ['full', 'archive'], prunedAt: ['full'] }), 'middle');
  assert.equal(after([full, middle], at(100), { asked: ['middle'], prunedAt: ['middle'] }), '');
  assert.equal(after([full, middle], at(100), { asked: ['middle'] }), 'full');
  // The refusal without a usable body counts as well.
  assert.equal(after([full, middle], at(100), { asked: ['middle'], anyPruned: true }), '');
  assert.equal(after([full], at(505), { asked: ['full'], prunedAt: ['full'] }), '');
  const refused = { asked: ['full'], prunedAt: ['full'] };
  assert.equal(after([full, middle, archive], { kind: 'transaction' }, refused), 'archive');
  // A 404 of a transaction is a miss, and no 410.
  const missed = { asked: ['full'], prunedAt: ['full'], anyPruned: false };
  assert.equal(after([full, middle, archive], { kind: 'transaction' }, missed), 'archive');
});

test('a 410 to a read without a version leaves the deepest node only', () => {
  const head: Need = { kind: 'head' };
  assert.equal(after([full, middle, archive], head, { asked: ['full'], prunedAt: ['full'] }), 'archive');
  assert.equal(after([full, archive], head, { asked: ['full', 'archive'], prunedAt: ['full'] }), '');
  assert.equal(after([full, middle], head, { asked: ['middle'], prunedAt: ['middle'] }), '');
  assert.equal(after([full, middle], head, { asked: ['middle'] }), 'full');
});

test('a node that is not believed adds nothing to the answer of one that is', () => {
  const suspect = node('suspect', { oldest: 500, head: 1000, isSuspect: true });
  assert.equal(after([full, suspect], at(800), { asked: ['full'], bestAnswer: 'an answer' }), '');
  assert.equal(after([full, suspect], at(800), { asked: ['full'] }), 'suspect');
  const pruned = { asked: ['full'], bestAnswer: 'an answer', prunedAt: ['full'] };
  assert.equal(after([full, suspect], at(800), pruned), 'suspect');
  assert.equal(after([full, middle], at(800), { asked: ['full'], bestAnswer: 'an answer' }), 'middle');
  assert.equal(after([], at(800), { bestAnswer: 'an answer' }), '');
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
  const nodes = [archive, middle, full].map((candidate) => windowOf(candidate));
  const classes = [1000, 520, 519, 499, 1001].map((version) => readClassOf(at(version), false, nodes, 100));
  assert.deepEqual(classes, ['head', 'head', 'archive', 'archive', 'head']);
  assert.equal(readClassOf(at(100), false, [windowOf({ ...archive, window: full.window })], 100), 'head');
  assert.equal(readClassOf(block(100n), false, nodes, 100), 'head');
  assert.equal(readClassOf(block(400n), false, [windowOf(middle, full)], 100), 'archive');
  assert.equal(readClassOf(at(100), true, nodes, 100), 'view');
  assert.equal(readClassOf({ kind: 'head' }, false, nodes, 100), 'head');
});

test('a withheld node is asked after every node that answers, passed over or not, and before one that is down', () => {
  const withheld = node('withheld', { head: 1000, isWithheld: true });
  const dead = node('dead', { head: 1000, ...down });
  const ejected = node('ejected', { head: 1000, isEjected: true });
  const fleet = [dead, withheld, ejected, full];
  const hash: Need = { kind: 'transaction', submittedTo: 'withheld' };

  assert.equal(order(fleet, at(600)), 'full ejected withheld dead');
  assert.equal(order(fleet, { kind: 'head' }), 'full ejected withheld dead');
  assert.equal(order(fleet, hash), 'full ejected withheld dead');
  assert.equal(order([dead, withheld, full], at(100)), 'withheld dead full');
});

const ruleIn = (text = '') => text.replace(/:.*/, '');

test('each node has the rule that puts it behind the one before', () => {
  const made = (name: string, oldest: number, top: number, changes: MadeUp = {}) =>
    node(name, { oldest, head: top, ...changes });
  const shallow = made('full', 500, 1000);
  const deep = made('deep', 100, 1000);
  const bad = made('down', 500, 1000, down);
  const late = made('behind', 500, 900);
  const cases: readonly (readonly [Need, readonly Candidate[], string])[] = [
    [
      at(800),
      [made('dear', 500, 1000, { cost: 9 }), made('usual', 500, 1000, { cost: 5 }), shallow],
      'full, usual (load), dear (load)',
    ],
    [at(800), [deep, shallow], 'full, deep (depth)'],
    [at(800), [made('quarter', 375, 1000, { cost: 9 }), shallow], 'full, quarter (load)'],
    [{ kind: 'head' }, [made('dear and deep', 100, 1000, { cost: 9 }), shallow], 'full, dear and deep (load)'],
    [at(800), [archive, deep, shallow], 'full, deep (depth), archive (tier)'],
    [at(800), [made('half', 500, 1000, { weight: 0.5, cost: 0 }), shallow], 'half, full (weight)'],
    [at(800), [{ ...shallow, isFull: true }, deep], 'deep, full (place)'],
    [at(800), [bad, archive], 'archive, down (trust)'],
    [at(800), [made('suspect', 500, 1000, { isSuspect: true }), shallow], 'full, suspect (trust)'],
    [at(800), [drained, shallow], 'full, not drained (drained)'],
    [at(800), [foreign, shallow], 'full, not foreign (chain)'],
    [at(50), [shallow, deep, archive], 'archive, deep (holding), not full (pruned)'],
    [at(50), [shallow, deep], 'deep, not full (pruned)'],
    [at(800), [node('silent', {}), shallow], 'full, silent (holding)'],
    [at(2000), [late, shallow], 'full, behind (distance)'],
    [{ kind: 'head' }, [late, shallow], 'full, behind (lag)'],
    [
      { kind: 'transaction', submittedTo: 'deep' },
      [shallow, deep, archive, bad],
      'deep, archive (submission), full (deepest), down (trust)',
    ],
    [{ kind: 'head' }, [bad, shallow], 'full, down (trust)'],
    [{ kind: 'transaction', submittedTo: 'down' }, [bad, shallow, archive], 'full, down (trust), archive (submission)'],
  ];
  for (const [need, fleet, expected] of cases) {
    for (const nodes of [fleet, fleet.toReversed()]) {
      const { asked, leftOut } = explainNodes(nodes, need);
      const shown = [
        ...asked.map(({ name, behind }) => (behind === undefined ? name : `${name} (${ruleIn(behind)})`)),
        ...leftOut.map(({ name, because }) => `not ${name} (${ruleIn(because)})`),
      ];
      assert.equal(shown.join(', '), expected);
      for (const text of [...asked.map(({ behind }) => behind), ...leftOut.map(({ because }) => because)])
        assert.ok(text === undefined || Object.hasOwn(rules, ruleIn(text)));
    }
  }
});
