import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { findShedding } from '../../../src/upstream/dispatch/classify.ts';
import { errorBody } from '../../support/error-body.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { rowsIn } from '../../support/tables.ts';

const epochMs = Date.parse('2026-03-01T12:00:00Z');
const ledger = Object.fromEntries(
  Object.entries(ledgerHeaders({ version: 900n })).map(([name, value]) => [name.toLowerCase(), value]),
);

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
