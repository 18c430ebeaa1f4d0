/** The reads that are made ahead of their first client, and their bounds. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Registry } from 'prom-client';
import type { LedgerVersion } from '../../../src/ledger/version.ts';
import { HotReads } from '../../../src/proxy/reads/hot-reads.ts';
import type { Caller, Read, ReadResult } from '../../../src/proxy/reads/read.ts';
import type { Reader } from '../../../src/proxy/reads/reader.ts';
import type { Fleet } from '../../../src/upstream/index.ts';
import type { PublishedState, ReportedState } from '../../../src/upstream/shared-states.ts';
import { countsIn } from '../../support/metric-counts.ts';
import { readResource } from '../../support/reads.ts';
import { stateAt } from '../../support/states.ts';

const [first, second, third] = [stateAt(1n), stateAt(2n), stateAt(3n)];
const other = readResource('0xffff', '0x1::coin::Coin', { query: '' });

interface Parts {
  readonly fleet: Fleet;
  readonly reader: Reader;
}

/** Hot reads above a reader whose loads end when the test says, and whose answers come from the fields. */
class World {
  isBusy = false;
  isLarge = false;
  isHeld = false;
  hasToSpare = true;
  /** The state that reads with the default bound share. */
  shared: PublishedState = first;
  /** Reads by account and version whose loads have begun. */
  readonly begun: string[] = [];
  readonly #inFlight: PromiseWithResolvers<ReadResult>[] = [];
  readonly #registry = new Registry();
  readonly hot: HotReads;

  constructor() {
    const fleet = {
      latest: { isShared: (state: ReportedState) => state === this.shared },
      sender: { hasToSpare: () => this.hasToSpare },
    };
    const reader = {
      isLarge: () => this.isLarge,
      locate: () => (this.isHeld ? {} : undefined),
      load: ({ subject, version }: Read, { isAhead }: Caller) => {
        assert.equal(isAhead, true);
        this.begun.push(`${subject.split('/')[0]} at ${version}`);
        const load = Promise.withResolvers<ReadResult>();
        this.#inFlight.push(load);
        return load.promise;
      },
    };
    const parts = { fleet, reader } as unknown as Parts;
    this.hot = new HotReads(parts.fleet, parts.reader, pinnedTo, () => this.isBusy, this.#registry);
  }

  get inFlight(): number {
    return this.#inFlight.length;
  }

  /** Clients ask so often for each of these reads within the state, which reads share from now on. */
  ask(state: PublishedState, times: number, ...asked: readonly Read[]): void {
    this.shared = state;
    for (const read of asked) for (let time = 0; time < times; time += 1) this.hot.record(read, state);
  }

  /** A client of another read comes first at this state. */
  renew(state: PublishedState): void {
    this.ask(state, 1, other);
  }

  /** Ends loads as they begin, until none is in flight. `lifetimeMs`: of the answers. */
  async settle(lifetimeMs = 1_000): Promise<void> {
    for (await turn(); this.inFlight > 0; await turn())
      for (const load of this.#inFlight.splice(0)) load.resolve({ entry: { lifetimeMs } } as ReadResult);
  }

  /** Fails the loads in flight. */
  fail(): void {
    for (const load of this.#inFlight.splice(0)) load.reject(new Error('no node'));
  }

  counts(): ReturnType<typeof countsIn> {
    return countsIn(this.#registry);
  }
}

/** Reads without a version, of as many accounts. */
function reads(count: number): readonly Read[] {
  const addresses = Array.from({ length: count }, (_, index) => `0x${(index + 1).toString(16)}`);
  return addresses.map((address) => readResource(address, '0x1::coin::Coin', { query: '' }));
}

function pinnedTo(read: Read, version: LedgerVersion): Read {
  return { ...read, version };
}

/** Account and version of a read. */
function at(version: bigint): (read: Read) => string {
  return ({ subject }) => `${subject.split('/')[0]} at ${version}`;
}

test('reads of a state that the others do not share neither count nor begin any', async () => {
  const world = new World();
  const [read] = reads(1) as [Read];
  world.ask(first, 2, read);
  for (let time = 0; time < 9; time += 1) world.hot.record(read, second);
  world.ask(first, 1, read);
  world.hot.record(read, second);
  await world.settle();
  assert.deepEqual(world.begun, []);

  world.renew(third);
  await world.settle();
  assert.deepEqual(world.begun, [at(3n)(read)]);
});

for (const [claim, next] of [
  ['the same version', stateAt(2n)],
  ['an older version, after a rollback', stateAt(1n)],
] as const)
  test(`a next state of ${claim} begins no reads`, async () => {
    const world = new World();
    const [read] = reads(1) as [Read];
    world.ask(second, 3, read);
    world.renew(next);
    world.renew(third);
    await world.settle();
    assert.deepEqual(world.begun, []);
  });

test('any history of reads begins those alone that were hot within the state before, once each', async () => {
  const asked = reads(12);
  const within = fc.array(fc.nat(asked.length - 1), { minLength: 1, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(fc.array(within, { minLength: 2, maxLength: 6 }), async (states) => {
      const world = new World();
      const expected: string[] = [];
      let hot: readonly Read[] = [];
      for (const [index, indexes] of states.entries()) {
        const version = BigInt(index + 1);
        const state = stateAt(version);
        for (const of of indexes) world.ask(state, 1, ...asked.slice(of, of + 1));
        await world.settle();
        expected.push(...hot.map(at(version)));
        hot = asked.filter((_, read) => indexes.filter((of) => of === read).length >= 3);
      }
      assert.deepEqual(world.begun.toSorted(), expected.toSorted());
    }),
  );
});

test('256 reads are made at most, four at once, the ones first that were hot first', async () => {
  const world = new World();
  const asked = reads(300);
  world.ask(first, 3, ...asked);
  world.renew(second);
  await turn();
  assert.equal(world.inFlight, 4);
  await world.settle();

  assert.deepEqual(world.begun, asked.slice(0, 256).map(at(2n)));
  assert.deepEqual(await world.counts(), { ahead: 256 });
});

test('reads of a state that is replaced are skipped, and those in flight count among the four', async () => {
  const world = new World();
  const asked = reads(10);
  world.ask(first, 3, ...asked);
  world.renew(second);
  await turn();
  world.ask(second, 3, ...asked.slice(0, 1));
  world.renew(third);
  await turn();
  assert.equal(world.begun.length, 4);
  await world.settle();

  assert.equal(world.begun.length, 5);
  assert.deepEqual(await world.counts(), { ahead: 5, skipped: 6 });
});

test('a read that fails, or whose answer is not kept, counts as such, and the next one begins', async () => {
  const world = new World();
  world.ask(first, 3, ...reads(6));
  world.renew(second);
  await turn();
  world.fail();
  await world.settle(0);

  assert.equal(world.begun.length, 6);
  assert.deepEqual(await world.counts(), { failed: 6 });
});

/** Circumstances in which no read is made ahead, and the counts. */
const refusals: readonly (readonly [claim: string, change: Partial<World>, counts: object])[] = [
  ['the process is overloaded or drains', { isBusy: true }, { skipped: 2 }],
  ['nodes have nothing to spare', { hasToSpare: false }, { skipped: 2 }],
  ['the answer is too large to be read whole', { isLarge: true }, { skipped: 2 }],
  ['memory has the answer', { isHeld: true }, {}],
];

for (const [claim, change, counts] of refusals)
  test(`no read is made ahead where ${claim}`, async () => {
    const world = Object.assign(new World(), change);
    world.ask(first, 3, ...reads(2));
    world.renew(second);
    await world.settle();

    assert.deepEqual(world.begun, []);
    assert.deepEqual(await world.counts(), counts);
  });

test('no read begins after the end', async () => {
  const world = new World();
  world.ask(first, 3, ...reads(6));
  world.renew(second);
  await turn();
  world.hot.close();
  await world.settle();
  assert.equal(world.begun.length, 4);
});
