/** Classes of answers: status x `error_code` x need; and answers by which a node sheds requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import type { Need } from '../../../src/upstream/select/ranking.ts';
import {
  type AnswerClass,
  classifyAnswer,
  errorCodeOf,
  findShedding,
} from '../../../src/upstream/dispatch/classify.ts';
import { errorBody } from '../../support/error-body.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { rowsIn } from '../../support/tables.ts';

const version: Need = { kind: 'version', version: LedgerVersion.of(5n) };
const head: Need = { kind: 'head' };
const transaction: Need = { kind: 'transaction' };

function answer(status: number, text: string | Buffer = '{}') {
  const body = Buffer.from(text);
  return { status, body, json: new JsonBody(body) };
}

/** Status, error code, and the class for a read at a version, of the head, and of a transaction. */
const errors: readonly (readonly [number, string, AnswerClass, AnswerClass, AnswerClass])[] = [
  [400, 'invalid_input', 'final', 'final', 'final'],
  [400, 'web_framework_error', 'final', 'final', 'final'],
  [401, 'unauthorized', 'final', 'final', 'final'],
  [403, 'api_disabled', 'refused', 'refused', 'refused'],
  [403, 'invalid_input', 'final', 'final', 'final'],
  [404, 'resource_not_found', 'final', 'final', 'final'],
  [404, 'module_not_found', 'final', 'final', 'final'],
  [404, 'account_not_found', 'final', 'final', 'final'],
  [404, 'web_framework_error', 'final', 'final', 'final'],
  [404, 'version_not_found', 'behind', 'final', 'final'],
  [404, 'transaction_not_found', 'behind', 'final', 'absent'],
  [405, 'web_framework_error', 'final', 'final', 'final'],
  [408, 'web_framework_error', 'failed', 'failed', 'failed'],
  [410, 'version_pruned', 'pruned', 'pruned', 'pruned'],
  [410, 'block_pruned', 'pruned', 'pruned', 'pruned'],
  [413, 'web_framework_error', 'final', 'final', 'final'],
  [429, 'rate_limited', 'failed', 'failed', 'failed'],
  [500, 'internal_error', 'failed', 'failed', 'failed'],
  [501, 'internal_error', 'failed', 'failed', 'failed'],
  [502, 'internal_error', 'failed', 'failed', 'failed'],
  [503, 'internal_error', 'failed', 'failed', 'failed'],
  [504, 'internal_error', 'failed', 'failed', 'failed'],
  [507, 'mempool_is_full', 'final', 'final', 'final'],
  [599, 'internal_error', 'failed', 'failed', 'failed'],
];

for (const [status, code, ...expected] of errors) {
  test(`${status} ${code}: ${expected.join(', ')} for a version, the head, a transaction`, () => {
    const verdicts = [version, head, transaction].map((need) => classifyAnswer(answer(status, errorBody(code)), need));
    assert.deepEqual(verdicts, expected);
  });
}

test('an unknown block by height or version is a fact about the node alone', () => {
  const unknown = answer(404, errorBody('block_not_found'));
  const block = { kind: 'block', height: 5n } as const;
  const verdicts = [block, version, head].map((need) => classifyAnswer(unknown, need));
  assert.deepEqual(verdicts, ['behind', 'behind', 'final']);
  assert.equal(classifyAnswer(answer(404, errorBody('resource_not_found')), block), 'final');
});

test('a body of another form is judged by its status', () => {
  const needs: readonly Need[] = [version, head, transaction, { kind: 'block', height: 5n }];
  for (const [status, verdict] of [
    [403, 'final'],
    [404, 'final'],
    [500, 'failed'],
    [503, 'failed'],
  ] as const) {
    for (const body of ['', '<html>', 'null', '{"error_code":5}']) {
      assert.deepEqual(
        needs.map((need) => classifyAnswer(answer(status, body), need)),
        // The 404 of one node is never final for a hash.
        needs.map(({ kind }) => (status === 404 && kind === 'transaction' ? 'absent' : verdict)),
        `${status} ${body}`,
      );
    }
  }
});

test('an unknown transaction is a fact about the node alone', () => {
  assert.equal(classifyAnswer(answer(404, errorBody('transaction_not_found')), version), 'behind');
  assert.equal(classifyAnswer(answer(404, errorBody('transaction_not_found')), transaction), 'absent');
  assert.equal(classifyAnswer(answer(404, '\x1f\x8b'), transaction), 'absent');
});

const prunedMessages = [
  'Transaction at version 5 is pruned, min available version is 100.',
  'State at version 5 has been pruned.',
  'Ledger version(5) has been pruned',
  'Block(17) has been pruned',
  'StateValue at version 5 is pruned. snapshots are available at >= 100',
];

for (const message of prunedMessages) {
  test(`a 500 with ${JSON.stringify(message)} reports a pruned version, except for the head`, () => {
    const body = errorBody('internal_error', message);
    const verdicts = [version, transaction, head].map((need) => classifyAnswer(answer(500, body), need));
    assert.deepEqual(verdicts, ['pruned', 'pruned', 'failed']);
  });
}

test('a 500 reports a pruned version only in the specified body', () => {
  for (const body of [
    errorBody('internal_error', 'unprunedness'),
    errorBody('internal_error', 'Function 0x1::pruned::T failed'),
    errorBody('internal_error', 'Struct 0x1::version::is_pruned not found at version 5'),
    errorBody('internal_error', 'version 5 of 0x1::has::been_pruned'),
    '<html>pruned',
    '{"message":"pruned"}',
    '{"message":["version 5 has been pruned"],"error_code":"internal_error"}',
    '"pruned"',
    'null',
    '',
  ]) {
    assert.equal(classifyAnswer(answer(500, body), version), 'failed', body);
  }
  assert.equal(classifyAnswer(answer(503, errorBody('internal_error', 'pruned')), version), 'failed');
});

test('410 means pruned with any body', () => {
  for (const body of ['', '<html>', '{"message":"x","error_code":"something_new"}']) {
    assert.equal(classifyAnswer(answer(410, body), version), 'pruned');
  }
});

test('every success is final: validateAnswer finds its faults', () => {
  for (const status of [200, 202, 206]) {
    const verdicts: readonly AnswerClass[] = [version, head, transaction].map((need) =>
      classifyAnswer(answer(status, '<html>'), need),
    );
    assert.deepEqual(verdicts, ['final', 'final', 'final']);
  }
  assert.equal(classifyAnswer(answer(302, ''), version), 'final');
});

test('the error code is read from the specified body only', () => {
  assert.equal(errorCodeOf(answer(404, errorBody('resource_not_found'))), 'resource_not_found');
  for (const body of [
    '',
    '{',
    'null',
    '1',
    '[]',
    '{}',
    '{"error_code":5}',
    `{"error_code":"a"${' '.repeat(70_000)}}`,
  ]) {
    assert.equal(errorCodeOf(answer(404, body)), undefined, body.slice(0, 40));
  }
});

test('health_check_failed is final for a health check alone', () => {
  const unhealthy = answer(503, errorBody('health_check_failed'));
  assert.equal(classifyAnswer(unhealthy, head, true), 'final');
  assert.deepEqual(
    [version, head, transaction].map((need) => classifyAnswer(unhealthy, need)),
    ['failed', 'failed', 'failed'],
  );
  for (const body of [errorBody('overloaded'), '']) {
    assert.equal(classifyAnswer(answer(503, body), head, true), 'failed');
  }
});

/** An error body of so many bytes. */
function bodyOf(bytes: number): string {
  return '{"error_code":"api_disabled"}'.padEnd(bytes);
}

test('an error body of 64 KiB is read, and a larger one is not', () => {
  assert.equal(errorCodeOf(answer(403, bodyOf(64 * 1024))), 'api_disabled');
  assert.equal(errorCodeOf(answer(403, bodyOf(64 * 1024 + 1))), undefined);
});

const epochMs = Date.parse('2026-03-01T12:00:00Z');
const ledger = Object.fromEntries(
  Object.entries(ledgerHeaders({ version: 900n })).map(([name, value]) => [name.toLowerCase(), value]),
);

// Answers by which a node sheds a request.

/** Without `text`: the body was not read. */
function found(status: number, headers: Record<string, string> = {}, text?: string) {
  const info = new Dialect('node').findInfo(headers);
  const body = text === undefined ? undefined : Buffer.from(text);
  return findShedding(
    { status, headers, info, ...(body !== undefined && { body, json: new JsonBody(body) }) },
    epochMs,
  );
}

/** Status, headers, error code (`empty`: without a body; none: not read), and whether a node sheds. */
const answers = `
429 | | | the node
503 | | overloaded | the node
503 | | rate_limited | the node
503 | ledger | internal_error | the node
503 | retry-after | | the node or a proxy
503 | | | no refusal
503 | | empty | no refusal
503 | | internal_error | no refusal
503 | ledger | health_check_failed | no refusal
502 | retry-after | | no refusal
500 | ledger | internal_error | no refusal
500 | | rate_limited | no refusal
408 | | | no refusal
200 | retry-after | | no refusal
`;

for (const [status = '', sent = '', code = '', expected] of rowsIn(answers)) {
  test(`${status} ${code} ${sent && `with ${sent}`}: ${expected}`, () => {
    const headers = { '': {}, ledger, 'retry-after': { 'retry-after': '1' } }[sent];
    const body = code === '' ? undefined : code === 'empty' ? '' : errorBody(code);
    const shedding = found(Number(status), headers, body);
    const by = shedding?.isOfNode === true ? 'the node' : 'the node or a proxy';
    assert.equal(shedding === undefined ? 'no refusal' : by, expected);
  });
}

const waits: readonly (readonly [string, number | undefined])[] = [
  ['0', 0],
  ['7', 7_000],
  ['999999999', 999_999_999_000],
  ['1000000000', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['soon', undefined],
  ['', undefined],
  ['Sun, 01 Mar 2026 12:00:30 GMT', 30_000],
  ['Sunday, 01-Mar-26 12:00:30 GMT', 30_000],
  ['Sun Mar  1 12:00:30 2026', 30_000],
  ['Sun, 01 Mar 2026 07:00:30 -0500', 30_000],
  ['Sun, 01 Mar 2026 11:00:00 GMT', 0],
  ['at Sun, 01 Mar 2026 12:00:30 GMT', undefined],
  [`Sun, 01 Mar 2026 12:00:30 GMT${' '.repeat(100_000)}`, undefined],
];

// A form without a zone is of GMT as well (RFC 9110 5.6.7), wherever the gateway runs.
process.env['TZ'] = 'Asia/Tokyo';

for (const [text, expected] of waits) {
  test(`Retry-After ${JSON.stringify(text.slice(0, 40))}: ${expected} ms`, () => {
    assert.equal(found(429, { 'retry-after': text })?.retryAfterMs, expected);
  });
}
