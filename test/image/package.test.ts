/** `npm pack` gives a package that runs wherever it is installed, on every Node that it is for. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { after, before, test } from 'node:test';
import { sbom } from '../../scripts/sbom.ts';
import { installMs, isOffline, root, runPolitely } from '../support/dockerfile.ts';
import { assertPrints, assertRuns, nodeVersions, withoutNode } from '../support/runs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const folder = temporaryFolder({ after });
const installed = join(folder, 'installed');
let offline: string | false = false;

/** From a copy, so that packing leaves the checkout as it is; `prepack` builds. */
function pack(): string {
  const copy = join(folder, 'copy');
  mkdirSync(copy);
  const names = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'src', 'bin', 'config', 'examples', 'docs'];
  const documents = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'LICENSE', 'bench/RESULTS.md'];
  for (const name of [...names, ...documents, 'helm', '.npmrc']) {
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

    const commands = { node: version.node, script, health: [script, 'health'], cwd: installed };
    if (version.node === process.execPath) await assertPrints(t, commands);
    await assertRuns(t, commands);
  });
}

test('it brings what it needs, and neither sources nor anything of development', (t) => {
  if (offline !== false) {
    t.skip(offline);
    return;
  }
  const own = join(installed, 'node_modules/ledgergate');

  const folders = 'bench bin config dist docs examples helm';
  assert.equal(
    // The compile cache lies beside it.
    readdirSync(own)
      .filter((name) => name !== '.compile-cache')
      .sort()
      .join(' '),
    `CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md ${folders} package.json`,
  );
  assert.ok(existsSync(join(installed, 'node_modules/fastify')));
  assert.ok(!existsSync(join(installed, 'node_modules/typescript')));
});

test('links of the README and of the pages that it leads to are in the package, but for those to sources', (t) => {
  if (offline !== false) {
    t.skip(offline);
    return;
  }
  const own = join(installed, 'node_modules/ledgergate');
  const docs = readdirSync(join(own, 'docs')).filter((name) => name.endsWith('.md'));
  const pages = ['README.md', ...docs.map((name) => `docs/${name}`)];
  const links = pages.flatMap((page) => {
    const text = readFileSync(join(own, page), 'utf8').replaceAll(/^```.*?^```|`[^`\n]*`/gms, '');
    const found = text.matchAll(/\]\((?![a-z]+:)([^)#\s]+)/g);
    return [...found].map(([, target = '']) => normalize(join(dirname(page), target)));
  });

  const needed = links.filter((path) => !/^(?:test|src)\//.test(path));
  assert.ok(needed.length > 50);
  assert.deepEqual(
    [...new Set(needed)].filter((path) => !existsSync(join(own, path))),
    [],
  );
});

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
