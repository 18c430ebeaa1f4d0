// The errors that docs/upgrade.md shows for keys that the version does not have.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordFormat } from '../../src/cache/record.ts';
import { loadConfig } from '../../src/config/source/load.ts';
import { ConfigError } from '../../src/config/source/problem.ts';
import { repository, snippetsOf } from './snippets.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('keys that a version does not have are refused in the words of the guide', (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'ledgergate.yaml');
  const node = '  - { name: full-a, url: "http://10.0.0.1:8080/v1", role: archival }';
  writeFileSync(file, `upstreams:\n${node}\nupstream:\n  probe_interval: 2s\n`);
  const shown = snippetsOf('docs/upgrade.md').find(({ language }) => language === 'text')?.text;

  assert.throws(
    () => loadConfig({ file, env: {} }),
    (error: unknown) => {
      assert.ok(error instanceof ConfigError);
      const lines = error.problems.map((problem) => ConfigError.format(problem).replace(`${folder}/`, ''));
      assert.equal(`${lines.join('\n')}\n`, shown);
      return true;
    },
  );
});

test('one form of entries in Redis is part of every name', () => {
  assert.ok(readFileSync(`${repository}docs/upgrade.md`, 'utf8').includes(`\`lg:${recordFormat}:…\``));
});
