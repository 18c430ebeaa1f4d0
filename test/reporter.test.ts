// The reporter of `npm test`, on a run of its own.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from './support/temporary-folder.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const reporter = fileURLToPath(new URL('../scripts/test-reporter.ts', import.meta.url));

/** The output of a run of one test file, and its exit code. */
function run(t: TestContext, name: string, text: string) {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, name), text);
  // Inside a test run Node ignores another one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ['--test', `--test-reporter=${reporter}`, name];
  return spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
}

test('an error outside of all tests is shown with its file', (t) => {
  const { stdout, status } = run(
    t,
    'a.test.mjs',
    "import { test } from 'node:test'; test('that passes', () => {}); await Promise.reject(new Error('that ends the file'));",
  );

  assert.equal(status, 1);
  assert.match(stdout, /^a\.test\.mjs: .*that ends the file/m);
});

test('a run is a count, failures at once and whole, and the closing lines that CI reads', (t) => {
  const text = `
    const { test, suite } = require('node:test');
    test('that passes', () => {});
    test('that is left out', { skip: true }, () => {});
    suite('some', () => test('that fails', () => require('node:assert').equal('got this', 'wanted that')));
  `;
  const { stdout, status } = run(t, 'a.test.cjs', text);

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

// Node runs the hooks of a file once the tests that are registered so far have ended (nodejs/node 49059): what a later
// top-level await made for other tests would be gone.
test('no test file awaits a world behind its first test', () => {
  const late = globSync('test/**/*.test.ts', { cwd: root }).filter((name) => {
    const lines = readFileSync(join(root, name), 'utf8').split('\n');
    const first = lines.findIndex((line) => /^ {0,4}test\(/.test(line));
    return lines.slice(first).some((line) => /^(?:await |(?:const|let)\b(?!.*=>).*\bawait )/.test(line));
  });
  assert.deepEqual(late, []);
});
