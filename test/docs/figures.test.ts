// Figures of the production checklist are those of bench/RESULTS.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { repository } from './snippets.ts';

const read = (name: string): string => readFileSync(repository + name, 'utf8');

/** The one number that `pattern` finds. */
function numberIn(text: string, pattern: RegExp): number {
  const found = [...text.matchAll(new RegExp(pattern, 'gm'))].map(([, digits = '']) =>
    Number(digits.replaceAll(',', '')),
  );
  assert.equal(found.length, 1, String(pattern));
  return found[0] ?? Number.NaN;
}

/** The row of a part, up to its kB for each connection. */
const row = (part: string): RegExp => new RegExp(`^\\| ${part} \\| ([\\d.]+) kB`);

test('memory of a process and of its connections is what was measured', () => {
  const checklist = read('docs/production-checklist.md');
  const results = read('bench/RESULTS.md');
  const plain = numberIn(results, /a gateway needs (\d+) kB for each connection it allows/);
  const hostile = numberIn(results, /hostile ones can make it (\d+) kB/);
  const tls = numberIn(results, /\n\| TLS \|.* ([\d.]+) \|\n/);
  const withoutConnections = numberIn(results, /\n\| 10,000 \| idle, after one hit \| (\d+) \|/);

  assert.equal(numberIn(checklist, row('connections')), plain);
  assert.equal(numberIn(checklist, row('connections of hostile clients')), hostile);
  assert.equal(numberIn(checklist, row('the same with TLS')), Math.round(tls));
  assert.equal(numberIn(checklist, /\n\| the process \| \| ([\d.]+) GB \|/), Math.round(withoutConnections / 100) / 10);
});
