// The reporter of `npm test`, on a run of its own.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from './support/temporary-folder.ts';

const reporter = fileURLToPath(new URL('../scripts/test-reporter.ts', import.meta.url));

test('a run is a count, failures at once and whole, and the closing lines that CI reads', (t) => {
  const folder = temporaryFolder(t);
  const text = `
    const { test, suite } = require('node:test');
    test('that passes', () => {});
    test('that is left out', { skip: true }, () => {});
    suite('some', () => test('that fails', () => require('node:assert').equal('got this', 'wanted that')));
  `;
  writeFileSync(join(folder, 'a.test.cjs'), text);

  // Inside a test run Node ignores another one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ['--test', `--test-reporter=${reporter}`, 'a.test.cjs'];
  const { stdout, status } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });

  assert.equal(status, 1);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines[0], '✖ that fails (a.test.cjs:5)');
  assert.ok(
    lines.some((line) => /^3 tests, 1 failed, \d+ s$/.test(line)),
    stdout,
  );
  assert.match(stdout, /'got this' == 'wanted that'\n +at /);
  assert.match(stdout, /a\.test\.cjs:5/);
  assert.doesNotMatch(stdout, /that passes|that is left out/);
  const closing = lines.slice(-8).map((line) => line.replace(/ [\d.]+$/, ''));
  assert.deepEqual(
    closing,
    ['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo', 'duration_ms'].map((word) => `ℹ ${word}`),
  );
  assert.ok(
    ['ℹ tests 3', 'ℹ pass 1', 'ℹ fail 1'].every((line) => lines.includes(line)),
    stdout,
  );
});
