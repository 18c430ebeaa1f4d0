/** Rooms import down only, and through doors (CONTRIBUTING.md): lint refuses each other step, and circles. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from './support/temporary-folder.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const oxlint = join(root, 'node_modules/oxlint/bin/oxlint');

interface Diagnostic {
  readonly code: string;
  readonly filename: string;
}

/** Lints made-up files, by path below a root of their own, under the project's rules. */
async function lint(t: TestContext, files: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const folder = temporaryFolder(t);
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

/** The rooms from top to bottom. */
const order = [
  'commands',
  'workers',
  'gateway',
  'proxy/operations',
  'proxy/routes',
  'proxy/http',
  'proxy/reads',
  'access',
  'cache',
  'upstream',
  'encode',
  'config',
  'metrics',
  'ledger',
];
/** Rooms that know nothing of one another. */
const neighbours: ReadonlySet<string> = new Set(['access', 'cache', 'upstream', 'encode']);
/** Sample nodes stand outside the gateway: they share its words, and commands start them. */
const rooms = [...order, 'sample'];

/** The rooms that `room` may import. */
function belowOf(room: string): readonly string[] {
  if (room === 'sample') return ['ledger'];
  if (room === 'metrics') return [];
  const below = order.slice(order.indexOf(room) + 1).filter((other) => !isNeighbour(room, other));
  return room === 'commands' ? [...below, 'sample'] : below;
}

function isNeighbour(room: string, other: string): boolean {
  return neighbours.has(room) && neighbours.has(other);
}

function importOf(path: string): string {
  return `import { leaf } from '${path}';\nexport const used = leaf;\n`;
}

/** The way from a folder below `src` up to `src`. */
function upFrom(folder: string): string {
  return '../'.repeat(folder.split('/').length);
}

function nameOf(room: string): string {
  return room.replace('/', '-');
}

/** The ways to import: a value, a type, on the way through, everything. */
const statements: readonly ((path: string) => string)[] = [
  importOf,
  (path) => `import type { Leaf } from '${path}';\nexport type Used = Leaf;\n`,
  (path) => `export { leaf } from '${path}';\n`,
  (path) => `export * from '${path}';\n`,
];

/** Files of `room` that import `file` of each target, in one way after another. */
function plant(room: string, name: string, targets: readonly string[], file: string) {
  return targets.map((target, index) => {
    const write = statements[index % statements.length];
    return [`src/${room}/${name}-${nameOf(target)}.ts`, write?.(`${upFrom(room)}${target}/${file}`) ?? ''];
  });
}

test('each room has a door', () => {
  assert.deepEqual(
    rooms.filter((room) => !existsSync(join(root, 'src', room, 'index.ts'))),
    [],
  );
});

for (const room of rooms) {
  const below = belowOf(room);
  const others = rooms.filter((other) => other !== room);

  test(`${room} imports the doors of ${below.join(', ') || 'no room'}, and nothing else`, async (t) => {
    const refused = [
      ...plant(
        room,
        'up',
        others.filter((other) => !below.includes(other)),
        'index.ts',
      ),
      ...plant(room, 'past', below, 'leaf.ts'),
      ...plant(room, 'deep', below, 'inner/index.ts'),
    ];
    const doors = Object.fromEntries(others.map((other) => [`src/${other}/index.ts`, leaf]));
    const files = { ...doors, ...Object.fromEntries([...refused, ...plant(room, 'down', below, 'index.ts')]) };
    // The planted doors are no matter of this test.
    const found = (await lint(t, files)).filter((line) => line.startsWith(`src/${room}/`));
    assert.deepEqual(found, refused.map(([path]) => `${path}: ${restricted}`).sort());
  });
}

test('the program enters by the commands alone', async (t) => {
  const door = { 'src/commands/index.ts': leaf, 'src/gateway/index.ts': leaf };
  assert.deepEqual(await lint(t, { ...door, 'src/main.ts': importOf('./commands/index.ts') }), []);
  for (const path of ['./commands/leaf.ts', './gateway/index.ts'])
    assert.deepEqual(await lint(t, { ...door, 'src/main.ts': importOf(path) }), [`src/main.ts: ${restricted}`]);
});

test('OpenTelemetry is imported by metrics/trace alone', async (t) => {
  const library = importOf('@opentelemetry/api');
  const planted = Object.fromEntries(
    [...rooms.map((room) => `src/${room}/telemetry.ts`), 'src/main.ts'].sort().map((path) => [path, library]),
  );
  const found = await lint(t, { ...planted, 'src/metrics/trace/tracer.ts': library });
  assert.deepEqual(
    found,
    Object.keys(planted).map((path) => `${path}: ${restricted}`),
  );
});

test('a path that takes a detour, or comes from a folder further down, is seen', async (t) => {
  const planted = {
    'src/cache/deep/leaf.ts': "export { leaf } from '../../upstream/leaf.ts';\n",
    'src/cache/detour.ts': "export { leaf } from './../upstream/leaf.ts';\n",
    'src/cache/later.ts': "export const later = () => import('../upstream/leaf.ts');\n",
    'src/proxy/routes/beside.ts': importOf('../reads/leaf.ts'),
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
    'src/gateway/a.ts': `import { b } from './b.ts';\nexport const a = (): number => b();\n`,
    'src/gateway/b.ts': `import { c } from './c.ts';\nexport const b = (): number => c();\n`,
    'src/gateway/c.ts': `import { a } from './a.ts';\nexport const c = (): number => a();\n`,
    'src/metrics/name.ts': `import type { Kind } from './kind.ts';\nexport interface Name {\n  readonly kind: Kind;\n}\n`,
    'src/metrics/kind.ts': `import type { Name } from './name.ts';\nexport interface Kind {\n  readonly name: Name;\n}\n`,
    'src/gateway/outside.ts': `import { a } from './a.ts';\nexport const outside = a;\n`,
  };
  const circle = Object.keys(files).filter((path) => !path.endsWith('outside.ts'));
  assert.deepEqual(await lint(t, files), circle.map((path) => `${path}: import(no-cycle)`).sort());
});
