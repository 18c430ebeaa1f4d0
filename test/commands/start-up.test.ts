/** A start does not wait for unneeded modules or for compiled code. */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { fakeNode } from '../support/fake-node.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Serves until it says where, and tells which of Node's modules and of the packages' files are loaded by then. */
const listing = `
  import { createRequire } from 'node:module';
  import { runCommand } from './src/commands/run-command.ts';
  const terminal = {
    env: {},
    out: (line) => {
      if (!line.startsWith('Clients:')) return;
      const files = Object.keys(createRequire(import.meta.url).cache);
      process.stdout.write(JSON.stringify([...process.moduleLoadList, ...files]), () => process.exit());
    },
    error: (line) => process.stderr.write(line),
    stopSignal: () => new AbortController().signal,
    onHangUp: () => undefined,
  };
  await runCommand(process.argv.slice(1), terminal);
`;

test('a start without Redis and without a file loads nothing for them, nor what else serves nothing', async (t) => {
  const node = await fakeNode(t);
  const run = ['--input-type=module', '--eval', listing, '--', 'serve', '--upstream', node.url];

  const { stdout } = await promisify(execFile)(process.execPath, [...run, '--port', '0', '--operations-port', '0'], {
    cwd: root,
    env: { PATH: process.env['PATH'] },
    timeout: 30_000,
    maxBuffer: 16 * 1024 * 1024,
  });
  const loaded = JSON.parse(stdout) as readonly string[];

  const packages = /\/node_modules\/(ioredis|yaml|ajv|@fastify\/ajv-compiler)\//;
  assert.ok(loaded.some((name) => name.includes('/node_modules/fastify/')));
  assert.deepEqual(
    loaded.filter((name) => packages.test(name)),
    [],
  );
  // The HTTP client that Node brings along, by way of an import of node:http.
  assert.ok(!loaded.includes('NativeModule internal/deps/undici/undici'));
});

test('what was compiled is kept beside the code for the next start', (t) => {
  const folder = builtPackage(t);

  assert.equal(run(folder), 'started\n');

  assert.notDeepEqual(readdirSync(join(folder, '.compile-cache'), { recursive: true }), []);
});

test('what was compiled is kept of a gateway that is killed as well', async (t) => {
  const node = await fakeNode(t);
  const folder = temporaryFolder(t);
  const args = ['serve', '--upstream', node.url, '--port', '0', '--operations-port', '0'];
  const env = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: folder };
  const gateway = spawn(process.execPath, [join(root, 'bin/ledgergate.js'), ...args], { env });

  for await (const chunk of gateway.stdout) if (String(chunk).includes('Clients:')) gateway.kill('SIGKILL');

  const kept = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  assert.ok(kept.length > 100, `${kept.length} files`);
});

test('a start does without where nothing can be kept, or where that is not wanted', (t) => {
  const [unwritable, unwanted] = [builtPackage(t), builtPackage(t)];
  writeFileSync(join(unwritable, '.compile-cache'), 'no folder');

  assert.equal(run(unwritable), 'started\n');
  assert.equal(run(unwanted, { NODE_DISABLE_COMPILE_CACHE: '1' }), 'started\n');

  assert.ok(!existsSync(join(unwanted, '.compile-cache')));
});

/** The package's way to its program, and a program that says that it is reached. */
function builtPackage(t: TestContext): string {
  const folder = temporaryFolder(t);
  for (const name of ['bin', 'package.json']) cpSync(join(root, name), join(folder, name), { recursive: true });
  mkdirSync(join(folder, 'dist'));
  writeFileSync(join(folder, 'dist/main.js'), "process.stdout.write('started\\n');\n");
  return folder;
}

/** Its output. */
function run(folder: string, env: Readonly<Record<string, string>> = {}): string {
  const args = [join(folder, 'bin/ledgergate.js')];
  return execFileSync(process.execPath, args, { encoding: 'utf8', env, timeout: 30_000 });
}
