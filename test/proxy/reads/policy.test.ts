/** The answers that may be stored: a row for every rule of protocol 1.2 and 1.1. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operations } from '../../../src/cache/kinds.ts';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import {
  committedVersion,
  decide,
  isOfState,
  type Decision,
  type AnswerFacts,
  type ReadFacts,
} from '../../../src/proxy/reads/policy.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

const resource: ReadFacts = { operation: 'resource', form: 'json', version: LedgerVersion.of(500n) };
const module: ReadFacts = { ...resource, operation: 'module' };
const view: ReadFacts = { ...resource, operation: 'view' };
const transaction: ReadFacts = { ...resource, operation: 'transaction', version: undefined };
const bcs = { form: 'bcs' } as const;

const json = 'application/json; charset=utf-8';
const xbcs = 'application/x-bcs';

interface Row {
  readonly claim: string;
  readonly read: ReadFacts;
  /** Chain of the fleet; default 4. */
  readonly chainId?: number;
  readonly status?: number;
  readonly body: string | Buffer;
  readonly contentType?: string;
  readonly facts?: Partial<AnswerFacts>;
  readonly decision: Decision;
}

function error(code: string): string {
  return JSON.stringify({ message: 'm', error_code: code, vm_error_code: null });
}

function headOf(version: bigint): Partial<AnswerFacts> {
  return { info: ledgerInfo({ version, oldest: 100n }) };
}

function committed(more: object = {}): string {
  return JSON.stringify({ type: 'user_transaction', version: '499', success: true, hash: '0xab', ...more });
}

const answered: readonly Row[] = [
  { claim: 'a resource', read: resource, body: '{"type":"0x1::a::B","data":{}}', decision: 'stored' },
  { claim: 'a module', read: module, body: '{"bytecode":"0x"}', decision: 'stored' },
  { claim: 'a view', read: view, body: '["1"]', decision: 'stored' },
  { claim: 'a bare JSON number', read: view, body: '18446744073709551615', decision: 'stored' },
  { claim: 'a resource in BCS', read: { ...resource, ...bcs }, body: '\0', contentType: xbcs, decision: 'stored' },
  { claim: 'a view in BCS', read: { ...view, ...bcs }, body: '\x01\x01', contentType: xbcs, decision: 'stored' },
  { claim: 'an answer at the head of its node', read: resource, body: '{}', facts: headOf(500n), decision: 'stored' },
  {
    claim: 'an answer from above the head',
    read: resource,
    body: '{}',
    facts: headOf(499n),
    decision: 'version not reached',
  },
  { claim: 'an unpinned resource', read: { ...resource, version: undefined }, body: '{}', decision: 'no version' },
  { claim: 'an unpinned view', read: { ...view, version: undefined }, body: '[]', decision: 'no version' },
  { claim: 'no ledger headers', read: resource, body: '{}', facts: { info: undefined }, decision: 'no ledger headers' },
  {
    claim: 'the ledger headers of another chain',
    read: resource,
    body: '{}',
    facts: { info: ledgerInfo({ version: 1000n, chainId: 5 }) },
    decision: 'other chain',
  },
  { claim: 'before the chain is known', read: resource, chainId: -1, body: '{}', decision: 'other chain' },
  {
    claim: 'a body that ends with the connection',
    read: resource,
    body: '{}',
    facts: { isFramed: false },
    decision: 'unframed body',
  },
  {
    claim: 'a compressed body, which nobody asked for',
    read: { ...resource, ...bcs },
    body: '\x1f\x8b',
    contentType: xbcs,
    facts: { coding: 'gzip' },
    decision: 'encoded body',
  },
];

const misshapen: readonly Row[] = [
  { claim: 'JSON that breaks off', read: resource, body: '{"type":"0x1::a::B","da', decision: 'other form' },
  { claim: 'JSON that breaks off after a value', read: view, body: '[{"a":1}', decision: 'other form' },
  { claim: 'an empty body', read: resource, body: '', decision: 'other form' },
  { claim: 'two JSON texts in one body', read: resource, body: '{}{}', decision: 'other form' },
  { claim: 'a web page', read: resource, body: '<html>', contentType: 'text/html', decision: 'other form' },
  { claim: 'a web page said to be JSON', read: resource, body: '<html>', decision: 'other form' },
  { claim: 'JSON said to be text', read: resource, body: '{}', contentType: 'text/plain', decision: 'other form' },
  { claim: 'JSON where BCS was asked', read: { ...resource, ...bcs }, body: '{}', decision: 'other form' },
  { claim: 'BCS where JSON was asked', read: resource, body: '{}', contentType: xbcs, decision: 'other form' },
  { claim: 'no content type', read: resource, body: '{}', facts: { headers: {} }, decision: 'other form' },
];

const notFound: readonly Row[] = [
  ...(['table_item', 'raw_table_item'] as const).map((operation) => ({
    claim: 'no such table item',
    read: { ...resource, operation },
    status: 404,
    body: error('table_item_not_found'),
    decision: 'stored' as const,
  })),
  { claim: 'no such resource', read: resource, status: 404, body: error('resource_not_found'), decision: 'stored' },
  { claim: 'no such module', read: module, status: 404, body: error('module_not_found'), decision: 'stored' },
  {
    claim: 'no such resource, asked in BCS (errors are JSON)',
    read: { ...resource, ...bcs },
    status: 404,
    body: error('resource_not_found'),
    decision: 'stored',
  },
  {
    claim: 'no such resource, at the head',
    read: resource,
    status: 404,
    body: error('resource_not_found'),
    facts: headOf(500n),
    decision: 'stored',
  },
  {
    claim: 'no such resource, above the head',
    read: resource,
    status: 404,
    body: error('resource_not_found'),
    facts: headOf(499n),
    decision: 'version not reached',
  },
  {
    claim: 'no such module, above the head',
    read: module,
    status: 404,
    body: error('module_not_found'),
    facts: headOf(499n),
    decision: 'version not reached',
  },
  {
    claim: 'no such resource, unpinned',
    read: { ...resource, version: undefined },
    status: 404,
    body: error('resource_not_found'),
    decision: 'no version',
  },
  {
    claim: 'no such resource, without ledger headers',
    read: resource,
    status: 404,
    body: error('resource_not_found'),
    facts: { info: undefined },
    decision: 'no ledger headers',
  },
  // The pruner may have removed the version while the node looked it up.
  ...[
    { claim: 'below the oldest version', oldest: 501n, decision: 'version pruned' as const },
    { claim: 'at the oldest version', oldest: 500n, decision: 'stored' as const },
  ].map(({ claim, oldest, decision }) => ({
    claim: `no such resource, ${claim}`,
    read: resource,
    status: 404,
    body: error('resource_not_found'),
    facts: { info: ledgerInfo({ version: 1000n, oldest }) },
    decision,
  })),
  { claim: 'not found, of a view without a code', read: view, status: 404, body: '{}', decision: 'error not final' },
  {
    claim: 'no such version',
    read: resource,
    status: 404,
    body: error('version_not_found'),
    decision: 'error not final',
  },
  {
    claim: 'no such account',
    read: resource,
    status: 404,
    body: error('account_not_found'),
    decision: 'error not final',
  },
  {
    claim: 'no such module, for a resource',
    read: resource,
    status: 404,
    body: error('module_not_found'),
    decision: 'error not final',
  },
  {
    claim: 'no such resource, for a module',
    read: module,
    status: 404,
    body: error('resource_not_found'),
    decision: 'error not final',
  },
  {
    claim: 'no such resource, for a view',
    read: view,
    status: 404,
    body: error('resource_not_found'),
    decision: 'error not final',
  },
  {
    claim: 'no such route',
    read: resource,
    status: 404,
    body: error('web_framework_error'),
    decision: 'error not final',
  },
  { claim: 'not found, with a page', read: resource, status: 404, body: '<html>', decision: 'error not final' },
  {
    claim: 'not found, body cut off',
    read: resource,
    status: 404,
    body: '{"error_code":"resource_not_found"',
    decision: 'error not final',
  },
  {
    claim: 'not found, not an object',
    read: resource,
    status: 404,
    body: '"resource_not_found"',
    decision: 'error not final',
  },
  { claim: 'not found, null', read: resource, status: 404, body: 'null', decision: 'error not final' },
];

const errorStatuses: readonly Row[] = [
  { claim: 'pruned', read: resource, status: 410, body: error('version_pruned'), decision: 'status' },
  { claim: 'refused input', read: resource, status: 400, body: error('invalid_input'), decision: 'status' },
  { claim: 'a view that aborts', read: view, status: 400, body: error('invalid_input'), decision: 'status' },
  {
    claim: 'an output form switched off',
    read: resource,
    status: 403,
    body: error('api_disabled'),
    decision: 'status',
  },
  {
    claim: 'a view that the filter refuses',
    read: view,
    status: 403,
    body: error('invalid_input'),
    decision: 'status',
  },
  { claim: 'too many requests', read: resource, status: 429, body: error('rate_limited'), decision: 'status' },
  { claim: 'a broken node', read: resource, status: 500, body: error('internal_error'), decision: 'status' },
  {
    claim: 'a broken node that names a final error',
    read: resource,
    status: 500,
    body: error('resource_not_found'),
    decision: 'status',
  },
  { claim: 'a bad gateway', read: resource, status: 502, body: '<html>', decision: 'status' },
  { claim: 'an overloaded node', read: resource, status: 503, body: error('internal_error'), decision: 'status' },
  { claim: 'a redirection', read: resource, status: 302, body: '{}', decision: 'status' },
  { claim: 'accepted', read: resource, status: 202, body: '{}', decision: 'status' },
  { claim: 'a part of the content', read: resource, status: 206, body: '{}', decision: 'status' },
  { claim: 'no content', read: resource, status: 204, body: '', decision: 'status' },
];

const committedTypes = [
  ['user_transaction', 'genesis_transaction', 'block_metadata_transaction', 'state_checkpoint_transaction'],
  ['block_epilogue_transaction', 'validator_transaction', 'a_type_of_later_days'],
].flat();

const transactions: readonly Row[] = [
  ...committedTypes.map((type) => ({
    claim: `a committed ${type}`,
    read: transaction,
    body: committed({ type }),
    decision: 'stored' as const,
  })),
  {
    claim: 'a committed transaction that failed',
    read: transaction,
    body: committed({ success: false }),
    decision: 'stored',
  },
  {
    claim: 'a pending transaction',
    read: transaction,
    body: '{"type":"pending_transaction","hash":"0xab"}',
    decision: 'not committed',
  },
  {
    claim: 'a pending transaction, whatever else it tells',
    read: transaction,
    body: committed({ type: 'pending_transaction' }),
    decision: 'not committed',
  },
  {
    claim: 'a transaction without `success`',
    read: transaction,
    body: committed({ success: undefined }),
    decision: 'not committed',
  },
  {
    claim: 'a transaction whose `success` is null',
    read: transaction,
    body: committed({ success: null }),
    decision: 'not committed',
  },
  {
    claim: 'a transaction without version',
    read: transaction,
    body: committed({ version: undefined }),
    decision: 'not committed',
  },
  {
    claim: 'a transaction whose version is a number',
    read: transaction,
    body: committed({ version: 499 }),
    decision: 'not committed',
  },
  {
    claim: 'a transaction at the head of its node',
    read: transaction,
    body: committed(),
    facts: headOf(499n),
    decision: 'stored',
  },
  {
    claim: 'a transaction from above the head of its node',
    read: transaction,
    body: committed(),
    facts: headOf(498n),
    decision: 'not committed',
  },
  {
    claim: 'a transaction whose version is no u64',
    read: transaction,
    body: committed({ version: '18446744073709551616' }),
    decision: 'not committed',
  },
  {
    claim: 'a transaction without type',
    read: transaction,
    body: committed({ type: undefined }),
    decision: 'not committed',
  },
  { claim: 'a list instead of a transaction', read: transaction, body: `[${committed()}]`, decision: 'not committed' },
  { claim: 'a transaction cut off', read: transaction, body: committed().slice(0, -1), decision: 'other form' },
  {
    claim: 'an unknown transaction',
    read: transaction,
    status: 404,
    body: error('transaction_not_found'),
    decision: 'status',
  },
  {
    claim: 'a transaction lookup that failed',
    read: transaction,
    status: 500,
    body: error('internal_error'),
    decision: 'status',
  },
  {
    claim: 'a transaction without ledger headers',
    read: transaction,
    body: committed(),
    facts: { info: undefined },
    decision: 'no ledger headers',
  },
  {
    claim: 'a transaction that ends with the connection',
    read: transaction,
    body: committed(),
    facts: { isFramed: false },
    decision: 'unframed body',
  },
  {
    claim: 'a transaction of another chain',
    read: transaction,
    chainId: 5,
    body: committed(),
    decision: 'other chain',
  },
  {
    claim: 'a committed transaction in BCS',
    read: { ...transaction, ...bcs },
    body: '\0\x01',
    contentType: xbcs,
    decision: 'stored',
  },
  {
    claim: 'a pending transaction in BCS',
    read: { ...transaction, ...bcs },
    body: '\x01\x01',
    contentType: xbcs,
    decision: 'not committed',
  },
  {
    claim: 'a transaction in BCS of an unknown variant',
    read: { ...transaction, ...bcs },
    body: '\x02',
    contentType: xbcs,
    decision: 'not committed',
  },
  {
    claim: 'a transaction in BCS without a byte',
    read: { ...transaction, ...bcs },
    body: '',
    contentType: xbcs,
    decision: 'not committed',
  },
  {
    claim: 'a transaction in JSON where BCS was asked',
    read: { ...transaction, ...bcs },
    body: committed(),
    decision: 'other form',
  },
];

for (const row of [...answered, ...misshapen, ...notFound, ...errorStatuses, ...transactions]) {
  const { claim, read, chainId = 4, status = 200, body, contentType = json, facts, decision } = row;
  test(`${claim} (${read.operation}, ${status}): ${decision}`, () => {
    const answer = {
      status,
      headers: { 'content-type': contentType },
      coding: undefined,
      body: Buffer.from(body),
      json: new JsonBody(Buffer.from(body)),
      isFramed: true,
      info: undefined,
    };
    const answered = { ...answer, ...headOf(1000n), ...facts };
    assert.equal(decide(read, answered, { chainId, head: answered.info }), decision);
  });
}

const largestList = 8 * 1024 * 1024;

test('a body too large to be parsed is not stored, but a list of up to 8 MiB', () => {
  const body = Buffer.from(
    JSON.stringify({ type: 'user_transaction', version: '5', success: true, pad: 'a'.repeat(1024 * 1024) }),
  );
  const answer = { status: 200, headers: { 'content-type': json }, coding: undefined, body, isFramed: true };
  const facts = { ...answer, info: ledgerInfo({ version: 1000n }), json: new JsonBody(body) };
  const read = { form: 'json' } as const;
  const believed = { chainId: 4, head: facts.info };
  assert.equal(decide({ ...read, operation: 'transaction', version: undefined }, facts, believed), 'too large');
  assert.equal(decide({ ...read, operation: 'resource', version: LedgerVersion.of(5n) }, facts, believed), 'too large');
  const decisions = [largestList, largestList + 1].map((bytes) => {
    const list = Buffer.alloc(bytes, '[');
    const answer = { ...facts, body: list, json: new JsonBody(list) };
    return decide({ ...read, operation: 'resources', version: LedgerVersion.of(5n) }, answer, believed);
  });
  assert.deepEqual(decisions, ['stored', 'too large']);
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
