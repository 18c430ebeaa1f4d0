import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../src/ledger/errors.ts';
import { ledgerVersion, type LedgerVersion } from '../../src/ledger/version.ts';
import type { Fleet } from '../../src/upstream/fleet.ts';
import { Floor } from '../../src/upstream/floor.ts';
import { ShownAlone, type Snapshot } from '../../src/upstream/shown.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const late = new GatewayError('unavailable', 'try again');

/** Of a gateway whose nodes have got to `head`, that has shown 900 and heard that another replica has shown 905. */
function heard(head: bigint): { readonly floor: Floor; readonly unreached: readonly LedgerVersion[] } {
  const unreached: LedgerVersion[] = [];
  const fleet = { generation: 0, head: ledgerInfo({ version: head }) } as unknown as Fleet;
  const onUnreached = (version: LedgerVersion): void => void unreached.push(version);
  const floor = new Floor(fleet, { onServed: () => undefined, onUnreached }, new ShownAlone(fleet));
  floor.recordServed(ledgerVersion(900n));
  floor.hear(ledgerVersion(905n));
  return { floor, unreached };
}

async function refuse(): Promise<never> {
  return Promise.reject(late);
}

test('what no node here gets to is given up, and said once; what was shown here is not', async () => {
  const { floor, unreached } = heard(900n);
  const asked: (LedgerVersion | undefined)[] = [];
  const answer = await floor.keep(undefined, new AbortController().signal, async (min) => {
    asked.push(min);
    return min === 905n ? refuse() : Promise.resolve('answer');
  });
  assert.deepEqual([answer, asked, unreached], ['answer', [905n, 900n], [905n]]);
  assert.equal(floor.above(undefined), 900n);
});

test('a client that hangs up has nothing to say of what other replicas have shown', async () => {
  const { floor, unreached } = heard(900n);
  const client = new AbortController();
  let asks = 0;
  const gone = floor.keep(undefined, client.signal, () => {
    asks += 1;
    client.abort(new Error('hung up'));
    return refuse();
  });
  await assert.rejects(gone, late);
  assert.deepEqual([asks, unreached, floor.above(undefined)], [1, [], 905n]);
});

test('nor have nodes that are there and have no time', async () => {
  const { floor, unreached } = heard(905n);
  let asks = 0;
  const refused = floor.keep(undefined, new AbortController().signal, () => {
    asks += 1;
    return refuse();
  });
  await assert.rejects(refused, late);
  assert.deepEqual([asks, unreached, floor.above(undefined)], [1, [], 905n]);
});

/** A floor over a ledger that the test moves, and all that the floor reports. */
function floorOf(head?: bigint) {
  const served: bigint[] = [];
  const unreached: bigint[] = [];
  const known = head === undefined ? undefined : ledgerInfo({ version: head });
  const fleet: { generation: number; head: typeof known } = { generation: 0, head: known };
  const shown = new ShownAlone(fleet);
  const events = {
    onServed: (version: LedgerVersion) => void served.push(version),
    onUnreached: (version: LedgerVersion) => void unreached.push(version),
  };
  const floor = new Floor(fleet as unknown as Fleet, events, shown);
  return { fleet, floor, served, unreached, shown };
}

const at = ledgerVersion;
const open = new AbortController().signal;

function snapshotAt(version: bigint): Snapshot {
  return { info: ledgerInfo({ version }), body: Buffer.from('{}'), asOfMs: 0, upstream: 'full-0' };
}

test("a floor is the newest of the client's own, this gateway's and other replicas'", () => {
  const { floor } = floorOf(1_000n);
  assert.equal(floor.above(undefined), undefined);
  assert.equal(floor.above(at(5n)), 5n);
  floor.recordServed(at(900n));
  assert.deepEqual(
    [undefined, at(899n), at(900n), at(901n)].map((min) => floor.above(min)),
    [900n, 900n, 900n, 901n],
  );
  floor.hear(at(950n));
  assert.deepEqual(
    [undefined, at(949n), at(951n)].map((min) => floor.above(min)),
    [950n, 950n, 951n],
  );
  floor.hear(at(940n));
  assert.equal(floor.above(undefined), 950n);
});

test('a version is news once, and no older one is', () => {
  const { floor, served, shown } = floorOf(1_000n);
  for (const version of [900n, 900n, 899n, 901n, 1_000n]) floor.recordServed(at(version));
  assert.deepEqual(served, [900n, 901n, 1_000n]);
  assert.equal(shown.served, 1_000n);
});

test('a version above the head is of no believed node, and raises no floor', () => {
  const { floor, served } = floorOf(1_000n);
  assert.equal(floor.recordServed(at(1_001n)), undefined);
  assert.deepEqual([served, floor.above(undefined)], [[], undefined]);
  const unknown = floorOf();
  unknown.floor.recordServed(at(5n));
  assert.deepEqual([unknown.served, unknown.floor.above(undefined)], [[5n], 5n]);
});

test('a shared state raises the floor and is reported, also at a version that was served before', () => {
  const { floor, served, shown } = floorOf(1_000n);
  for (const version of [900n, 900n, 950n]) floor.recordSnapshot(snapshotAt(version));
  assert.deepEqual([served, shown.snapshot?.info.version, floor.above(undefined)], [[900n, 900n, 950n], 950n, 950n]);
});

test('a version of another replica counts up to a million above the head, and not before a head is known', () => {
  const { fleet, floor } = floorOf();
  floor.hear(at(5n));
  assert.equal(floor.above(undefined), undefined);
  fleet.head = ledgerInfo({ version: 1_000n });
  floor.hear(at(1_001_001n));
  assert.equal(floor.above(undefined), undefined);
  floor.hear(at(1_001_000n));
  assert.equal(floor.above(undefined), 1_001_000n);
});

test('a generation ends what other replicas have shown', () => {
  const { fleet, floor } = floorOf(1_000n);
  floor.hear(at(950n));
  fleet.generation += 1;
  assert.equal(floor.above(undefined), undefined);
  floor.hear(at(940n));
  assert.equal(floor.above(undefined), 940n);
});

test("a floor of the gateway's own is asked for once, and never given up", async () => {
  const { floor, unreached } = floorOf(800n);
  const asked: (LedgerVersion | undefined)[] = [];
  const failing = (min: LedgerVersion | undefined): Promise<never> => {
    asked.push(min);
    return refuse();
  };
  await assert.rejects(floor.keep(undefined, open, failing), late);
  await assert.rejects(floor.keep(at(900n), open, failing), late);
  assert.deepEqual([asked, unreached], [[undefined, 900n], []]);
});

test("only a version that no node has costs a floor: other failures are the client's to see", async () => {
  for (const error of [
    new GatewayError('malformed', 'm'),
    new Error('other'),
    Object.assign(new Error(), { fault: 'unavailable' }),
  ]) {
    const { floor, unreached } = heard(900n);
    await assert.rejects(
      floor.keep(undefined, open, () => Promise.reject(error)),
      (thrown) => thrown === error,
    );
    assert.deepEqual([unreached, floor.above(undefined)], [[], 905n]);
  }
});

test('a floor that was given up is not taken up again for ten seconds', async (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 5_000;
  const { floor } = heard(900n);
  await floor.keep(undefined, open, (min) => (min === 905n ? refuse() : Promise.resolve('answer')));
  for (const [ms, floorThen] of [
    [5_000, 900n],
    [14_999, 900n],
    [15_000, 910n],
  ] as const) {
    nowMs = ms;
    floor.hear(at(910n));
    assert.equal(floor.above(undefined), floorThen, `${ms} ms`);
  }
});

test('before any head is known nothing but the floor is asked for', async () => {
  const { fleet, floor, unreached } = floorOf(900n);
  floor.hear(at(905n));
  Object.assign(fleet, { head: undefined });
  const answer = await floor.keep(undefined, open, (min) => (min === undefined ? Promise.resolve('answer') : refuse()));
  assert.deepEqual([answer, unreached], ['answer', [905n]]);
});
