import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { metricsMarkdown } from '../../scripts/generate-metrics-docs.ts';
import { catalogue } from '../../scripts/metrics-catalogue.ts';

const families = catalogue().flatMap(({ families }) => families);
const own = families.filter(({ name }) => name.startsWith('ledgergate_'));

test('docs/metrics.md is current (npm run generate)', () => {
  const path = fileURLToPath(new URL('../../docs/metrics.md', import.meta.url));
  assert.equal(readFileSync(path, 'utf8'), metricsMarkdown());
});

test('counters alone end in _total; measured values end in their unit', () => {
  for (const { name, type } of own) assert.equal(name.endsWith('_total'), type === 'counter', name);
  const histograms = own.filter(({ type }) => type === 'histogram');
  assert.ok(histograms.length >= 5);
  for (const { name } of histograms) assert.match(name, /_(?:seconds|bytes|versions)$/);
});

test('help texts are sentences', () => {
  for (const { name, help } of own) assert.match(help, /^[0-9A-Z].*\.$/s, name);
});

test('every name is one family in OpenMetrics, too', () => {
  const names = families.map(({ name }) => name.replace(/_total$/, ''));
  assert.equal(new Set(names).size, names.length);
});
