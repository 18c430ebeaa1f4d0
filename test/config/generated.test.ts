import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { configurationMarkdown, schemaJson } from '../../scripts/generate-config-docs.ts';
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
