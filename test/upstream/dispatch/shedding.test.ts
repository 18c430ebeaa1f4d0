import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { findShedding } from '../../../src/upstream/dispatch/classify.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const epochMs = Date.parse('2026-03-01T12:00:00Z');
const ledger = Object.fromEntries(
  Object.entries(ledgerHeaders({ version: 900n })).map(([name, value]) => [name.toLowerCase(), value]),
);

function error(code: string): string {
  return JSON.stringify({ message: 'm', error_code: code, vm_error_code: null });
}

/** Without `text`: the body was not read. */
function found(status: number, headers: Record<string, string> = {}, text?: string) {
  const info = new Dialect('node').findInfo(headers);
  const body = text === undefined ? undefined : Buffer.from(text);
  return findShedding(
    { status, headers, info, ...(body !== undefined && { body, json: new JsonBody(body) }) },
    epochMs,
  );
}

const rows = [
  { what: '429', status: 429, isOfNode: true },
  { what: '503 overloaded', status: 503, body: error('overloaded'), isOfNode: true },
  { what: '503 rate_limited', status: 503, body: error('rate_limited'), isOfNode: true },
  { what: '503 with ledger headers', status: 503, headers: ledger, body: error('internal_error'), isOfNode: true },
  { what: '503 with Retry-After', status: 503, headers: { 'retry-after': '1' }, isOfNode: false },
  { what: '503 alone', status: 503, isOfNode: undefined },
  { what: '503 with an empty body', status: 503, body: '', isOfNode: undefined },
  { what: '503 of a node that starts', status: 503, body: error('internal_error'), isOfNode: undefined },
  {
    what: '503 health_check_failed with ledger headers',
    status: 503,
    headers: ledger,
    body: error('health_check_failed'),
    isOfNode: undefined,
  },
  { what: '502 with Retry-After', status: 502, headers: { 'retry-after': '1' }, isOfNode: undefined },
  { what: '500 with ledger headers', status: 500, headers: ledger, body: error('internal_error'), isOfNode: undefined },
  { what: '500 rate_limited of the mempool', status: 500, body: error('rate_limited'), isOfNode: undefined },
  { what: '408', status: 408, isOfNode: undefined },
  { what: '200 with Retry-After', status: 200, headers: { 'retry-after': '1' }, isOfNode: undefined },
];

for (const { what, status, headers, body, isOfNode } of rows) {
  test(`${what}: ${isOfNode === undefined ? 'no refusal' : isOfNode ? 'the node' : 'the node or a proxy'}`, () => {
    assert.equal(found(status, headers, body)?.isOfNode, isOfNode);
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
