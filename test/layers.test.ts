/** Imports point down only (architecture, section 2): lint refuses each step upwards, sideways, or in a circle. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const oxlint = join(root, 'node_modules/oxlint/bin/oxlint');

interface Diagnostic {
  readonly code: string;
  readonly filename: string;
}

/** Lints made-up files, by path below a root of their own, under the project's rules. */
async function lint(t: TestContext, files: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-layers-'));
  t.after(() => rmSync(folder, { recursive: true }));
  copyFileSync(join(root, '.oxlintrc.json'), join(folder, '.oxlintrc.json'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const report = await new Promise<string>((resolve) => {
    execFile(process.execPath, [oxlint, '--format=json', 'src'], { cwd: folder }, (_error, stdout) => resolve(stdout));
  });
  const { diagnostics } = JSON.parse(report) as { readonly diagnostics: readonly Diagnostic[] };
  return diagnostics.map(({ code, filename }) => `${filename}: ${code}`).sort();
}

const restricted = 'eslint(no-restricted-imports)';
const leaf = "export const leaf = 'leaf';\n";
const above = ['gateway', 'main', 'workers', 'commands', 'proxy'];

const below = ['access', 'cache', 'upstream', 'encode'];

/** The folders that each folder must not import. */
const forbidden: Readonly<Record<string, readonly string[]>> = {
  ledger: [...above, 'access', 'cache', 'upstream', 'encode', 'config', 'metrics', 'sample', 'trace'],
  cache: [...above, 'access', 'upstream', 'encode', 'config', 'sample'],
  upstream: [...above, 'access', 'cache', 'encode', 'config', 'sample'],
  access: [...above, 'cache', 'upstream', 'encode', 'config', 'sample'],
  encode: [...above, 'access', 'cache', 'upstream', 'config', 'metrics', 'sample', 'trace'],
  metrics: [...above, 'access', 'cache', 'upstream', 'encode', 'config', 'ledger', 'sample', 'trace'],
  trace: [...above, 'access', 'cache', 'upstream', 'encode', 'config', 'ledger', 'sample', 'metrics'],
  config: [...above, 'access', 'cache', 'upstream', 'encode', 'metrics', 'sample', 'trace'],
  sample: [...above, 'access', 'cache', 'upstream', 'encode', 'config', 'metrics', 'trace'],
  'proxy/operations/status': [...above.filter((folder) => folder !== 'proxy'), ...below, 'config', 'sample', 'trace'],
  proxy: ['gateway', 'main', 'workers', 'commands', 'config', 'sample'],
  gateway: ['main', 'workers', 'commands', 'sample'],
  workers: ['main', 'commands', 'sample'],
};

function importOf(path: string): string {
  return `import { leaf } from '${path}';\nexport const used = leaf;\n`;
}

/** The way from a folder below `src` up to `src`. */
function upFrom(folder: string): string {
  return '../'.repeat(folder.split('/').length);
}

/** The ways to import: a value, a type, on the way through, everything. */
const statements: readonly ((path: string) => string)[] = [
  importOf,
  (path) => `import type { Leaf } from '${path}';\nexport type Used = Leaf;\n`,
  (path) => `export { leaf } from '${path}';\n`,
  (path) => `export * from '${path}';\n`,
];

for (const [folder, targets] of Object.entries(forbidden)) {
  test(`${folder} imports none of ${targets.join(', ')}`, async (t) => {
    const planted = Object.fromEntries(
      targets.map((target, index) => {
        const path = `${upFrom(folder)}${target === 'main' ? 'main.ts' : `${target}/leaf.ts`}`;
        return [`src/${folder}/to-${target}.ts`, statements[index % statements.length]?.(path) ?? ''];
      }),
    );
    const found = await lint(t, planted);
    assert.deepEqual(
      found,
      Object.keys(planted)
        .map((path) => `${path}: ${restricted}`)
        .sort(),
    );
  });
}

test('OpenTelemetry is imported by trace alone', async (t) => {
  const library = importOf('@opentelemetry/api');
  const folders = [...Object.keys(forbidden), 'commands'].filter((folder) => folder !== 'trace');
  const planted = Object.fromEntries(
    [
      ...folders.map((folder) => `src/${folder}/telemetry.ts`),
      'src/main.ts',
      'src/gateway/gateway.ts',
      'src/workers/workers.ts',
    ]
      .sort()
      .map((path) => [path, library]),
  );
  const found = await lint(t, { ...planted, 'src/trace/tracer.ts': library });
  assert.deepEqual(
    found,
    Object.keys(planted).map((path) => `${path}: ${restricted}`),
  );
});

test('every way to write an import is seen', async (t) => {
  const planted = Object.fromEntries(
    statements.map((write, index) => [`src/cache/way-${index}.ts`, write('../upstream/leaf.ts')]),
  );
  assert.deepEqual(
    await lint(t, planted),
    Object.keys(planted).map((path) => `${path}: ${restricted}`),
  );
});

test('a path that takes a detour, or comes from a folder further down, is seen', async (t) => {
  const planted = {
    'src/cache/deep/leaf.ts': "export { leaf } from '../../upstream/leaf.ts';\n",
    'src/cache/detour.ts': "export { leaf } from './../upstream/leaf.ts';\n",
    'src/cache/later.ts': "export const later = () => import('../upstream/leaf.ts');\n",
  };
  assert.deepEqual(
    await lint(t, planted),
    Object.keys(planted).map((path) => `${path}: ${restricted}`),
  );
});

test('files that import one another in a circle are refused, types included', async (t) => {
  const files = {
    'src/cache/one.ts': `import { two } from './two.ts';\nexport const one = (): number => two();\n`,
    'src/cache/two.ts': `import { one } from './one.ts';\nexport const two = (): number => one();\n`,
    'src/proxy/a.ts': `import { b } from './b.ts';\nexport const a = (): number => b();\n`,
    'src/proxy/b.ts': `import { c } from './c.ts';\nexport const b = (): number => c();\n`,
    'src/proxy/c.ts': `import { a } from './a.ts';\nexport const c = (): number => a();\n`,
    'src/trace/name.ts': `import type { Kind } from './kind.ts';\nexport interface Name {\n  readonly kind: Kind;\n}\n`,
    'src/trace/kind.ts': `import type { Name } from './name.ts';\nexport interface Kind {\n  readonly name: Name;\n}\n`,
    'src/proxy/outside.ts': `import { a } from './a.ts';\nexport const outside = a;\n`,
  };
  const values = ['src/cache/one.ts', 'src/cache/two.ts', 'src/proxy/a.ts', 'src/proxy/b.ts', 'src/proxy/c.ts'];
  const circle = [...values, 'src/trace/kind.ts', 'src/trace/name.ts'];
  assert.deepEqual(
    await lint(t, files),
    circle.map((path) => `${path}: import(no-cycle)`),
  );
});

test('imports that point down are taken', async (t) => {
  const files: Record<string, string> = {
    'src/main.ts': importOf('./gateway/gateway.ts'),
    'src/gateway/gateway.ts': leaf,
  };
  for (const folder of Object.keys(forbidden)) files[`src/${folder}/leaf.ts`] = leaf;
  for (const folder of ['cache', 'upstream', 'encode', 'access', 'proxy', 'proxy/operations/status', 'config']) {
    files[`src/${folder}/down.ts`] = importOf(`${upFrom(folder)}ledger/leaf.ts`);
  }
  for (const folder of ['cache', 'upstream', 'access', 'encode', 'metrics', 'ledger', 'trace']) {
    files[`src/proxy/to-${folder}.ts`] = importOf(`../${folder}/leaf.ts`);
  }
  assert.deepEqual(await lint(t, files), []);
});
