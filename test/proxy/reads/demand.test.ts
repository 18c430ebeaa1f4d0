/** Demands of clients on the age and the version of "latest", and the bounds of those that state none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { Registry } from 'prom-client';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { explainBound, parseDemand, type StalenessSettings, usualBound } from '../../../src/proxy/reads/demand.ts';
import { HotReads } from '../../../src/proxy/reads/hot-reads.ts';
import type { Caller, Read, ReadResult } from '../../../src/proxy/reads/read.ts';
import type { Reader } from '../../../src/proxy/reads/reader.ts';
import { viewRead } from '../../../src/proxy/routes/parse-read.ts';
import type { Fleet } from '../../../src/upstream/index.ts';
import type { PublishedState, ReportedState } from '../../../src/upstream/shared-states.ts';
import { countsIn } from '../../support/metric-counts.ts';
import { readResource } from '../../support/reads.ts';
import { stateAt } from '../../support/states.ts';

const limits = { minClientStalenessMs: 50, maxClientStalenessMs: 120_000 };
const unlimited = { ...limits, minClientStalenessMs: 0 };

const boundsOf: readonly (readonly [text: string, expectedMs: number])[] = [
  ['0', 0],
  ['0000', 0],
  ['0s', 0],
  ['1ms', 1],
  [' 200ms ', 200],
  ['2s', 2_000],
  ['1m', 60_000],
  ['3m', 120_000],
  ['999999999m', 120_000],
];

for (const [text, expectedMs] of boundsOf) {
  test(`Ledgergate-Max-Staleness ${JSON.stringify(text)} is a bound of ${expectedMs} ms`, () => {
    const demand = parseDemand({ 'ledgergate-max-staleness': text }, unlimited, 200, undefined);
    assert.deepEqual(demand, { maxStalenessMs: expectedMs, min: undefined, floor: undefined });
  });
}

test("the bound of a client stays within the config's limits, and the usual bound holds without one", () => {
  const boundsMs = ['0', '49ms', '51ms', '119s', '121s'].map(
    (text) => parseDemand({ 'ledgergate-max-staleness': text }, limits, 200, undefined).maxStalenessMs,
  );
  assert.deepEqual(boundsMs, [50, 50, 51, 119_000, 120_000]);
  assert.equal(parseDemand({}, limits, 1, undefined).maxStalenessMs, 1);
});

for (const text of ['', ' ', '5', 'ms', '-1s', '1.5s', '1 s', '2S', '1h', '2s;', 'x2s', '1000000000s', '0, 0']) {
  test(`Ledgergate-Max-Staleness ${JSON.stringify(text)} is refused with 400, and named`, () => {
    assert.throws(() => parseDemand({ 'ledgergate-max-staleness': text }, limits, 200, undefined), {
      status: 400,
      message: `Ledgergate-Max-Staleness is no duration such as 200ms or 2s: ${JSON.stringify(text)}`,
    });
  });
}

test('the least version is the newer of that of the client and of its connection', () => {
  const least = [undefined, '0', '899', '900', '901', '18446744073709551615'].map((text) => {
    const headers = text === undefined ? {} : { 'ledgergate-min-version': text };
    return [undefined, LedgerVersion.of(900n)].map((seen) => parseDemand(headers, limits, 200, seen).min);
  });
  assert.deepEqual(least, [
    [undefined, 900n],
    [0n, 900n],
    [899n, 900n],
    [900n, 900n],
    [901n, 901n],
    [2n ** 64n - 1n, 2n ** 64n - 1n],
  ]);
});

for (const text of ['', '-1', '0x10', '18446744073709551616', '5, 6']) {
  test(`Ledgergate-Min-Version ${JSON.stringify(text)} is refused with 400, and named`, () => {
    assert.throws(() => parseDemand({ 'ledgergate-min-version': text }, limits, 200, LedgerVersion.of(5n)), {
      status: 400,
      message: `Ledgergate-Min-Version is not a u64: ${JSON.stringify(text)}`,
    });
  });
}

const overrides = [
  { view: '0x1::coin::name', maxStalenessMs: 9_000 },
  { view: '0x1::coin::*', maxStalenessMs: 5_000 },
  { view: '0x2::coin::*', maxStalenessMs: 0 },
  { route: 'view', maxStalenessMs: 3_000 },
  { route: 'resource', maxStalenessMs: 1_000 },
  { route: 'resource', maxStalenessMs: 7_000 },
] as const;
const settings: StalenessSettings = { maxStalenessMs: 200, overrides, ...unlimited };

function viewOf(called: string, contentType = 'application/json', type = '0x1::a::B') {
  const body = Buffer.from(JSON.stringify({ function: called, type_arguments: [type], arguments: [] }));
  return viewRead({ target: '/v1/view', accept: undefined, contentType, body });
}

const bcs = 'application/x.aptos.view_function+bcs';
const duplicate = Buffer.from(
  '{"function":"0x1::coin::name","function":"0x1::coin::name","type_arguments":[],"arguments":[]}',
);

/** Reads, the bound of the plan, and the bound that holds with its origin. */
const cases: readonly (readonly [
  claim: string,
  read: { readonly operation: string; readonly subject?: string },
  planMs: number | undefined,
  expectedMs: number,
  by: string,
])[] = [
  ['no override', { operation: 'module' }, undefined, 200, 'latest.maxStaleness'],
  ['no override, a plan with a longer bound', { operation: 'module' }, 60_000, 60_000, 'access.plans.p'],
  ['no override, a plan with a shorter bound', { operation: 'module' }, 0, 0, 'access.plans.p'],
  ['two overrides of a route', { operation: 'resource' }, undefined, 1_000, 'latest.overrides[4] route resource'],
  ['an override below the plan', { operation: 'resource' }, 1_001, 1_000, 'latest.overrides[4] route resource'],
  ['an override above the plan', { operation: 'resource' }, 999, 999, 'access.plans.p'],
  ['a route of similar name', { operation: 'resources' }, undefined, 200, 'latest.maxStaleness'],
  ['the function first', viewOf('0x1::coin::name'), undefined, 9_000, 'latest.overrides[0] view 0x1::coin::name'],
  ['the module', viewOf('0x1::coin::names'), undefined, 5_000, 'latest.overrides[1] view 0x1::coin::*'],
  [
    'another spelling',
    viewOf(`0x${'1'.padStart(64, '0')}::coin::x`),
    undefined,
    5_000,
    'latest.overrides[1] view 0x1::coin::*',
  ],
  ['0 ms', viewOf('0x2::coin::x'), 1, 0, 'latest.overrides[2] view 0x2::coin::*'],
  ['a module of similar name', viewOf('0x1::coins::x'), undefined, 3_000, 'latest.overrides[3] route view'],
  ['an address of similar digits', viewOf('0x11::coin::x'), undefined, 3_000, 'latest.overrides[3] route view'],
  ['a view in BCS', viewOf('0x1::coin::name', bcs), undefined, 3_000, 'latest.overrides[3] route view'],
  [
    'a type that only nodes parse',
    viewOf('0x1::coin::name', undefined, '?'),
    undefined,
    3_000,
    'latest.overrides[3] route view',
  ],
  [
    'a body that only nodes understand',
    viewRead({ target: '/v1/view', accept: undefined, contentType: 'application/json', body: duplicate }),
    undefined,
    3_000,
    'latest.overrides[3] route view',
  ],
  ['a passed view', { operation: 'view' }, undefined, 3_000, 'latest.overrides[3] route view'],
];

for (const [claim, read, planMs, expectedMs, by] of cases) {
  test(`${claim}: ${expectedMs} ms by ${by}`, () => {
    const plan = { name: 'p', maxStalenessMs: planMs };

    assert.deepEqual(explainBound(settings, { ...read }, plan), { maxStalenessMs: expectedMs, by });
    // The second one from the read's own record.
    assert.deepEqual([usualBound(settings, read, plan), usualBound(settings, read, plan)], [expectedMs, expectedMs]);
    if (planMs === undefined) assert.equal(usualBound(settings, read, undefined), expectedMs);
  });
}

test('a request without a plan is bounded by its override, and one that reads no state by its plan or the default', () => {
  assert.deepEqual(explainBound(settings, { operation: 'resource' }, undefined), {
    maxStalenessMs: 1_000,
    by: 'latest.overrides[4] route resource',
  });
  assert.deepEqual(
    [usualBound(settings, undefined, { name: 'p', maxStalenessMs: 1 }), usualBound(settings, undefined, undefined)],
    [1, 200],
  );
});

test('a reload replaces the bounds of reads that are known', () => {
  const live: { -readonly [Key in keyof StalenessSettings]: StalenessSettings[Key] } = { ...settings };
  const read = viewOf('0x1::coin::name');
  const before = usualBound(live, read, undefined);

  live.overrides = [{ view: '0x1::coin::*', maxStalenessMs: 50 }];
  const changed = usualBound(live, read, undefined);
  Object.assign(live, { overrides: [], maxStalenessMs: 400 });

  assert.deepEqual([before, changed, usualBound(live, read, undefined)], [9_000, 50, 400]);
});

// The reads that are made ahead of their first client, and their bounds.

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
