/** A start does not wait for unneeded modules or for compiled code. */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import type { Environment } from '../../src/commands/command.ts';
import type { FileConfig } from '../../src/config/schema/schema.ts';
import { configFile, oneUpstream } from '../config/config-file.ts';
import { fakeNode } from '../support/fake-node.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { binary, call, start } from './command-line.ts';

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

/** A gateway with workers, killed when it served: the folder of what was compiled, and what its processes printed. */
const killed = await (async () => {
  const node = await fakeNode({ after });
  const folder = temporaryFolder({ after });
  const listen = { host: '127.0.0.1', port: 0 };
  const sections = { upstreams: [{ name: 'a', url: node.url }], workers: 2, listen, operations: listen };
  const file = configFile({ after }, JSON.stringify(sections));
  const env = { PATH: process.env['PATH'], NODE_COMPILE_CACHE: folder };
  const args = ['--trace-pretenuring-statistics', binary, 'serve', '--config', file];
  const gateway = spawn(process.execPath, args, { env });
  let out = '';
  for await (const chunk of gateway.stdout) {
    out += String(chunk);
    if (out.includes('Clients:') && !gateway.killed) gateway.kill('SIGKILL');
  }
  return { folder, out };
})();

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

test('what was compiled is kept of a gateway that is killed as well, once for it and its workers', () => {
  const [version = '', ...others] = readdirSync(killed.folder);
  const kept = readdirSync(join(killed.folder, version), { withFileTypes: true });

  assert.deepEqual(others, []);
  assert.ok(kept.length > 100, `${kept.length} files`);
  assert.ok(kept.every((entry) => entry.isFile()));
});

test('neither a gateway nor its workers make objects in the old generation from the start on', () => {
  assert.match(killed.out, /^Clients:/m);
  // Of what loads before the flag is set V8 may report sites, without a decision.
  assert.doesNotMatch(killed.out, /pretenuring: .* tenured=[1-9]/);
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
  // As npm links it: the program must find its own folder, not that of the link.
  symlinkSync('bin/ledgergate.js', join(folder, 'ledgergate'));
  mkdirSync(join(folder, 'dist'));
  writeFileSync(join(folder, 'dist/main.js'), "process.stdout.write('started\\n');\n");
  return folder;
}

/** Its output. */
function run(folder: string, env: Readonly<Record<string, string>> = {}): string {
  const args = [join(folder, 'ledgergate')];
  return execFileSync(process.execPath, args, { encoding: 'utf8', env, timeout: 30_000 });
}

/** The effective config that `config` prints. */
async function effective(args: readonly string[], env: Environment = {}): Promise<FileConfig> {
  const { code, out, err } = await call(['config', ...args], env);
  assert.equal(code, 0, err);
  return parse(out) as FileConfig;
}

test('a flag beats its variable, which beats the file, which beats the default', async (t) => {
  const file = configFile(t, `${oneUpstream}listen: { port: 1000, host: 10.0.0.7 }\noperations: { port: 1001 }\n`);
  const env = { LEDGERGATE_PORT: '2000', LEDGERGATE_OPERATIONS_PORT: '2001' };

  const { listen, operations } = await effective([file, '--port', '3000'], env);

  assert.deepEqual(listen, { host: '10.0.0.7', port: 3000, basePath: '/v1', maxConnections: 10_000, fastPath: true });
  assert.deepEqual(operations, { host: '127.0.0.1', port: 2001, readyInOutage: true });
});

test('every config flag has a variable that does the same', async () => {
  const fleet = ['--upstream', 'http://a/v1', '--upstream', 'http://b/v1', '--archival', 'http://c/v1'];
  const rest =
    '--dialect aptos --chain-id 7 --host 10.0.0.7 --port 1 --operations-host ::1 --operations-port 2 --log-level warn --log-format text'.split(
      ' ',
    );
  const byFlag = await effective([...fleet, ...rest]);
  const byVariable = await effective([], {
    LEDGERGATE_UPSTREAM: 'http://a/v1, http://b/v1',
    LEDGERGATE_ARCHIVAL: 'http://c/v1',
    LEDGERGATE_DIALECT: 'aptos',
    LEDGERGATE_CHAIN_ID: '7',
    LEDGERGATE_HOST: '10.0.0.7',
    LEDGERGATE_PORT: '1',
    LEDGERGATE_OPERATIONS_HOST: '::1',
    LEDGERGATE_OPERATIONS_PORT: '2',
    LEDGERGATE_LOG_LEVEL: 'warn',
    LEDGERGATE_LOG_FORMAT: 'text',
  });

  assert.deepEqual(byVariable, byFlag);
  assert.deepEqual(byFlag.upstreams, [
    { name: 'upstream-1', url: 'http://a/v1', tier: 'full', weight: 1 },
    { name: 'upstream-2', url: 'http://b/v1', tier: 'full', weight: 1 },
    { name: 'archival-1', url: 'http://c/v1', tier: 'archival', weight: 1 },
  ]);
  assert.deepEqual([byFlag.dialect, byFlag.chainId], ['aptos', 7]);
});

test('LEDGERGATE_CONFIG names the file, --upstream replaces its fleet', async (t) => {
  const file = configFile(t, `${oneUpstream}dialect: aptos\n`);

  const { upstreams, dialect } = await effective(['--upstream', 'http://b/v1'], { LEDGERGATE_CONFIG: file });

  assert.deepEqual(upstreams, [{ name: 'upstream-1', url: 'http://b/v1', tier: 'full', weight: 1 }]);
  assert.equal(dialect, 'aptos');
});

for (const [what, env] of Object.entries({
  'an empty variable': { LEDGERGATE_PORT: '', LEDGERGATE_UPSTREAM: '' },
  'a variable of Kubernetes for a Service called ledgergate': {
    LEDGERGATE_PORT: 'tcp://10.96.0.7:8080',
    LEDGERGATE_PORT_8080_TCP: 'tcp://10.96.0.7:8080',
    LEDGERGATE_PORT_8080_TCP_PROTO: 'tcp',
    LEDGERGATE_SERVICE_HOST: '10.96.0.7',
    LEDGERGATE_SERVICE_PORT: '8080',
  },
})) {
  test(`${what} counts as not set`, async (t) => {
    const { code, out, err } = await call(['config', configFile(t, oneUpstream)], env);

    assert.deepEqual({ code, err }, { code: 0, err: '' });
    assert.match(out, /port: 8080/);
  });
}

for (const [command, env, code, err] of [
  [
    'config',
    { LEDGERGATE_PORT: '80 80' },
    2,
    'LEDGERGATE_PORT: listen.port: expected a whole number from 0 to 65535, got "80 80"',
  ],
  ['check', { LEDGERGATE_OFFLINE: 'maybe' }, 2, 'ledgergate: LEDGERGATE_OFFLINE: expected true or false, got "maybe"'],
  [
    'config',
    { LEDGERGATE_UPSTREAMS: 'http://b/v1' },
    0,
    'warning: LEDGERGATE_UPSTREAMS is not read by anything (did you mean "LEDGERGATE_UPSTREAM"?)',
  ],
] as const) {
  test(`a slip in ${Object.keys(env).join()} is reported by its name`, async (t) => {
    const outcome = await call([command, configFile(t, oneUpstream)], env);

    assert.deepEqual([outcome.code, outcome.err], [code, err]);
  });
}

test('config masks what came from ${ENV}, and prints warnings beside it', async (t) => {
  const text = 'upstreams: [{ name: a, url: "http://node/${KEY}/v1" }]\nupstream: { maxAttempts: 1 }\n';

  const { code, out, err } = await call(['config', configFile(t, text)], { KEY: 'hunter2' });

  assert.equal(code, 0);
  assert.match(out, /url: http:\/\/node\/\$\{KEY\}\/v1/);
  assert.ok(!out.includes('hunter2'));
  assert.match(err, /^warning: upstream\.maxAttempts is 1: .*$/);
});

test('exit codes are those of the contract: 0 fine, 2 bad usage, 2 bad config', async (t) => {
  const version = await start(t, ['--version']).ended;
  const usage = await start(t, ['serv']).ended;
  const file = configFile(t, 'dialekt: aptos\n');
  const config = await start(t, ['serve', '--config', file]).ended;

  assert.match(version.out, /^\d+\.\d+\.\d+\n$/);
  assert.equal(version.code, 0);
  assert.deepEqual(usage, { code: 2, out: '', err: 'ledgergate: unknown command "serv" (did you mean "serve"?)\n' });
  assert.deepEqual(config, {
    code: 2,
    out: '',
    err: `${file}:1:1: upstreams: is required\n${file}:1:1: dialekt: unknown key (did you mean "dialect"?)\n`,
  });
});

test('an old Node gets one line that names the required version', async (t) => {
  const old = findOldNode();
  if (old === undefined) {
    t.skip('there is no Node below 22.19 on this machine');
    return;
  }

  const { code, out, err } = await start(t, ['--version'], { node: old }).ended;

  assert.deepEqual({ code, out }, { code: 2, out: '' });
  assert.match(err, /^ledgergate needs Node 22\.19 or newer, and this is Node \d+\.\d+\.\d+ .*\n$/);
});

/** A Node on the PATH that is too old for the gateway. */
function findOldNode(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders
    .map((folder) => join(folder, 'node'))
    .find((node) => {
      try {
        const version = execFileSync(node, ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
        const [major = 0, minor = 0] = version.slice(1).split('.').map(Number);
        return major < 22 || (major === 22 && minor < 19);
      } catch {
        return false;
      }
    });
}
