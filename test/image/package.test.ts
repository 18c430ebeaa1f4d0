/** `npm pack` gives a package that runs wherever it is installed, on every Node that it is for. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { installMs, isOffline, root, runPolitely, temporaryFolder } from '../support/dockerfile.ts';
import { assertRuns, nodeVersions, withoutNode } from '../support/runs.ts';

const folder = temporaryFolder('npm');
const installed = join(folder, 'installed');
let offline: string | false = false;

/** From a copy, so that packing leaves the checkout as it is; `prepack` builds. */
function pack(): string {
  const copy = join(folder, 'copy');
  mkdirSync(copy);
  const names = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'src', 'bin', 'config'];
  for (const name of [...names, 'README.md', 'CHANGELOG.md', 'LICENSE', '.npmrc']) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  runPolitely('npm', ['pack', '--loglevel=error', '--pack-destination', folder], { cwd: copy, into: folder });
  return join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '');
}

before(
  () => {
    const tarball = pack();
    mkdirSync(installed);
    const args = ['install', tarball, '--omit=dev', '--no-audit', '--no-fund', '--loglevel=error'];
    try {
      runPolitely('npm', args, { cwd: installed, into: folder });
    } catch (error) {
      if (!isOffline(error)) throw error;
      offline = 'NOT INSTALLED: npm cannot reach its registry';
    }
  },
  { timeout: installMs },
);

for (const version of nodeVersions) {
  test(`the package from npm pack serves on ${version.name}`, { skip: withoutNode(version) }, async (t) => {
    if (offline !== false) {
      t.skip(offline);
      return;
    }
    assert.ok(version.node !== undefined, `${version.name} is required in CI (npm run tools)`);
    const script = join(installed, 'node_modules/.bin/ledgergate');

    await assertRuns(t, { node: version.node, script, health: [script, 'health'], cwd: installed });
  });
}

test('it brings what it needs, and neither sources nor anything of development', (t) => {
  if (offline !== false) {
    t.skip(offline);
    return;
  }
  const own = join(installed, 'node_modules/ledgergate');

  assert.deepEqual(
    // The compile cache lies beside it.
    readdirSync(own)
      .filter((name) => name !== '.compile-cache')
      .sort(),
    ['CHANGELOG.md', 'LICENSE', 'README.md', 'bin', 'config', 'dist', 'package.json'].sort(),
  );
  assert.ok(existsSync(join(installed, 'node_modules/fastify')));
  assert.ok(!existsSync(join(installed, 'node_modules/typescript')));
});
