import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { hurried } from '../../scripts/ops/rules.ts';
import { alertsFile, recordingRulesFile } from './rule-files.ts';

test('windows, offsets and waits are shorter, and nothing else differs', () => {
  const rules = 'expr: rate(a[5m]) > 0.1 unless a offset 1h and b[1d] > 3600 * c\nfor: 2m\nsummary: for 3 minutes';

  const expected =
    'expr: rate(a[10s]) > 0.1 unless a offset 120s and b[2880s] > 3600 * c\nfor: 4s\nsummary: for 3 minutes';
  assert.equal(hurried(rules, 30), expected);
});

test('in the rules that are shipped every time is found', () => {
  for (const file of [alertsFile, recordingRulesFile]) {
    const text = hurried(readFileSync(file, 'utf8'), 30);

    assert.doesNotMatch(text, /^\s*for: \d+[mhd]/m);
    assert.doesNotMatch(text, /\[\d+[mhd]\]|offset \d+[mhd]/);
  }
});
