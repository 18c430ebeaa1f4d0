/** Spellings collected from the outside (test/vectors/canonical), put through the parsers of the routes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { keyOf, readModule, readResource, readTransaction, readView } from '../../support/reads.ts';

type Kind = 'address' | 'struct_tag' | 'module' | 'view' | 'hash' | 'ledger_version';

type Vector = { readonly kind: Kind; readonly note?: string } & (
  | { readonly same: boolean; readonly a: string; readonly b: string }
  | { readonly refused: true; readonly status: number; readonly text: string }
);

const file = new URL('../../vectors/canonical/canonical.json', import.meta.url);
const vectors = JSON.parse(readFileSync(file, 'utf8')) as readonly Vector[];
const account = '0x1::account::Account';

/** Every key that the text has a part in: an address stands in two routes, a version in three. */
const keysOf: Readonly<Record<Kind, (text: string) => string[]>> = {
  address: (text) => [keyOf(readResource(text, account)), keyOf(readModule(text, 'coin'))],
  struct_tag: (text) => [keyOf(readResource('0x1', text))],
  module: (text) => {
    const [address = '', name = ''] = text.split('/');
    return [keyOf(readModule(address, name))];
  },
  view: (text) => [keyOf(readView(text))],
  hash: (text) => [keyOf(readTransaction(text))],
  ledger_version: (text) => {
    const query = `?ledger_version=${encodeURIComponent(text)}`;
    const view = '{"function":"0x1::m::f","type_arguments":[],"arguments":[]}';
    return [
      keyOf(readResource('0x1', account, { query })),
      keyOf(readModule('0x1', 'coin', { query })),
      keyOf(readView(view, { query })),
    ];
  },
};

test('the vectors are all here', () => {
  assert.equal(vectors.length, 64);
});

for (const [index, vector] of vectors.entries()) {
  const { kind, note } = vector;
  const place = `vector ${index + 1}, ${kind}${note === undefined ? '' : ` (${note})`}`;
  if ('refused' in vector) {
    test(`${place}: ${JSON.stringify(vector.text)} is refused with ${vector.status}`, () => {
      assert.throws(
        () => keysOf[kind](vector.text),
        (error) => error instanceof GatewayError && error.status === vector.status,
      );
    });
  } else {
    const claim = vector.same ? 'have one key' : 'have keys of their own';
    test(`${place}: ${JSON.stringify(vector.a)} and ${JSON.stringify(vector.b)} ${claim}`, () => {
      const [a, b] = [keysOf[kind](vector.a), keysOf[kind](vector.b)];
      for (const [at, key] of a.entries()) assert.equal(key === b[at], vector.same, `${key} and ${b[at]}`);
    });
  }
}
