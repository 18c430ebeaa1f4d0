import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  familyFields,
  isFamilyText,
  listOfText,
  mostFamilyBytes,
  mostFamilyFields,
  textOfFields,
} from '../../src/ledger/node-headers.ts';
import { dialectOf, type HeaderValues } from '../../src/ledger/ledger-headers.ts';
import { fc } from '../support/fast-check.ts';
import { ledgerHeaders } from '../support/ledger-info.ts';

const node = dialectOf('node');

const listed = (headers: HeaderValues, secret?: HeaderValues): unknown => {
  const { fields, cut } = familyFields(headers, node, secret);
  return [Object.fromEntries(fields), cut];
};

test('the family of an answer is all of its prefix without a known meaning', () => {
  const known = Object.fromEntries(
    Object.entries(ledgerHeaders({ version: 9n })).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const others = { 'content-type': 'a', 'x-aptos-new': '1', 'x-nodes': '2', 'x-anything': '3' };
  const ofAnswer = { 'x-node-gas-used': '7', 'x-node-cursor': 'ab' };
  assert.deepEqual(listed({ ...known, ...ofAnswer, ...others }), [{}, []]);
  assert.deepEqual(listed({ ...known, 'x-node-new': 'a b', ...ofAnswer }), [{ 'x-node-new': 'a b' }, []]);
});

test('a repeated header is one list; headers of one hop and credentials are none of the family', () => {
  assert.deepEqual(listed({ 'x-node-a': ['1', '2'], 'x-node-b': undefined }), [{ 'x-node-a': '1, 2' }, []]);
  const hop = { connection: 'close, X-Node-A', 'x-node-a': '1', 'x-node-b': '2' };
  assert.deepEqual(listed(hop), [{ 'x-node-b': '2' }, []]);
  assert.deepEqual(listed({ 'x-node-a': 'k', 'x-node-b': '2' }, { 'x-node-a': 'k' }), [{ 'x-node-b': '2' }, []]);
});

test('headers beyond the bounds or of other characters are cut', () => {
  const many = Object.fromEntries(Array.from({ length: mostFamilyFields + 1 }, (_, at) => [`x-node-${at}`, 'v']));
  assert.equal(familyFields(many, node).fields.size, mostFamilyFields);
  assert.deepEqual(familyFields(many, node).cut, [`x-node-${mostFamilyFields}`]);
  const longest = 'v'.repeat(mostFamilyBytes - 'x-node-a'.length);
  assert.deepEqual(listed({ 'x-node-a': longest }), [{ 'x-node-a': longest }, []]);
  assert.deepEqual(listed({ 'x-node-a': `${longest}v`, 'x-node-b': 'w' }), [{ 'x-node-b': 'w' }, ['x-node-a']]);
  for (const value of ['\u00e9', 'a\tb', 'a\r\nb: c', '\u0000'])
    assert.deepEqual(listed({ 'x-node-a': value }), [{}, ['x-node-a']]);
  assert.deepEqual(listed({ 'x-node-a_b': 'v' }), [{}, ['x-node-a_b']]);
});

const fields = fc
  .dictionary(fc.stringMatching(/^[a-z\d-]{1,20}$/), fc.stringMatching(/^[ -~]{0,40}$/), { maxKeys: mostFamilyFields })
  .map((record) => new Map(Object.entries(record).map(([name, value]) => [`x-node-${name}`, value])))
  .filter((map) => ![...map.keys()].some((name) => node.known.has(name)));

test('headers are read back from their text, in one order and under the names of either dialect', () => {
  fc.assert(
    fc.property(fields, (given) => {
      const text = textOfFields(given, node);
      assert.equal(text, textOfFields(new Map([...given].reverse()), node));
      if (text === undefined) return assert.equal(given.size, 0);
      assert.ok(isFamilyText(text));
      const list = listOfText(text, dialectOf('aptos'), new Set());
      const pairs = list.flatMap((name, at) =>
        at % 2 === 0 ? [[name.replace('x-aptos-', 'x-node-'), list[at + 1]]] : [],
      );
      assert.deepEqual(new Map(pairs as [string, string][]), given);
      return undefined;
    }),
  );
});

test('names that are ledger-wide now are left out of the list', () => {
  assert.deepEqual(listOfText('a: 1\tb: 2', node, new Set(['x-node-a'])), ['x-node-b', '2']);
});
