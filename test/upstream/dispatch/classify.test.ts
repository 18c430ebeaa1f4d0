/** Classes of answers: status x `error_code` x need; and answers by which a node sheds requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import type { Need } from '../../../src/upstream/select/ranking.ts';
import { classifyAnswer, errorCodeOf, findShedding } from '../../../src/upstream/dispatch/classify.ts';
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

/** The body of an error code and its message, `code: message`; else the text itself, or none. */
function bodyIn(text: string): string {
  if (text === 'empty') return '';
  const [, code, message] = /^(?!null$)([a-z_]+)(?:: (.*))?$/.exec(text) ?? [];
  return code === undefined ? text : errorBody(code, message);
}

/** Status, body, and the classes for a read at a version, of the head, of a transaction and a block; one word is all alike. */
const classes = `
200 | <html> | final
202 | <html> | final
206 | <html> | final
302 | empty | final
400 | invalid_input | final
400 | web_framework_error | final
401 | unauthorized | final
403 | api_disabled | refused
403 | invalid_input | final
403 | empty | final
403 | <html> | final
403 | null | final
403 | {"error_code":5} | final
404 | resource_not_found | final
404 | module_not_found | final
404 | account_not_found | final
404 | web_framework_error | final
404 | version_not_found | behind final final final
404 | transaction_not_found | behind final absent final
404 | block_not_found | behind final final behind
404 | empty | final final absent final
404 | <html> | final final absent final
404 | null | final final absent final
404 | {"error_code":5} | final final absent final
404 | \x1f\x8b | final final absent final
405 | web_framework_error | final
408 | web_framework_error | failed
410 | version_pruned | pruned
410 | block_pruned | pruned
410 | something_new | pruned
410 | empty | pruned
410 | <html> | pruned
413 | web_framework_error | final
429 | rate_limited | failed
500 | internal_error | failed
500 | internal_error: Transaction at version 5 is pruned, min available version is 100. | pruned failed pruned pruned
500 | internal_error: State at version 5 has been pruned. | pruned failed pruned pruned
500 | internal_error: Ledger version(5) has been pruned | pruned failed pruned pruned
500 | internal_error: Block(17) has been pruned | pruned failed pruned pruned
500 | internal_error: StateValue at version 5 is pruned. snapshots are available at >= 100 | pruned failed pruned pruned
500 | internal_error: unprunedness | failed
500 | internal_error: Function 0x1::pruned::T failed | failed
500 | internal_error: Struct 0x1::version::is_pruned not found at version 5 | failed
500 | internal_error: version 5 of 0x1::has::been_pruned | failed
500 | <html>pruned | failed
500 | {"message":"pruned"} | failed
500 | {"message":["version 5 has been pruned"],"error_code":"internal_error"} | failed
500 | "pruned" | failed
500 | null | failed
500 | {"error_code":5} | failed
500 | <html> | failed
500 | empty | failed
501 | internal_error | failed
502 | internal_error | failed
503 | internal_error | failed
503 | internal_error: pruned | failed
503 | health_check_failed | failed
503 | empty | failed
503 | <html> | failed
503 | null | failed
503 | {"error_code":5} | failed
504 | internal_error | failed
507 | mempool_is_full | final
599 | internal_error | failed
`;

for (const [status, text = '', expected = ''] of rowsIn(classes)) {
  test(`${status} ${text}: ${expected}`, () => {
    const needs: readonly Need[] = [version, head, transaction, { kind: 'block', height: 5n }];
    const found = needs.map((need) => classifyAnswer(answer(Number(status), bodyIn(text)), need));
    assert.equal(new Set(found).size === 1 ? found[0] : found.join(' '), expected);
  });
}

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
  const found = ['health_check_failed', 'overloaded', 'empty'].map((text) =>
    classifyAnswer(answer(503, bodyIn(text)), head, true),
  );
  assert.deepEqual(found, ['final', 'failed', 'failed']);
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
