import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { sbom } from '../../scripts/sbom.ts';

const read = (name: string) => JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'));

test('npm run sbom lists what the package brings along, at the locked versions, and nothing of development', () => {
  const document = JSON.parse(sbom());
  const lock: Record<string, { dev?: boolean; version: string }> = read('package-lock.json').packages;
  const { name, version, dependencies, devDependencies } = read('package.json');
  const listed: { name: string; version: string }[] = document.components;
  const names = new Set(listed.map((component) => component.name));

  assert.deepEqual([document.bomFormat, document.specVersion], ['CycloneDX', '1.5']);
  assert.deepEqual([document.metadata.component.name, document.metadata.component.version], [name, version]);
  const locked = Object.entries(lock).filter(([path, { dev }]) => path !== '' && dev !== true);
  assert.deepEqual(
    listed.map((component) => `${component.name}@${component.version}`).sort(),
    locked.map(([path, entry]) => `${path.replace(/^.*node_modules\//, '')}@${entry.version}`).sort(),
  );
  for (const dependency of Object.keys(dependencies)) assert.ok(names.has(dependency), dependency);
  for (const tool of ['typescript', 'oxlint', 'prettier']) {
    assert.ok(tool in devDependencies && !names.has(tool), tool);
  }
});
