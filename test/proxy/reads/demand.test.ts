/** Demands of clients on the age and the version of "latest", and the bounds of those that state none. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { explainBound, parseDemand, type StalenessSettings, usualBound } from '../../../src/proxy/reads/demand.ts';
import { viewRead } from '../../../src/proxy/routes/parse-read.ts';

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
