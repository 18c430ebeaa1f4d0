/** The shared states by bound: which state each demand gets, when one is renewed, and what a peer's state changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { type PublishedState, SharedStates } from '../../src/upstream/shared-states.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const body = Buffer.from('{}');

function stateAt(version: bigint, asOfMs: number): PublishedState {
  return { info: ledgerInfo({ version }), body, asOfMs, upstream: 'full-0' };
}

/** States of these bounds, with every publication recorded as version and bounds. */
function statesOf(...bounds: number[]) {
  const shared: [bigint, readonly number[]][] = [];
  const reached = { version: 0n };
  const isReached = (version: bigint): boolean => version <= reached.version;
  const states = new SharedStates((state, of) => void shared.push([state.info.version, of]), isReached);
  states.follow(bounds);
  const find = (boundMs: number, nowMs: number, min?: bigint): bigint | undefined =>
    states.find(boundMs, min === undefined ? undefined : LedgerVersion.of(min), nowMs)?.info.version;
  const look = (version: bigint, asOfMs: number, forAll = false): boolean =>
    states.take(stateAt(version, asOfMs), forAll);
  return { states, shared, find, look, reached };
}

test('a look for one client leaves the state that the others share, until nine tenths of its bound', () => {
  const { shared, find, look } = statesOf(1_000);
  look(10n, 0);
  for (const [version, asOfMs] of [
    [11n, 100],
    [12n, 899],
  ] as const) {
    assert.ok(look(version, asOfMs));
    assert.deepEqual([find(1_000, 900), find(1_000, 900, version)], [10n, version]);
  }
  look(13n, 900);
  assert.deepEqual([find(1_000, 900), find(1_000, 900, 14n)], [13n, undefined]);
  assert.deepEqual(shared, [
    [10n, [1_000]],
    [13n, [1_000]],
  ]);
});

test('each bound has a state of its own, and a demand the loosest within its bound that satisfies it', () => {
  const { shared, find, look } = statesOf(200, 5_000);
  look(10n, 0);
  look(11n, 190);
  look(12n, 380);
  const rows: readonly (readonly [bound: number, min: bigint | undefined, expected: bigint | undefined])[] = [
    [5_000, undefined, 10n],
    [9_000, undefined, 10n],
    [4_999, undefined, 12n],
    [200, undefined, 12n],
    [5_000, 11n, 12n],
    [5_000, 13n, undefined],
    [199, undefined, 12n],
    [50, undefined, 12n],
    [9, undefined, undefined],
  ];
  for (const [bound, min, expected] of rows) assert.equal(find(bound, 390, min), expected, `${bound} ${min}`);
  assert.deepEqual(shared, [
    [10n, [5_000, 200]],
    [11n, [200]],
    [12n, [200]],
  ]);
});

test('beyond its bound a state gives way to the newest, which is shared from then on', () => {
  const { shared, find, look } = statesOf(200, 1_000);
  look(10n, 5_000);
  look(11n, 5_190);
  assert.equal(find(1_000, 6_000), 10n);
  assert.equal(find(1_000, 6_001), 11n);
  assert.deepEqual(shared.at(-1), [11n, [1_000]]);
  // A client may loosen the bound: while nothing newer is known, it gets the old state.
  assert.deepEqual([find(1_000, 6_191), find(3_000, 6_191)], [undefined, 11n]);
});

test('a report finds the state that a read would get, and neither shares it nor keeps it renewed', () => {
  const { states, shared, find, look } = statesOf(200, 1_000);
  look(10n, 5_000);
  look(11n, 5_190);
  const report = (nowMs: number): bigint | undefined => states.find(1_000, undefined, nowMs, false)?.info.version;
  assert.deepEqual([report(6_000), report(6_001), report(6_191), shared.length], [10n, 11n, undefined, 2]);
  assert.equal(states.renewalInMs(6_001, -Infinity), undefined);
  assert.deepEqual([find(1_000, 6_001), shared.length], [11n, 3]);
});

test('a bound that a reload adds begins with the newest state', () => {
  const { states, shared, find, look } = statesOf(200);
  look(10n, 0);
  states.follow([200, 1_000]);
  assert.deepEqual([find(1_000, 0), shared.at(-1)], [10n, [10n, [1_000]]]);
});

test('a state is taken when it is newer than the newest: a higher version, or the same later', () => {
  const { look } = statesOf(200);
  const taken = [look(10n, 0), look(10n, 0), look(10n, 1), look(9n, 2), look(11n, 0)];
  assert.deepEqual(taken, [true, false, true, false, true]);
});

test('for all, every bound shares the look', () => {
  const { shared, look } = statesOf(200, 1_000);
  look(10n, 0);
  look(11n, 1, true);
  assert.deepEqual(shared.at(-1), [11n, [1_000, 200]]);
});

test('a state is renewed at 98 % of its bound while reads came within five bounds, and by the process that found it', () => {
  const { states, find, look } = statesOf(200, 1_000);
  assert.equal(states.renewalInMs(0, -Infinity), undefined);
  look(10n, 0);
  assert.equal(states.renewalInMs(0, -Infinity), undefined);
  find(1_000, 100);
  assert.equal(states.renewalInMs(100, -Infinity), 880);
  find(200, 100);
  assert.equal(states.renewalInMs(100, -Infinity), 96);
  assert.equal(states.renewalInMs(300, -Infinity), 0);
  assert.equal(states.renewalInMs(1_101, -Infinity), 0);
  find(200, 1_200);
  states.adopt(stateAt(11n, 1_200), [200, 1_000]);
  assert.equal(states.renewalInMs(1_200, -Infinity), undefined);
  find(200, 1_401);
  assert.equal(states.renewalInMs(1_401, -Infinity), undefined);
  look(12n, 1_401);
  assert.equal(states.renewalInMs(1_401, -Infinity), 196);
  assert.equal(states.renewalInMs(2_402, -Infinity), undefined);
});

test('a look that was due and renewed nothing is repeated after a bound', () => {
  const { states, find, look } = statesOf(1_000);
  look(10n, 0);
  find(1_000, 900);
  assert.deepEqual(
    [0, 899, 900, 980].map((lookedAtMs) => states.renewalInMs(1_000, lookedAtMs)),
    [0, 0, 880, 960],
  );
});

test('a floor that a stricter bound satisfies renews no more than the bound of its read; the first to come due is first', () => {
  const { states, find, look } = statesOf(200, 1_000);
  look(10n, 0);
  look(11n, 190);
  assert.deepEqual([find(1_000, 190, 11n), states.renewalInMs(190, -Infinity)], [11n, 790]);
  look(12n, 880);
  find(200, 890);
  assert.deepEqual([states.renewalInMs(890, -Infinity), states.renewalInMs(985, -Infinity)], [90, 0]);
  states.drop(() => true);
  assert.equal(states.renewalInMs(890, -Infinity), undefined);
});

test('the looks end when the last read is more than five bounds ago', () => {
  const { states, find, look } = statesOf(200);
  look(10n, 0);
  find(200, 0);
  assert.deepEqual([states.renewalInMs(1_000, -Infinity), states.renewalInMs(1_001, -Infinity)], [0, undefined]);
});

test('the state of a peer is shared where it is newer, by its bounds alone', () => {
  const { states, shared, find, look } = statesOf(200, 1_000);
  look(10n, 0);
  states.adopt(stateAt(12n, 10), [1_000]);
  states.adopt(stateAt(11n, 20), [1_000, 400]);
  assert.deepEqual([find(1_000, 20), find(200, 20), find(20, 20)], [12n, 10n, 12n]);
  assert.equal(shared.length, 1);
  assert.deepEqual([states.newest?.info.version, states.newestShared, states.passedBy(20)], [12n, 12n, 10n]);
});

test('the versions that are shared: of a bound, the newest, and the one that all in use have passed', () => {
  const { states, look } = statesOf(200, 5_000);
  assert.deepEqual(
    [states.newestShared, states.passedBy(0), states.sharedWithin(200)],
    [undefined, undefined, undefined],
  );
  look(10n, 0);
  look(11n, 190);
  assert.deepEqual([states.newestShared, states.passedBy(390), states.passedBy(391)], [11n, 10n, 10n]);
  assert.deepEqual(
    [199, 200, 4_999, 5_000].map((bound) => states.sharedWithin(bound)?.info.version),
    [undefined, 11n, 11n, 10n],
  );
  look(12n, 4_999);
  // None is in use: the next read of each gets the newest, or a newer one.
  assert.deepEqual([states.passedBy(4_999), states.passedBy(5_001), states.passedBy(10_000)], [12n, 12n, 12n]);
});

test('a state beyond its bound is below the version that all have passed, and is no answer to a client that loosens it', () => {
  const { states, find, look } = statesOf(200, 1_000);
  look(10n, 5_000);
  look(11n, 5_899);
  assert.deepEqual([states.passedBy(6_000), states.passedBy(6_001)], [10n, 11n]);
  states.drop((version) => version > 10n);
  assert.equal(find(10_000, 6_041), undefined);
});

test('states of versions that are lost go, and states of bounds that the config keeps stay', () => {
  const { states, find, look } = statesOf(200, 1_000);
  look(10n, 0);
  look(11n, 190);
  states.drop((version) => version > 11n);
  assert.equal(states.newest?.info.version, 11n);
  states.drop((version) => version > 10n);
  assert.deepEqual([find(1_000, 190), find(200, 190), states.newest], [10n, undefined, undefined]);
  assert.equal(find(1_000, 1_001), undefined);
  states.follow([1_000, 2_000]);
  assert.deepEqual([find(1_000, 190), find(2_000, 190)], [10n, 10n]);
  states.clear();
  assert.equal(find(2_000, 190), undefined);
});

test('without bounds only the newest state is found', () => {
  const { states, shared, find, look } = statesOf();
  look(10n, 0);
  assert.deepEqual(
    [find(5, 5), find(4, 5), shared, states.newestShared, states.passedBy(0)],
    [10n, undefined, [], undefined, 10n],
  );
});

test('the state of another replica is a floor, and the shared state from the time on at which a node here holds it', () => {
  const { states, shared, find, look, reached } = statesOf(200, 1_000);
  look(10n, 0);
  states.offer(ledgerInfo({ version: 12n }), [1_000]);
  assert.deepEqual([find(1_000, 10), find(200, 10), states.newestShared], [undefined, 10n, 12n]);
  reached.version = 12n;
  assert.deepEqual([find(1_000, 20), find(200, 20), find(20, 20), find(19, 20)], [12n, 10n, 12n, undefined]);
  // Its age is that of the state before: no look is saved, and none is added.
  assert.deepEqual([find(1_000, 1_000), find(1_000, 1_001)], [12n, undefined]);
  assert.deepEqual(shared, [
    [10n, [1_000, 200]],
    [12n, [200]],
  ]);
});

test('a look for a floor of another replica makes its state the shared one, not that of the look', () => {
  const { states, find, look, reached } = statesOf(1_000);
  look(10n, 0);
  states.offer(ledgerInfo({ version: 12n }), [1_000]);
  reached.version = 14n;
  look(14n, 100);
  assert.equal(states.sharedWithin(1_000)?.info.version, 12n);
  assert.deepEqual([find(1_000, 100), find(1_000, 100, 13n)], [12n, 14n]);
});

test('before the first state of a bound, that of another replica is a floor alone: its age is unknown', () => {
  const { states, find, look, reached } = statesOf(1_000);
  states.offer(ledgerInfo({ version: 12n }), [1_000]);
  reached.version = 12n;
  assert.deepEqual([find(1_000, 0), states.newestShared], [undefined, 12n]);
  reached.version = 11n;
  look(11n, 0);
  assert.equal(find(1_000, 0), undefined);
  reached.version = 12n;
  assert.equal(find(1_000, 0), 12n);
});

test('of the states of other replicas the newest counts, until a look is newer', () => {
  const { states, find, look, reached } = statesOf(1_000);
  look(10n, 0);
  for (const version of [12n, 11n]) states.offer(ledgerInfo({ version }), [1_000]);
  states.drop((version) => version > 12n);
  assert.deepEqual([find(1_000, 0), states.newestShared], [undefined, 12n]);
  reached.version = 14n;
  look(14n, 900);
  assert.equal(find(1_000, 900), 14n);
});

test('older states of other replicas change nothing, and those that no node reaches are forgotten', () => {
  const { states, find, look } = statesOf(1_000);
  states.offer(ledgerInfo({ version: 9n }), [1_000]);
  look(10n, 0);
  assert.deepEqual([find(1_000, 0), states.newestShared], [10n, 10n]);
  states.offer(ledgerInfo({ version: 10n }), [1_000]);
  assert.equal(find(1_000, 0), 10n);
  states.offer(ledgerInfo({ version: 12n }), [1_000]);
  states.refuseOffers();
  assert.equal(find(1_000, 0), 10n);
  states.offer(ledgerInfo({ version: 12n }), [1_000]);
  states.drop((version) => version > 11n);
  assert.equal(find(1_000, 0), 10n);
});
