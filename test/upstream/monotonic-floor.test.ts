/** The floor by itself, on a ledger that the test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { MonotonicFloor } from '../../src/upstream/monotonic-floor.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const at = (version: bigint): LedgerVersion => LedgerVersion.of(version);

function floorOf(head?: bigint) {
  const known = head === undefined ? undefined : ledgerInfo({ version: head });
  const ledger: { generation: number; head: typeof known } = { generation: 0, head: known };
  return { ledger, floor: new MonotonicFloor(ledger) };
}

test("a floor is the newest of the client's own, this gateway's and its peers'", () => {
  const { floor } = floorOf(1_000n);
  assert.equal(floor.above(undefined), undefined);
  assert.equal(floor.above(at(5n)), 5n);
  floor.raise(at(900n));
  assert.deepEqual(
    [undefined, at(899n), at(900n), at(901n)].map((min) => floor.above(min)),
    [900n, 900n, 900n, 901n],
  );
  floor.onPeerVersion(at(950n));
  assert.deepEqual(
    [undefined, at(949n), at(951n)].map((min) => floor.above(min)),
    [950n, 950n, 951n],
  );
  assert.deepEqual([floor.ownAbove(undefined), floor.ownAbove(at(901n))], [900n, 901n]);
  floor.onPeerVersion(at(940n));
  assert.equal(floor.above(undefined), 950n);
});

test('a version raises the floor once, and no older one does', () => {
  const { floor } = floorOf(1_000n);
  const raised = [900n, 900n, 899n, 901n, 1_000n].map((version) => floor.raise(at(version)));
  assert.deepEqual(raised, [true, false, false, true, true]);
  assert.equal(floor.above(undefined), 1_000n);
});

test('a version of a peer counts up to a million above the head, and not before the first head', () => {
  const { ledger, floor } = floorOf();
  floor.onPeerVersion(at(5n));
  assert.equal(floor.above(undefined), undefined);
  ledger.head = ledgerInfo({ version: 1_000n });
  floor.onPeerVersion(at(1_001_001n));
  assert.equal(floor.above(undefined), undefined);
  floor.onPeerVersion(at(1_001_000n));
  assert.equal(floor.above(undefined), 1_001_000n);
});

test('a generation ends the versions of clients and of peers', () => {
  const { ledger, floor } = floorOf(1_000n);
  floor.raise(at(900n));
  floor.onPeerVersion(at(950n));
  ledger.generation += 1;
  assert.equal(floor.above(undefined), undefined);
  floor.onPeerVersion(at(940n));
  assert.deepEqual([floor.ownAbove(undefined), floor.above(undefined)], [undefined, 940n]);
});

test('versions of peers are ignored for ten seconds after one was given up', (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 5_000;
  const { floor } = floorOf(1_000n);
  floor.raise(at(900n));
  floor.onPeerVersion(at(905n));
  floor.ignorePeers();
  for (const [ms, floorThen] of [
    [5_000, 900n],
    [14_999, 900n],
    [15_000, 910n],
  ] as const) {
    nowMs = ms;
    floor.onPeerVersion(at(910n));
    assert.equal(floor.above(undefined), floorThen, `${ms} ms`);
  }
});
