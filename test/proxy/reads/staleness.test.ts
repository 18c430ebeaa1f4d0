/** The bound of the age of a read, by default, plan and override. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StalenessBounds, type StalenessSettings } from '../../../src/proxy/reads/staleness.ts';
import { viewRead } from '../../../src/proxy/routes/parse-read.ts';

const overrides = [
  { view: '0x1::coin::name', maxStalenessMs: 9_000 },
  { view: '0x1::coin::*', maxStalenessMs: 5_000 },
  { view: '0x2::coin::*', maxStalenessMs: 0 },
  { route: 'view', maxStalenessMs: 3_000 },
  { route: 'resource', maxStalenessMs: 1_000 },
  { route: 'resource', maxStalenessMs: 7_000 },
] as const;
const limits = { minClientStalenessMs: 0, maxClientStalenessMs: 60_000 };
const settings: StalenessSettings = { maxStalenessMs: 200, overrides, ...limits };

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
    const bounds = new StalenessBounds(settings);
    const plan = { name: 'p', maxStalenessMs: planMs };

    assert.deepEqual(bounds.explain({ ...read }, plan), { maxStalenessMs: expectedMs, by });
    // The second one from the read's own record.
    assert.deepEqual([bounds.of(read, plan), bounds.of(read, plan)], [expectedMs, expectedMs]);
    if (planMs === undefined) assert.equal(bounds.of(read, undefined), expectedMs);
  });
}

test('a request without a plan is bounded by its override, and one that reads no state by its plan or the default', () => {
  const bounds = new StalenessBounds(settings);
  assert.deepEqual(bounds.explain({ operation: 'resource' }, undefined), {
    maxStalenessMs: 1_000,
    by: 'latest.overrides[4] route resource',
  });
  assert.deepEqual([bounds.of(undefined, { name: 'p', maxStalenessMs: 1 }), bounds.of(undefined, undefined)], [1, 200]);
});

test('a reload replaces the bounds of reads that are known', () => {
  const live: { -readonly [Key in keyof StalenessSettings]: StalenessSettings[Key] } = { ...settings };
  const bounds = new StalenessBounds(live);
  const read = viewOf('0x1::coin::name');
  const before = bounds.of(read, undefined);

  live.overrides = [{ view: '0x1::coin::*', maxStalenessMs: 50 }];
  const changed = bounds.of(read, undefined);
  Object.assign(live, { overrides: [], maxStalenessMs: 400 });

  assert.deepEqual([before, changed, bounds.of(read, undefined)], [9_000, 50, 400]);
});
