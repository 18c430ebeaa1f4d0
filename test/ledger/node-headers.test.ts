import assert from 'node:assert/strict';
import { test } from 'node:test';
import { familyText } from '../../src/ledger/node-headers.ts';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { fc } from '../support/fast-check.ts';

const node = new Dialect('node');

const fields = fc
  .dictionary(fc.stringMatching(/^[a-z\d-]{1,20}$/), fc.stringMatching(/^[ -~]{0,40}$/), {
    maxKeys: familyText.mostFields,
  })
  .map((record) => new Map(Object.entries(record).map(([name, value]) => [`x-node-${name}`, value])))
  .filter((map) => ![...map.keys()].some((name) => node.known.has(name)));

test('headers are read back from their text, in one order and under the names of either dialect', () => {
  fc.assert(
    fc.property(fields, (given) => {
      const text = familyText.of(given, node);
      assert.equal(text, familyText.of(new Map([...given].reverse()), node));
      if (text === undefined) return assert.equal(given.size, 0);
      assert.ok(familyText.isValid(text));
      const list = familyText.list(text, new Dialect('aptos'), new Set());
      const pairs = list.flatMap((name, at) =>
        at % 2 === 0 ? [[name.replace('x-aptos-', 'x-node-'), list[at + 1]]] : [],
      );
      assert.deepEqual(new Map(pairs as [string, string][]), given);
      return undefined;
    }),
  );
});

test('names that are ledger-wide now are left out of the list', () => {
  assert.deepEqual(familyText.list('a: 1\tb: 2', node, new Set(['x-node-a'])), ['x-node-b', '2']);
});
