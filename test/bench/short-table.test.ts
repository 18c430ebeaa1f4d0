/** The README shows what the benchmarks wrote last. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { withTable } from '../../bench/support/short-table.ts';

test('the table of the README is that of bench/short.json', () => {
  const readme = readFileSync('README.md', 'utf8');
  assert.equal(withTable(readme), readme);
});
