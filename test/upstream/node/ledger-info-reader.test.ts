import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerInfoReader } from '../../../src/upstream/node/ledger-info-reader.ts';

const dialect = new Dialect('node');
const headers: Readonly<Record<string, string>> = {
  'x-node-chain-id': '1',
  'x-node-ledger-version': '9000',
  'x-node-ledger-oldest-version': '100',
  'x-node-ledger-timestampusec': '1700000000000000',
  'x-node-epoch': '7',
  'x-node-block-height': '90',
  'x-node-oldest-block-height': '1',
};

test('the same headers give the same object, whatever other headers a node sends', () => {
  const reader = new LedgerInfoReader();
  const info = reader.find({ ...headers, 'content-length': '1' }, dialect);
  assert.deepEqual(info, dialect.findInfo(headers));
  assert.equal(reader.find({ ...headers, 'content-length': '2' }, dialect), info);
});

for (const name of Object.keys(headers)) {
  test(`another ${name} is read anew, and none, or two, are no snapshot`, () => {
    const reader = new LedgerInfoReader();
    reader.find(headers, dialect);
    const other = { ...headers, [name]: '8' };
    assert.deepEqual(reader.find(other, dialect), dialect.findInfo(other));
    assert.equal(reader.find({ ...headers, [name]: undefined }, dialect), undefined);
    assert.equal(reader.find({ ...headers, [name]: ['1', '1'] }, dialect), undefined);
    assert.deepEqual(reader.find(headers, dialect), dialect.findInfo(headers));
  });
}
