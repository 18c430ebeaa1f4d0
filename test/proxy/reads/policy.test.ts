/** The answers that may be stored: a row for every rule of protocol 1.2 and 1.1, and for each side of every bound. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operations, type Operation } from '../../../src/cache/kinds.ts';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import {
  committedVersion,
  decide,
  isOfState,
  isSameAtAllNodes,
  lifetimeOf,
  newestIn,
  type AnswerFacts,
  type Decision,
  type Extent,
  type ReadFacts,
} from '../../../src/proxy/reads/policy.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { errorBody } from '../../support/error-body.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

const resource: ReadFacts = { operation: 'resource', form: 'json', version: LedgerVersion.of(500n) };
const module: ReadFacts = { ...resource, operation: 'module' };
const view: ReadFacts = { ...resource, operation: 'view' };
const transaction: ReadFacts = { ...resource, operation: 'transaction', version: undefined };
const bcs = { form: 'bcs' } as const;

const json = 'application/json; charset=utf-8';
const xbcs = 'application/x-bcs';

/** Both heads of the rows, unless a row names others. Blocks have ten versions: the head is in block 100. */
const head = 1_000n;

/** The facts of an answer to `read`, in the form that was asked for, at `head`. */
function factsOf(read: Pick<ReadFacts, 'form'>, given: string | Buffer, more: Partial<AnswerFacts> = {}): AnswerFacts {
  const body = Buffer.from(given);
  const { status = 200 } = more;
  const answer = { status, coding: undefined, body, json: new JsonBody(body), isFramed: true };
  return { ...answer, ...as(read.form === 'bcs' && status === 200 ? xbcs : json), ...headOf(head), ...more };
}

/** Claim, body and further facts of an answer to one read. */
type Case = readonly [claim: string, body: string | Buffer, facts?: Partial<AnswerFacts>];

/** Tests the decision on each answer to `read`, in the form that was asked for unless a case says otherwise. */
function decides(decision: Decision, read: ReadFacts, status: number, cases: readonly Case[], chainId = 4): void {
  for (const [claim, body, facts] of cases) {
    test(`${claim} (${read.operation}, ${status}): ${decision}`, () => {
      const answer = factsOf(read, body, { status, ...facts });
      assert.equal(decide(read, answer, { chainId, head: answer.info }), decision);
    });
  }
}

function as(contentType: string): Pick<AnswerFacts, 'headers'> {
  return { headers: { 'content-type': contentType } };
}

function headOf(version: bigint, oldest = 100n): Pick<AnswerFacts, 'info'> {
  return { info: ledgerInfo({ version, oldest }) };
}

/** The fleet's head; `undefined`: none yet. */
function believing(version: bigint | undefined) {
  return { head: version === undefined ? undefined : ledgerInfo({ version }) };
}

function committed(more: object = {}): string {
  return JSON.stringify({ type: 'user_transaction', version: '499', success: true, hash: '0xab', ...more });
}

const unpinned = { version: undefined };
const noHeaders = { info: undefined };
const otherChain = { info: ledgerInfo({ version: 1000n, chainId: 5 }) };

decides('stored', resource, 200, [
  ['a resource', '{"type":"0x1::a::B","data":{}}'],
  ['an answer at the head of its node', '{}', headOf(500n)],
]);
decides('stored', module, 200, [['a module', '{"bytecode":"0x"}']]);
decides('stored', view, 200, [
  ['a view', '["1"]'],
  ['a bare JSON number', '18446744073709551615'],
]);
decides('stored', { ...resource, ...bcs }, 200, [['a resource in BCS', '\0']]);
decides('stored', { ...view, ...bcs }, 200, [['a view in BCS', '\x01\x01']]);
decides('version not reached', resource, 200, [['an answer from above the head', '{}', headOf(499n)]]);
decides('no version', { ...resource, ...unpinned }, 200, [['an unpinned resource', '{}']]);
decides('no version', { ...view, ...unpinned }, 200, [['an unpinned view', '[]']]);
decides('no ledger headers', resource, 200, [['no ledger headers', '{}', noHeaders]]);
decides('other chain', resource, 200, [['the ledger headers of another chain', '{}', otherChain]]);
decides('other chain', resource, 200, [['a chain that is not the fleet\u2019s', '{}']], -1);
decides('unframed body', resource, 200, [['a body that ends with the connection', '{}', { isFramed: false }]]);
decides('encoded body', { ...resource, ...bcs }, 200, [
  ['a compressed body, which nobody asked for', '\x1f\x8b', { coding: 'gzip' }],
]);

test('no answer is stored before the chain is known', () => {
  assert.equal(decide(resource, factsOf(resource, '{}'), { chainId: undefined, ...believing(head) }), 'other chain');
});

decides('other form', resource, 200, [
  ['JSON that breaks off', '{"type":"0x1::a::B","da'],
  ['an empty body', ''],
  ['two JSON texts in one body', '{}{}'],
  ['a web page', '<html>', as('text/html')],
  ['a web page said to be JSON', '<html>'],
  ['JSON said to be text', '{}', as('text/plain')],
  ['BCS where JSON was asked', '{}', as(xbcs)],
  ['no content type', '{}', { headers: {} }],
]);
decides('other form', view, 200, [['JSON that breaks off after a value', '[{"a":1}']]);
decides('other form', { ...resource, ...bcs }, 200, [['JSON where BCS was asked', '{}', as(json)]]);

const noResource = errorBody('resource_not_found');
const noModule = errorBody('module_not_found');

for (const operation of ['table_item', 'raw_table_item'] as const)
  decides('stored', { ...resource, operation }, 404, [['no such table item', errorBody('table_item_not_found')]]);
decides('stored', resource, 404, [
  ['no such resource', noResource],
  ['no such resource, at the head', noResource, headOf(500n)],
  ['no such resource, at the oldest version', noResource, headOf(1000n, 500n)],
]);
decides('stored', module, 404, [['no such module', noModule]]);
decides('stored', { ...resource, ...bcs }, 404, [['no such resource, asked in BCS (errors are JSON)', noResource]]);
// The pruner may have removed the version while the node looked it up.
decides('version pruned', resource, 404, [
  ['no such resource, below the oldest version', noResource, headOf(1000n, 501n)],
]);
decides('version not reached', resource, 404, [['no such resource, above the head', noResource, headOf(499n)]]);
decides('version not reached', module, 404, [['no such module, above the head', noModule, headOf(499n)]]);
decides('no version', { ...resource, ...unpinned }, 404, [['no such resource, unpinned', noResource]]);
decides('no ledger headers', resource, 404, [['no such resource, without ledger headers', noResource, noHeaders]]);
decides('error not final', resource, 404, [
  ['no such version', errorBody('version_not_found')],
  ['no such account', errorBody('account_not_found')],
  ['no such module, for a resource', noModule],
  ['no such route', errorBody('web_framework_error')],
  ['not found, with a page', '<html>'],
  ['not found, body cut off', '{"error_code":"resource_not_found"'],
  ['not found, not an object', '"resource_not_found"'],
  ['not found, null', 'null'],
]);
decides('error not final', module, 404, [['no such resource, for a module', noResource]]);
decides('error not final', view, 404, [
  ['no such resource, for a view', noResource],
  ['not found, of a view without a code', '{}'],
]);

decides('status', resource, 410, [['pruned', errorBody('version_pruned')]]);
decides('status', resource, 400, [['refused input', errorBody('invalid_input')]]);
decides('status', view, 400, [['a view that aborts', errorBody('invalid_input')]]);
decides('status', resource, 403, [['an output form switched off', errorBody('api_disabled')]]);
decides('status', view, 403, [['a view that the filter refuses', errorBody('invalid_input')]]);
decides('status', resource, 429, [['too many requests', errorBody('rate_limited')]]);
decides('status', resource, 500, [
  ['a broken node', errorBody('internal_error')],
  ['a broken node that names a final error', noResource],
]);
decides('status', resource, 502, [['a bad gateway', '<html>']]);
decides('status', resource, 503, [['an overloaded node', errorBody('internal_error')]]);
decides('status', resource, 302, [['a redirection', '{}']]);
decides('status', resource, 202, [['accepted', '{}']]);
decides('status', resource, 206, [['a part of the content', '{}']]);
decides('status', resource, 204, [['no content', '']]);

const committedTypes = [
  ['user_transaction', 'genesis_transaction', 'block_metadata_transaction', 'state_checkpoint_transaction'],
  ['block_epilogue_transaction', 'validator_transaction', 'a_type_of_later_days'],
].flat();

decides('stored', transaction, 200, [
  ...committedTypes.map((type) => [`a committed ${type}`, committed({ type })] as const),
  ['a committed transaction that failed', committed({ success: false })],
  ['a transaction at the head of its node', committed(), headOf(499n)],
]);
decides('not committed', transaction, 200, [
  ['a pending transaction', '{"type":"pending_transaction","hash":"0xab"}'],
  ['a pending transaction, whatever else it has', committed({ type: 'pending_transaction' })],
  ['a transaction without `success`', committed({ success: undefined })],
  ['a transaction whose `success` is null', committed({ success: null })],
  ['a transaction without version', committed({ version: undefined })],
  ['a transaction whose version is a number', committed({ version: 499 })],
  ['a transaction whose version is no u64', committed({ version: '18446744073709551616' })],
  ['a transaction from above the head of its node', committed(), headOf(498n)],
  ['a transaction without type', committed({ type: undefined })],
  ['a transaction whose type is a number', committed({ type: 5 })],
  ['a list instead of a transaction', `[${committed()}]`],
]);
decides('other form', transaction, 200, [['a transaction cut off', committed().slice(0, -1)]]);
decides('status', transaction, 404, [['an unknown transaction', errorBody('transaction_not_found')]]);
decides('status', transaction, 500, [['a transaction lookup that failed', errorBody('internal_error')]]);
decides('no ledger headers', transaction, 200, [['a transaction without ledger headers', committed(), noHeaders]]);
decides('unframed body', transaction, 200, [
  ['a transaction that ends with the connection', committed(), { isFramed: false }],
]);
decides('other chain', transaction, 200, [['a transaction of another chain', committed(), otherChain]]);
decides('stored', { ...transaction, ...bcs }, 200, [['a committed transaction in BCS', '\0\x01']]);
decides('not committed', { ...transaction, ...bcs }, 200, [
  ['a pending transaction in BCS', '\x01\x01'],
  ['a transaction in BCS of an unknown variant', '\x02'],
  ['a transaction in BCS without a byte', ''],
]);
decides('other form', { ...transaction, ...bcs }, 200, [
  ['a transaction in JSON where BCS was asked', committed(), as(json)],
]);

const largestList = 8 * 1024 * 1024;

test('a body too large to be parsed is not stored, but a list of up to 8 MiB', () => {
  const large = committed({ pad: 'a'.repeat(1024 * 1024) });
  const resources: ReadFacts = { ...resource, operation: 'resources' };

  assert.deepEqual([decisionOf(transaction, large), decisionOf(resource, large)], ['too large', 'too large']);
  const lists = [largestList, largestList + 1].map((bytes) => decisionOf(resources, Buffer.alloc(bytes, '[')));
  assert.deepEqual(lists, ['stored', 'too large']);
});

function versionIn(text: string): bigint | undefined {
  return committedVersion(new JsonBody(Buffer.from(text)));
}

test('the version of a commit is read from the JSON text of a u64, and from nothing else', () => {
  assert.equal(versionIn(committed()), 499n);
  for (const text of ['', '[]', '{}', '{"version":499}', '{"version":["499"]}', '{"version":"x"}', '{"":"499"}']) {
    assert.equal(versionIn(text), undefined, text);
  }
});

test('a version decides reads of state; those of history name all that they are of', () => {
  assert.deepEqual(
    operations.filter((operation) => !isOfState(operation)),
    ['transaction', 'by_version', 'transactions', 'auxiliary_info', 'block', 'block_by_version', 'events'],
  );
  for (const operation of ['resource', 'view', 'balance', 'raw_table_item'] as const) assert.ok(isOfState(operation));
});

// Finality of history, in JSON and in BCS.

/** An answer to one read, and the decision on it. */
type Row = readonly [claim: string, body: string | Buffer, decision: Decision, more?: More];

interface More {
  /** Head of the node that answers. */
  readonly told?: bigint;
  /** Head that the fleet believes in; `undefined`: none yet. */
  readonly believed?: bigint | undefined;
  readonly facts?: Partial<AnswerFacts>;
}

function decisionOf(read: ReadFacts, body: string | Buffer, more: More = {}): Decision {
  const answer = factsOf(read, body, { ...headOf(more.told ?? head), ...more.facts });
  return decide(read, answer, { chainId: 4, ...believing('believed' in more ? more.believed : head) });
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
const committedAt500 = (more: object = {}): string => committed({ version: '500', ...more });

bounds('a transaction by version', byVersion, committedAt500(), 500n);
bounds('a transaction by version in BCS', byVersionBcs, Buffer.concat([Buffer.of(0), u64(500n)]), 500n);
rows('a transaction by version', byVersion, [
  ['that failed', committedAt500({ success: false }), 'stored'],
  ['that is pending', committedAt500({ type: 'pending_transaction' }), pending],
  ['without an outcome', committedAt500({ success: undefined }), pending],
  ['of the version above', committedAt500({ version: '501' }), pending],
  ['that is a list', `[${committedAt500()}]`, pending],
  ['that breaks off', committedAt500().slice(0, -1), 'other form'],
  ['above the size that is parsed', committedAt500({ pad: 'a'.repeat(1024 * 1024) }), 'too large'],
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
    const facts: ReadFacts = { operation: 'transactions', form: 'json', version: undefined, ...read };

    assert.equal(newestIn(facts, factsOf(facts, text)), newest);
  });
}
