/** Finality of history: a row for each side of every bound, in JSON and in BCS. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import {
  decide,
  lifetimeOf,
  isSameAtAllNodes,
  newestIn,
  type Decision,
  type AnswerFacts,
  type Extent,
  type ReadFacts,
} from '../../../src/proxy/reads/policy.ts';
import { operations, type Operation } from '../../../src/cache/kinds.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

/** Both heads of the rows, unless a row names others. Blocks have ten versions: the head is in block 100. */
const head = 1_000n;

interface Row {
  readonly claim: string;
  readonly body: string | Buffer;
  /** Head of the node that answers. */
  readonly told?: bigint;
  /** Head that the fleet believes in; `undefined`: none yet. */
  readonly believed?: bigint | undefined;
  readonly facts?: Partial<AnswerFacts>;
  readonly decision: Decision;
}

function decisionOf(read: ReadFacts, row: Row): Decision {
  const body = Buffer.from(row.body);
  const answer: AnswerFacts = {
    status: 200,
    headers: { 'content-type': read.form === 'bcs' ? 'application/x-bcs' : 'application/json; charset=utf-8' },
    coding: undefined,
    body,
    json: new JsonBody(body),
    isFramed: true,
    info: ledgerInfo({ version: row.told ?? head, oldest: 100n }),
    ...row.facts,
  };
  const believed = 'believed' in row ? row.believed : head;
  const fleetHead = believed === undefined ? undefined : ledgerInfo({ version: believed });
  return decide(read, answer, { chainId: 4, head: fleetHead });
}

function rows(kind: string, read: ReadFacts, cases: readonly Row[]): void {
  for (const row of cases) {
    test(`${kind}, ${row.claim}: ${row.decision}`, () => {
      assert.equal(decisionOf(read, row), row.decision);
    });
  }
}

const stored = { decision: 'stored' } as const;
const growing = { decision: 'not complete' } as const;
const pending = { decision: 'not committed' } as const;

function read(operation: Operation, extent: Extent, more: Partial<ReadFacts> = {}): ReadFacts {
  return { operation, form: 'json', version: undefined, extent, ...more };
}

function u64(...values: readonly bigint[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [at, value] of values.entries()) bytes.writeBigUInt64LE(value, at * 8);
  return bytes;
}

/** The rows that every kind of history has: `whole` is final at both heads, and one version before it is not. */
function bounds(kind: string, asked: ReadFacts, whole: string | Buffer, final: bigint): void {
  rows(kind, asked, [
    { claim: 'at both heads', body: whole, told: final, believed: final, ...stored },
    { claim: 'below both heads', body: whole, ...stored },
    { claim: 'below the believed head, at a node behind', body: whole, told: final, ...stored },
    { claim: 'above the head of its node', body: whole, told: final - 1n, ...growing },
    { claim: 'above the believed head', body: whole, told: final, believed: final - 1n, ...growing },
    { claim: 'of a node whose head is not believed', body: whole, told: head + 1n, ...growing },
    { claim: 'before a head is known', body: whole, believed: undefined, ...growing },
    {
      claim: 'of another chain',
      body: whole,
      facts: { info: ledgerInfo({ version: head, chainId: 5 }) },
      decision: 'other chain',
    },
    { claim: 'without ledger headers', body: whole, facts: { info: undefined }, decision: 'no ledger headers' },
    { claim: 'compressed', body: whole, facts: { coding: 'gzip' }, decision: 'encoded body' },
    { claim: 'that ends with the connection', body: whole, facts: { isFramed: false }, decision: 'unframed body' },
    {
      claim: 'in another form',
      body: whole,
      facts: { headers: { 'content-type': 'text/html' } },
      decision: 'other form',
    },
    ...[404, 410, 400, 403, 429, 500, 503, 206].map((status) => {
      return { claim: `with status ${status}`, body: whole, facts: { status }, decision: 'status' } as const;
    }),
  ]);
  rows(kind, { ...asked, extent: undefined }, [{ claim: 'without an extent', body: whole, ...growing }]);
}

const at500 = { version: LedgerVersion.of(500n) };
const byVersion = read('by_version', { kind: 'transaction', version: 500n }, at500);
const byVersionBcs: ReadFacts = { ...byVersion, form: 'bcs' };

function transaction(more: object = {}): string {
  return JSON.stringify({ type: 'user_transaction', version: '500', success: true, ...more });
}

bounds('a transaction by version', byVersion, transaction(), 500n);
bounds('a transaction by version in BCS', byVersionBcs, Buffer.concat([Buffer.of(0), u64(500n)]), 500n);
rows('a transaction by version', byVersion, [
  { claim: 'that failed', body: transaction({ success: false }), ...stored },
  { claim: 'of a type of later days', body: transaction({ type: 'a_type' }), ...stored },
  { claim: 'that is pending', body: transaction({ type: 'pending_transaction' }), ...pending },
  { claim: 'without a type', body: transaction({ type: undefined }), ...pending },
  { claim: 'whose type is a number', body: transaction({ type: 5 }), ...pending },
  { claim: 'without an outcome', body: transaction({ success: undefined }), ...pending },
  { claim: 'of the version above', body: transaction({ version: '501' }), ...pending },
  { claim: 'without a version', body: transaction({ version: undefined }), ...pending },
  { claim: 'whose version is a number', body: transaction({ version: 500 }), ...pending },
  { claim: 'whose version is no u64', body: transaction({ version: '500n' }), ...pending },
  { claim: 'that is a list', body: `[${transaction()}]`, ...pending },
  { claim: 'that breaks off', body: transaction().slice(0, -1), decision: 'other form' },
  {
    claim: 'above the size that is parsed',
    body: transaction({ pad: 'a'.repeat(1024 * 1024) }),
    decision: 'too large',
  },
]);
rows('a transaction by version in BCS', byVersionBcs, [
  { claim: 'that is pending', body: Buffer.concat([Buffer.of(1), u64(500n)]), ...pending },
  { claim: 'of an unknown variant', body: Buffer.concat([Buffer.of(2), u64(500n)]), ...pending },
  { claim: 'of the version above', body: Buffer.concat([Buffer.of(0), u64(501n)]), ...pending },
  { claim: 'without its last byte', body: Buffer.concat([Buffer.of(0), u64(500n)]).subarray(0, 8), ...pending },
  { claim: 'without a byte', body: '', ...pending },
]);

function listOf(items: number, first = 500n): string {
  return JSON.stringify(Array.from({ length: items }, (_, at) => ({ version: String(first + BigInt(at)) })));
}

const list = read('transactions', { kind: 'list', first: 500n, limit: 10 });
const listBcs: ReadFacts = { ...list, form: 'bcs' };
bounds('a list', list, listOf(10), 509n);
bounds('a list in BCS', listBcs, Buffer.of(10, 0), 509n);
bounds('auxiliary info', { ...list, operation: 'auxiliary_info' }, '[1,2,3,4,5,6,7,8,9,0]', 509n);
rows('a list', list, [
  { claim: 'with an item too few', body: listOf(9), ...growing },
  { claim: 'with an item too many', body: listOf(11), ...growing },
  { claim: 'without items', body: '[]', ...growing },
  { claim: 'that is an object', body: '{}', ...growing },
  { claim: 'that breaks off', body: '[1,2', decision: 'other form' },
]);
rows('a list in BCS', listBcs, [
  { claim: 'with an item too few', body: Buffer.of(9), ...growing },
  { claim: 'without a byte', body: '', ...growing },
]);
const padding = ' '.repeat(1024 * 1024);
rows('a list in BCS above the size that is parsed', listBcs, [
  { claim: 'by its length', body: Buffer.concat([Buffer.of(10), Buffer.from(padding)]), ...stored },
]);
rows('a list above the size that is parsed', list, [
  { claim: 'with its last version', body: `[${padding}{"version":"509"}]`, ...stored },
  { claim: 'without its last version', body: `[${padding}{"version":"508"}]`, ...growing },
  { claim: 'with a version that begins as its last one', body: `[${padding}{"version":"5090"}]`, ...growing },
]);

const longest = { kind: 'list', first: 500n, limit: 100 } as const;
rows('a list of 100 items in BCS', { ...listBcs, extent: longest }, [
  { claim: 'with all of them', body: Buffer.of(100), ...stored },
  { claim: 'by a length of two bytes', body: Buffer.of(100 | 0x80, 1), ...growing },
]);
rows('a list of more items than nodes give', { ...list, extent: { ...longest, limit: 101 } }, [
  { claim: 'that has 100', body: listOf(100), ...stored },
  { claim: 'that has 101', body: listOf(101), ...growing },
]);
rows('events of more items than nodes give', read('events', { kind: 'page', first: 0n, limit: 101 }), [
  { claim: 'that are 100', body: listOf(100), ...stored },
  { claim: 'that are 101', body: listOf(101), ...growing },
]);

function block(height: unknown): string {
  return JSON.stringify({ block_height: height, transactions: null });
}

const blockOperations = [
  ['a block by height', 'block', 50n],
  ['a block by version', 'block_by_version', undefined],
] as const;
for (const [name, operation, height] of blockOperations) {
  for (const kind of ['block', 'bare block'] as const) {
    const asked = read(operation, { kind, height }, operation === 'block' ? {} : at500);
    // The head has to be in a later block: block 51 begins at 510.
    bounds(`${name} (${kind})`, asked, block('50'), 510n);
    bounds(`${name} (${kind}) in BCS`, { ...asked, form: 'bcs' }, u64(50n), 510n);
    rows(`${name} (${kind})`, asked, [
      { claim: 'whose height is a number', body: block(50), ...growing },
      { claim: 'whose height is no u64', body: block('50n'), ...growing },
      { claim: 'without a height', body: '{}', ...growing },
      { claim: 'of the head', body: block('100'), ...growing },
      {
        claim: 'by a node with the version but not the block',
        body: block('50'),
        facts: { info: { ...ledgerInfo({ version: head }), blockHeight: 50n } },
        ...growing,
      },
      {
        claim: 'by a node that names a height without the version',
        body: block('50'),
        believed: 509n,
        facts: { info: { ...ledgerInfo({ version: 500n }), blockHeight: 1_000n } },
        ...growing,
      },
    ]);
    rows(`${name} (${kind}) in BCS`, { ...asked, form: 'bcs' }, [
      { claim: 'of seven bytes', body: u64(50n).subarray(0, 7), ...growing },
      { claim: 'of the head', body: u64(100n), ...growing },
    ]);
  }
}
const byHeight = read('block', { kind: 'block', height: 50n });
rows('a block by height', byHeight, [
  { claim: 'of another height', body: block('49'), ...growing },
  { claim: 'above the size that is parsed', body: `{${padding}}`, ...stored },
]);
rows('a block by height in BCS', { ...byHeight, form: 'bcs' }, [
  { claim: 'of another height', body: u64(49n), ...growing },
]);
rows('a block by version', read('block_by_version', { kind: 'block', height: undefined }, at500), [
  { claim: 'above the size that is parsed', body: `{${padding}}`, decision: 'too large' },
]);

const events = read('events', { kind: 'page', first: 0n, limit: 10 });
const eventsBcs: ReadFacts = { ...events, form: 'bcs' };
function pages(body: string | Buffer): readonly Row[] {
  return [
    { claim: 'of a full page', body, ...stored },
    { claim: 'of a full page, at a node behind', body, told: 500n, ...stored },
    { claim: 'of a node whose head is not believed', body, told: head + 1n, ...growing },
    { claim: 'before a head is known', body, believed: undefined, ...growing },
  ];
}

rows('events', events, pages(listOf(10)));
rows('events in BCS', eventsBcs, pages(Buffer.of(10)));
rows('events', events, [
  { claim: 'with an item too few', body: listOf(9), ...growing },
  { claim: 'with an item too many', body: listOf(11), ...growing },
  { claim: 'without items', body: '[]', ...growing },
  { claim: 'that are an object', body: '{}', ...growing },
  { claim: 'above the size that is parsed', body: `[${padding}]`, decision: 'too large' },
]);

test('the bytes of state, of BCS and of a block without transactions hold for ever; rendered history does not', () => {
  const last = { kind: 'list', first: 5n, limit: 1 } as const;
  const extents: Partial<Record<Operation, Extent>> = {
    by_version: { kind: 'transaction', version: 5n },
    transactions: last,
    auxiliary_info: last,
    block: { kind: 'block', height: 5n },
    block_by_version: { kind: 'block', height: undefined },
    events: { kind: 'page', first: 0n, limit: 1 },
  };
  const bytesHold = (form: 'json' | 'bcs') =>
    operations.filter(
      (operation) => lifetimeOf({ operation, form, version: undefined, extent: extents[operation] }) === Infinity,
    );

  const state = operations.slice(0, operations.indexOf('transaction'));
  assert.deepEqual(bytesHold('json'), state);
  assert.deepEqual(
    bytesHold('bcs'),
    operations.filter((operation) => operation !== 'transaction'),
  );
  for (const form of ['json', 'bcs'] as const) {
    assert.equal(lifetimeOf(read('block', { kind: 'bare block', height: 5n }, { form })), Infinity);
  }
});

test('rendered history without an extent does not hold for ever', () => {
  const history = operations.slice(operations.indexOf('transaction'));
  assert.deepEqual(
    history.filter((operation) => lifetimeOf({ operation, form: 'json', version: undefined }) === Infinity),
    [],
  );
});

for (const operation of ['modules', 'resources', 'transactions', 'auxiliary_info'] as const) {
  test(`${operation} above the size that is parsed are stored as they are`, () => {
    const extent = operation === 'transactions' || operation === 'auxiliary_info' ? list.extent : undefined;
    const asked = { operation, form: 'json', version: LedgerVersion.of(500n), extent } as const;
    assert.equal(decisionOf(asked, { claim: '', body: `[${padding}{"version":"509"}]`, ...stored }), 'stored');
  });
}

function agreed(form: 'json' | 'bcs'): readonly Operation[] {
  return operations.filter((operation) => isSameAtAllNodes({ operation, form, version: undefined }));
}

test('nodes must agree on the bytes of state, except on JSON that depends on their heads', () => {
  const state = ['resource', 'module', 'view', 'balance', 'modules', 'table_item', 'raw_table_item'];
  assert.deepEqual(agreed('json'), state);
  assert.deepEqual(agreed('bcs'), operations.slice(0, operations.indexOf('transaction')));
});

const dependsOn: readonly (readonly [
  claim: string,
  read: Partial<ReadFacts>,
  body: string | Buffer,
  newest: bigint,
])[] = [
  ['state depends on its own version', { operation: 'resource', version: LedgerVersion.of(700n) }, '{}', 700n],
  ['a transaction by version on that', { extent: { kind: 'transaction', version: 701n } }, '{}', 701n],
  ['a list on the last of its versions', { extent: { kind: 'list', first: 698n, limit: 5 } }, '[]', 702n],
  ['a block on its last version', { extent: { kind: 'block', height: 7n } }, '{"last_version":"703"}', 703n],
  ['a bare block too', { extent: { kind: 'bare block', height: 7n } }, '{"last_version":"704"}', 704n],
  [
    'a block in BCS on the head of its node',
    { form: 'bcs', extent: { kind: 'block', height: 7n } },
    Buffer.alloc(80),
    head,
  ],
  ['a page of events on the head of its node', { extent: { kind: 'page', first: 0n, limit: 5 } }, '[]', head],
  ['a transaction by hash on the version that it shows', { operation: 'transaction' }, '{"version":"705"}', 705n],
  ['one in BCS on the head of its node', { operation: 'transaction', form: 'bcs' }, Buffer.alloc(8), head],
];

for (const [claim, read, text, newest] of dependsOn) {
  test(`the newest version in an answer: ${claim}`, () => {
    const body = Buffer.from(text);
    const answer = {
      status: 200,
      headers: {},
      coding: undefined,
      body,
      json: new JsonBody(body),
      isFramed: true,
    };
    const facts: ReadFacts = { operation: 'transactions', form: 'json', version: undefined, ...read };

    assert.equal(newestIn(facts, { ...answer, info: ledgerInfo({ version: head }) }), newest);
  });
}
