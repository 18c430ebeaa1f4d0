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
import { errorBody } from '../../support/error-body.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

const resource: ReadFacts = { operation: 'resource', form: 'json', version: LedgerVersion.of(500n) };
const module: ReadFacts = { ...resource, operation: 'module' };
const view: ReadFacts = { ...resource, operation: 'view' };
const transaction: ReadFacts = { ...resource, operation: 'transaction', version: undefined };
const bcs = { form: 'bcs' } as const;

const json = 'application/json; charset=utf-8';
const xbcs = 'application/x-bcs';

/** Claim, body and further facts of an answer to one read. */
type Case = readonly [claim: string, body: string | Buffer, facts?: Partial<AnswerFacts>];

/** Tests the decision on each answer to `read`, in the form that was asked for unless a case says otherwise. */
function decides(decision: Decision, read: ReadFacts, status: number, cases: readonly Case[], chainId = 4): void {
  for (const [claim, body, facts] of cases) {
    test(`${claim} (${read.operation}, ${status}): ${decision}`, () => {
      const bytes = Buffer.from(body);
      const answer = {
        status,
        ...as(read.form === 'bcs' && status === 200 ? xbcs : json),
        coding: undefined,
        body: bytes,
        json: new JsonBody(bytes),
        isFramed: true,
        ...headOf(1000n),
        ...facts,
      };
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
  const body = Buffer.from('{}');
  const answer = { status: 200, ...as(json), coding: undefined, body, json: new JsonBody(body), isFramed: true };
  const believed = { chainId: undefined, head: headOf(1000n).info };
  assert.equal(decide(resource, { ...answer, ...headOf(1000n) }, believed), 'other chain');
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
