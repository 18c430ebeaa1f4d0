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

/** An answer to one read, and the decision on it. */
type Row = readonly [claim: string, body: string | Buffer, decision: Decision, more?: More];

interface More {
  /** Head of the node that answers. */
  readonly told?: bigint;
  /** Head that the fleet believes in; `undefined`: none yet. */
  readonly believed?: bigint | undefined;
  readonly facts?: Partial<AnswerFacts>;
}

function decisionOf(read: ReadFacts, given: string | Buffer, more: More = {}): Decision {
  const body = Buffer.from(given);
  const answer: AnswerFacts = {
    status: 200,
    headers: { 'content-type': read.form === 'bcs' ? 'application/x-bcs' : 'application/json; charset=utf-8' },
    coding: undefined,
    body,
    json: new JsonBody(body),
    isFramed: true,
    info: ledgerInfo({ version: more.told ?? head, oldest: 100n }),
    ...more.facts,
  };
  const believed = 'believed' in more ? more.believed : head;
  const fleetHead = believed === undefined ? undefined : ledgerInfo({ version: believed });
  return decide(read, answer, { chainId: 4, head: fleetHead });
}

function rows(kind: string, read: ReadFacts, cases: readonly Row[]): void {
  for (const [claim, body, decision, more] of cases) {
    test(`${kind}, ${claim}: ${decision}`, () => {
      assert.equal(decisionOf(read, body, more), decision);
    });
  }
}

const growing = 'not complete';
const pending = 'not committed';

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
    ['at both heads', whole, 'stored', { told: final, believed: final }],
    ['below both heads', whole, 'stored'],
    ['below the believed head, at a node behind', whole, 'stored', { told: final }],
    ['above the head of its node', whole, growing, { told: final - 1n }],
    ['above the believed head', whole, growing, { told: final, believed: final - 1n }],
    ['of a node whose head is not believed', whole, growing, { told: head + 1n }],
    ['before a head is known', whole, growing, { believed: undefined }],
    ['of another chain', whole, 'other chain', { facts: { info: ledgerInfo({ version: head, chainId: 5 }) } }],
    ['without ledger headers', whole, 'no ledger headers', { facts: { info: undefined } }],
    ['compressed', whole, 'encoded body', { facts: { coding: 'gzip' } }],
    ['that ends with the connection', whole, 'unframed body', { facts: { isFramed: false } }],
    ['in another form', whole, 'other form', { facts: { headers: { 'content-type': 'text/html' } } }],
    ...[404, 410, 400, 403, 429, 500, 503, 206].map(
      (status) => [`with status ${status}`, whole, 'status', { facts: { status } }] as const,
    ),
  ]);
  rows(kind, { ...asked, extent: undefined }, [['without an extent', whole, growing]]);
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
  ['that failed', transaction({ success: false }), 'stored'],
  ['that is pending', transaction({ type: 'pending_transaction' }), pending],
  ['without an outcome', transaction({ success: undefined }), pending],
  ['of the version above', transaction({ version: '501' }), pending],
  ['that is a list', `[${transaction()}]`, pending],
  ['that breaks off', transaction().slice(0, -1), 'other form'],
  ['above the size that is parsed', transaction({ pad: 'a'.repeat(1024 * 1024) }), 'too large'],
]);
rows('a transaction by version in BCS', byVersionBcs, [
  ['that is pending', Buffer.concat([Buffer.of(1), u64(500n)]), pending],
  ['of an unknown variant', Buffer.concat([Buffer.of(2), u64(500n)]), pending],
  ['of the version above', Buffer.concat([Buffer.of(0), u64(501n)]), pending],
  ['without its last byte', Buffer.concat([Buffer.of(0), u64(500n)]).subarray(0, 8), pending],
  ['without a byte', '', pending],
]);

function listOf(items: number, first = 500n): string {
  return JSON.stringify(Array.from({ length: items }, (_, at) => ({ version: String(first + BigInt(at)) })));
}

const list = read('transactions', { kind: 'list', first: 500n, limit: 10 });
const listBcs: ReadFacts = { ...list, form: 'bcs' };
bounds('a list', list, listOf(10), 509n);
bounds('a list in BCS', listBcs, Buffer.of(10, 0), 509n);
bounds('auxiliary info', { ...list, operation: 'auxiliary_info' }, '[1,2,3,4,5,6,7,8,9,0]', 509n);
/** The rows of every list that is not as long as it was asked for. */
const otherLengths: readonly Row[] = [
  ['with an item too few', listOf(9), growing],
  ['with an item too many', listOf(11), growing],
  ['without items', '[]', growing],
  ['that is an object', '{}', growing],
];
rows('a list', list, [...otherLengths, ['that breaks off', '[1,2', 'other form']]);
const padding = ' '.repeat(1024 * 1024);
rows('a list in BCS', listBcs, [
  ['with an item too few', Buffer.of(9), growing],
  ['without a byte', '', growing],
  ['above the size that is parsed, by its length', Buffer.concat([Buffer.of(10), Buffer.from(padding)]), 'stored'],
]);
rows('a list above the size that is parsed', list, [
  ['with its last version', `[${padding}{"version":"509"}]`, 'stored'],
  ['without its last version', `[${padding}{"version":"508"}]`, growing],
  ['with a version that begins as its last one', `[${padding}{"version":"5090"}]`, growing],
]);

const longest = { kind: 'list', first: 500n, limit: 100 } as const;
rows('a list of 100 items in BCS', { ...listBcs, extent: longest }, [
  ['with all of them', Buffer.of(100), 'stored'],
  ['by a length of two bytes', Buffer.of(100 | 0x80, 1), growing],
]);
for (const [kind, asked] of [
  ['a list', { ...list, extent: { ...longest, limit: 101 } }],
  ['events', read('events', { kind: 'page', first: 0n, limit: 101 })],
] as const)
  rows(`${kind} of more items than nodes give`, asked, [
    ['that has 100', listOf(100), 'stored'],
    ['that has 101', listOf(101), growing],
  ]);

function block(height: unknown): string {
  return JSON.stringify({ block_height: height, transactions: null });
}

const infoOf = (version: bigint, blockHeight: bigint) => ({ info: { ...ledgerInfo({ version }), blockHeight } });
for (const [name, operation, height] of [
  ['a block by height', 'block', 50n],
  ['a block by version', 'block_by_version', undefined],
] as const) {
  for (const kind of ['block', 'bare block'] as const) {
    const asked = read(operation, { kind, height }, operation === 'block' ? {} : at500);
    // The head has to be in a later block: block 51 begins at 510.
    bounds(`${name} (${kind})`, asked, block('50'), 510n);
    bounds(`${name} (${kind}) in BCS`, { ...asked, form: 'bcs' }, u64(50n), 510n);
    rows(`${name} (${kind})`, asked, [
      ['whose height is a number', block(50), growing],
      ['whose height is no u64', block('50n'), growing],
      ['without a height', '{}', growing],
      ['of the head', block('100'), growing],
      ['by a node with the version but not the block', block('50'), growing, { facts: infoOf(head, 50n) }],
      [
        'by a node that names a height without the version',
        block('50'),
        growing,
        { believed: 509n, facts: infoOf(500n, 1_000n) },
      ],
    ]);
    rows(`${name} (${kind}) in BCS`, { ...asked, form: 'bcs' }, [
      ['of seven bytes', u64(50n).subarray(0, 7), growing],
      ['of the head', u64(100n), growing],
    ]);
  }
}
const byHeight = read('block', { kind: 'block', height: 50n });
rows('a block by height', byHeight, [
  ['of another height', block('49'), growing],
  ['above the size that is parsed', `{${padding}}`, 'stored'],
]);
rows('a block by height in BCS', { ...byHeight, form: 'bcs' }, [['of another height', u64(49n), growing]]);
rows('a block by version', read('block_by_version', { kind: 'block', height: undefined }, at500), [
  ['above the size that is parsed', `{${padding}}`, 'too large'],
]);

const events = read('events', { kind: 'page', first: 0n, limit: 10 });
for (const [form, body] of [
  ['json', listOf(10)],
  ['bcs', Buffer.of(10)],
] as const)
  rows(`events in ${form}`, { ...events, form }, [
    ['of a full page', body, 'stored'],
    ['of a full page, at a node behind', body, 'stored', { told: 500n }],
    ['of a node whose head is not believed', body, growing, { told: head + 1n }],
    ['before a head is known', body, growing, { believed: undefined }],
  ]);
rows('events', events, [...otherLengths, ['above the size that is parsed', `[${padding}]`, 'too large']]);

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
    assert.equal(decisionOf(asked, `[${padding}{"version":"509"}]`), 'stored');
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
