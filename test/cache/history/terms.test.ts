/** Terms of a ledger's history, as plain data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  continued,
  endedField,
  everyTerm,
  formatTerm,
  readTerms,
  segmentAt,
  type Term,
} from '../../../src/cache/history/terms.ts';

const root = 'ab'.repeat(32);

function termOf(id: string, version: bigint, bornMs = 5): Term {
  return { id, bornMs, checkpoint: { version, root }, before: [] };
}

test('a term is read as it was written, with the terms before it', () => {
  const child = continued(continued(termOf('aaaaaaaa', 100n), 'bbbbbbbb', 6), 'cccccccc', 7);
  const term = { ...child, checkpoint: { version: 2n ** 64n - 1n, root } };
  assert.deepEqual(readTerms({ cccccccc: formatTerm(term) }).open, [term]);
});

test('a text of another form is no term', () => {
  const text = formatTerm(termOf('aaaaaaaa', 100n));
  const wrong = {
    short: text,
    aaaaaaaax: text,
    xaaaaaaaa: text,
    AAAAAAAA: text,
    aaaaaaa1: `${text} `,
    aaaaaaa2: text.replace('100', '18446744073709551616'),
    aaaaaaa3: text.slice(0, -1),
    aaaaaaa4: text.toUpperCase(),
    aaaaaaa5: `${text} aaaaaaaa@x`,
    aaaaaaa6: `x${text}`,
    aaaaaaa7: `${text}${' aaaaaaaa@1'.repeat(65)}`,
    aaaaaaa8: '',
    'ended:aaaaaaa': '1',
    'ended:aaaaaaaaa': '1',
    'xended:aaaaaaaa': '1',
  };
  assert.deepEqual(readTerms(wrong), { open: [], ended: new Set() });
});

test('terms are read oldest first, of equals by name, and ended ones apart', () => {
  const fields = Object.fromEntries([
    ['aaaaaaaa', formatTerm(termOf('aaaaaaaa', 1n, 9))],
    ['cccccccc', formatTerm(termOf('cccccccc', 1n, 5))],
    ['bbbbbbbb', formatTerm(termOf('bbbbbbbb', 1n, 5))],
    ['dddddddd', formatTerm(termOf('dddddddd', 1n, 1))],
    [endedField('dddddddd'), '1'],
  ]);
  const backwards = Object.fromEntries(Object.entries(fields).reverse());
  assert.deepEqual(readTerms(backwards), readTerms(fields));
  const terms = readTerms(fields);
  assert.deepEqual(
    terms.open.map(({ id }) => id),
    ['bbbbbbbb', 'cccccccc', 'aaaaaaaa'],
  );
  assert.deepEqual(terms.ended, new Set(['dddddddd']));
  const all = ['aaaaaaaa', 'bbbbbbbb', 'cccccccc', 'dddddddd'];
  assert.deepEqual([...everyTerm(terms)].sort(), all);
  assert.deepEqual([...everyTerm(terms, termOf('eeeeeeee', 1n))].sort(), [...all, 'eeeeeeee']);
});

test('answers of a term without members are used up to its checkpoint and no further', () => {
  const child = continued(termOf('aaaaaaaa', 100n), 'bbbbbbbb', 6);
  assert.deepEqual(
    [0n, 99n, 100n, 101n, undefined].map((version) => segmentAt(child, version)),
    ['aaaaaaaa', 'aaaaaaaa', 'aaaaaaaa', 'bbbbbbbb', 'bbbbbbbb'],
  );
  const moved = { ...child, checkpoint: { version: 150n, root } };
  const third = continued(moved, 'cccccccc', 7);
  assert.deepEqual(
    [100n, 101n, 150n, 151n].map((version) => segmentAt(third, version)),
    ['aaaaaaaa', 'bbbbbbbb', 'bbbbbbbb', 'cccccccc'],
  );
  assert.deepEqual(everyTerm({ open: [third], ended: new Set() }), ['cccccccc', 'aaaaaaaa', 'bbbbbbbb']);
});

test('a term that never advanced leaves the terms before it unchanged', () => {
  const child = continued(termOf('aaaaaaaa', 100n), 'bbbbbbbb', 6);
  const third = continued(child, 'cccccccc', 7);
  assert.deepEqual(third.before, child.before);
});

test('a term keeps the names of 64 before it', () => {
  let term = termOf('00000000', 1n);
  for (let step = 1; step <= 70; step += 1) {
    const next = continued(term, String(step).padStart(8, '0'), step);
    term = { ...next, checkpoint: { version: BigInt(step * 10), root } };
  }
  assert.equal(term.before.length, 64);
  assert.deepEqual(readTerms({ [term.id]: formatTerm(term) }).open, [term]);
  // Versions of dropped names belong to the oldest that is left: they are read anew.
  assert.equal(segmentAt(term, 0n), term.before[0]?.id);
});
