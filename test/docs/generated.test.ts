import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { configurationMarkdown, schemaJson } from '../../scripts/generate-config-docs.ts';
import { metricsMarkdown } from '../../scripts/generate-metrics-docs.ts';
import { catalogue } from '../../scripts/metrics-catalogue.ts';
import { loadConfig } from '../../src/config/source/load.ts';

const path = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url));

test('config/schema.json is current (npm run generate)', () => {
  assert.equal(readFileSync(path('config/schema.json'), 'utf8'), schemaJson());
});

test('docs/configuration.md is current (npm run generate)', () => {
  assert.equal(readFileSync(path('docs/configuration.md'), 'utf8'), configurationMarkdown());
});

test('config/example.yaml is valid and names three nodes', () => {
  const { config, warnings } = loadConfig({ file: path('config/example.yaml') });

  assert.deepEqual(
    config.upstreams.map(({ name, tier }) => `${name} ${tier}`),
    ['full-a full', 'full-b full', 'archive archival'],
  );
  assert.deepEqual(warnings, []);
});

test('config/full.yaml is valid, and equals the defaults', () => {
  const full = loadConfig({ file: path('config/full.yaml') });
  const upstreams = { path: ['upstreams'], value: full.redacted.upstreams, origin: 'test' };
  const defaults = loadConfig({ preset: [upstreams] }).config;

  assert.deepEqual(full.config, defaults);
  assert.deepEqual(full.warnings, []);
});

test('config/full.yaml names every key of the schema, unset ones in comments', () => {
  const text = readFileSync(path('config/full.yaml'), 'utf8');
  const keys = new Set(JSON.stringify(JSON.parse(schemaJson())).match(/(?<="properties":\{|\},)"\w+"(?=:\{)/g));
  for (const word of ['items', 'additionalProperties']) keys.delete(`"${word}"`);

  const missing = [...keys]
    .map((key) => JSON.parse(key) as string)
    .filter((key) => !new RegExp(`\\b${key}:`).test(text));

  assert.ok(keys.size > 30, `${keys.size} keys were found`);
  assert.deepEqual(missing, []);
});

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
