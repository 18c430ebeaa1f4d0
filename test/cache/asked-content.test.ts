/** Successes that are of the read that was asked, and others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isContentOf, type AskedRead } from '../../src/cache/asked-content.ts';
import { JsonBody } from '../../src/ledger/answer-body.ts';
import { ledgerVersion } from '../../src/ledger/version.ts';

const hash = `0x${'ab'.repeat(32)}`;
const error = '{"message":"m","error_code":"internal_error","vm_error_code":null}';
const version = ledgerVersion(600n);

function read(operation: AskedRead['operation'], extent?: AskedRead['extent']): AskedRead {
  return { operation, subject: operation === 'transaction' ? hash : '', form: 'json', version, extent };
}

const block = { kind: 'block', height: 60n } as const;
const others: AskedRead['operation'][] = ['resource', 'module', 'account', 'transaction', 'by_version', 'block'];
const arrays: AskedRead['operation'][] = ['view', 'modules', 'resources', 'transactions', 'auxiliary_info', 'events'];

const rows: readonly (readonly [AskedRead, string, boolean])[] = [
  ...others.flatMap((operation) => [
    [read(operation), '{"new":1}', true] as const,
    [read(operation), '[]', false] as const,
    [read(operation), 'null', false] as const,
    [read(operation), '5', false] as const,
    [read(operation), error, false] as const,
  ]),
  ...arrays.flatMap((operation) => [
    [read(operation), '[]', true] as const,
    [read(operation), '{}', false] as const,
    [read(operation), 'null', false] as const,
    [read(operation), error, false] as const,
  ]),
  [read('balance'), '18446744073709551615', true],
  [read('balance'), '[]', false],
  [read('balance'), error, false],
  ...['null', '5', '[]', '{}', '"text"', '{"message":"m"}', '{"message":"m","error_code":"c","more":1}'].map(
    (value) => [read('table_item'), value, true] as const,
  ),
  [read('table_item'), '{"message":1,"error_code":"c"}', true],
  [read('table_item'), error, false],
  [read('transaction'), `{"hash":"${hash.toUpperCase().replace('X', 'x')}"}`, true],
  [read('transaction'), `{"hash":"${hash.replace('b', 'c')}"}`, false],
  [read('transaction'), '{"hash":"0x5"}', true],
  [read('by_version'), '{"version":"600"}', true],
  [read('by_version'), '{"version":"601"}', false],
  [read('block', block), '{"block_height":"60"}', true],
  [read('block', block), '{"block_height":"61"}', false],
  [read('block_by_version', block), '{"first_version":"600","last_version":"600"}', true],
  [read('block_by_version', block), '{"first_version":"601","last_version":"609"}', false],
  [read('block_by_version', block), '{"first_version":"590","last_version":"599"}', false],
  [read('resource'), `{"type":"${'a'.repeat(1024 * 1024)}`, true],
];

for (const [asked, text, isOfRead] of rows) {
  test(`${text.slice(0, 70)} ${isOfRead ? 'may answer' : 'answers no'} ${asked.operation}`, () => {
    assert.equal(isContentOf(asked, new JsonBody(Buffer.from(text))), isOfRead);
  });
}
