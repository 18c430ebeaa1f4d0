import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { flags } from '../../src/commands/flags.ts';
import { commands } from '../../src/commands/run-command.ts';
import { configSchema } from '../../src/config/schema/schema.ts';
import { configFile } from '../config/config-file.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { noPty, onPty } from '../support/pty.ts';
import { call } from './command-line.ts';

test('--version, -v and version print the version of the package', async () => {
  const manifest = new URL('../../package.json', import.meta.url);
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };

  for (const word of ['--version', '-v', 'version']) {
    assert.deepEqual(await call([word]), { code: 0, out: version, err: '' });
  }
});

test('--help names every command, and each command its flags with their variables', async () => {
  const overview = await call(['--help']);

  assert.equal(overview.code, 0);
  for (const { name, flags } of commands) {
    assert.ok(overview.out.includes(`  ${name} `), name);
    const help = await call([name, '--help']);
    assert.equal(help.code, 0);
    for (const flag of flags) {
      assert.ok(help.out.includes(`--${flag}`), `${name} --${flag}`);
      assert.ok(help.out.includes(`LEDGERGATE_${flag.toUpperCase().replaceAll('-', '_')}`), `${name} --${flag}`);
    }
  }
});

test('help is --help, of the program and of a command', async () => {
  const [overview, ofServe] = [await call(['--help']), await call(['serve', '--help'])];

  assert.deepEqual([await call(['help']), await call(['-h'])], [overview, overview]);
  assert.deepEqual(await call(['help', 'serve']), ofServe);
  assert.match((await call(['help', 'serv'])).err, /unknown command "serv" \(did you mean "serve"\?\)/);
});

const misuses: readonly (readonly [line: string, message: string])[] = [
  ['serv', 'unknown command "serv" (did you mean "serve"?)'],
  [
    'statistics',
    'unknown command "statistics"; the commands are serve, check, config, sample, health, status, drain, resume, keys, completion',
  ],
  ['--port 1', 'expected a command before --port, as in: ledgergate serve FILE'],
  ['--versoin', 'expected a command before --versoin (did you mean "--version"?)'],
  ['serve', 'serve needs a config FILE or --upstream URL; see ledgergate serve --help'],
  ['serve a b', 'serve: unexpected argument "b"'],
  ['serve a --config b', 'serve: give the file once: as a or by --config'],
  ['serve --prot 1', 'serve: unknown flag --prot (did you mean "--port"?)'],
  ['serve -p 1', 'serve: unknown flag -p'],
  ['serve --no-port', 'serve: unknown flag --no-port (did you mean "--port"?)'],
  ['serve --port', 'serve: --port needs a value: --port N'],
  ['serve --port --host x', 'serve: --port needs a value: --port N'],
  ['serve --port=', 'serve: --port needs a value: --port N'],
  ['serve --port 1 --port 2', 'serve: --port is given twice'],
  ['check --offline=yes x', 'check: --offline takes no value'],
  ['check --format yaml x', '--format: expected text or json, got "yaml"'],
  ['check --format jsn x', '--format: expected text or json, got "jsn" (did you mean "json"?)'],
  ['check a b', 'check: unexpected argument "b"'],
  ['check a --config b', 'check: give the file once: as a or by --config'],
  ['config', 'config needs a config FILE or --upstream URL; see ledgergate config --help'],
  ['helpp', 'unknown command "helpp" (did you mean "help"?)'],
  ['completion', 'completion: expected bash, zsh or fish'],
  ['completion fishh', 'completion: expected bash, zsh or fish, got "fishh" (did you mean "fish"?)'],
  ['status --format jsn', '--format: expected text or json, got "jsn" (did you mean "json"?)'],
  ['keys', 'keys: expected create, list or revoke'],
  ['keys creat', 'keys: expected create, list or revoke, got "creat" (did you mean "create"?)'],
  ['keys list', 'keys list: --file, --config or --url is needed; see ledgergate keys --help'],
  ['keys create --file x', 'keys create: --name is needed; see ledgergate keys --help'],
  ['sample --upstream http://n/v1', 'sample: unknown flag --upstream'],
  ['health ftp://x', 'health: expected a URL such as http://127.0.0.1:9090, got "ftp://x"'],
  ['drain', 'drain needs the NAME of a node, as `ledgergate status` lists them: ledgergate drain full-a'],
  ['resume', 'resume needs the NAME of a node, as `ledgergate status` lists them: ledgergate resume full-a'],
  ['health --operations-port 0', '--operations-port: expected a port that can be asked, got "0"'],
];

for (const [line, message] of misuses) {
  test(`misuse is one line and exit code 2: ${line}`, async () => {
    assert.deepEqual(await call(line.split(' ')), { code: 2, out: '', err: `ledgergate: ${message}` });
  });
}

test('a wrong value is reported before a missing config', async () => {
  assert.deepEqual(await call(['serve', '--port', 'abc', '--chain-id', 'mainet']), {
    code: 2,
    out: '',
    err: [
      '--port: listen.port: expected a whole number from 0 to 65535, got "abc"',
      '--chain-id: chainId: expected a whole number from 1 to 255, "mainnet" or "testnet", got "mainet" (did you mean "mainnet"?)',
    ].join('\n'),
  });
});

test('a wrong value is reported under the name of its flag', async () => {
  const { code, err } = await call(['config', '--upstream', 'http://n/v1', '--port', 'abc', '--log-level', 'inf']);

  assert.equal(code, 2);
  assert.deepEqual(err.split('\n'), [
    '--port: listen.port: expected a whole number from 0 to 65535, got "abc"',
    '--log-level: log.level: expected "trace", "debug", "info", "warn", "error", "fatal" or "silent", got "inf" (did you mean "info"?)',
  ]);
});

// Completion of shells: bash by its own machinery, the others by the words of their scripts.

/** The proposals of bash for the last of these words. */
async function proposals(...words: readonly string[]): Promise<readonly string[]> {
  const { out } = await call(['completion', 'bash']);
  const ask = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ledgergate; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr, status } = spawnSync('bash', ['-c', `${out}\n${ask}`, 'bash', 'ledgergate', ...words], {
    encoding: 'utf8',
  });
  assert.deepEqual([status, stderr], [0, '']);
  return stdout.split('\n').filter((word) => word !== '');
}

test('bash completes commands, flags, actions and values', async () => {
  assert.deepEqual(await proposals('s'), ['serve', 'sample', 'status']);
  assert.deepEqual(await proposals('status', '--f'), ['--format']);
  assert.deepEqual(await proposals('status', '--format', ''), ['text', 'json']);
  assert.deepEqual(await proposals('serve', '--log-level', 'w'), ['warn']);
  assert.deepEqual(await proposals('keys', ''), ['create', 'list', 'revoke']);
  assert.deepEqual(await proposals('completion', ''), ['bash', 'zsh', 'fish']);
  assert.deepEqual(await proposals('help', 'dr'), ['drain']);
  // Nothing of its own: the shell proposes files.
  assert.deepEqual(await proposals('serve', ''), []);
  assert.deepEqual(await proposals('serve', '--config', ''), []);
});

for (const shell of ['bash', 'zsh', 'fish']) {
  test(`the script for ${shell} has every command with each of its flags`, async () => {
    const { code, out } = await call(['completion', shell]);

    assert.equal(code, 0);
    // A shell that is not installed gives no status.
    const { status, stderr } = spawnSync(shell, ['-n', '-c', out], { encoding: 'utf8' });
    assert.ok(status === null || status === 0, stderr);
    for (const command of commands) {
      assert.match(out, new RegExp(`\\b${command.name}\\b`));
      for (const flag of command.flags) {
        const pattern = shell === 'fish' ? `from ${command.name}' -l ${flag} ` : `${command.name}\\)[^;]*--${flag}\\b`;
        assert.match(out, new RegExp(pattern), `${command.name} --${flag}`);
      }
    }
  });
}

test('a shell proposes the words that the config takes', () => {
  const { dialect, log } = configSchema.parse({ upstreams: [{ name: 'a', url: 'http://a' }] });
  const words: Readonly<Record<string, string>> = { dialect, 'log-level': log.level, 'log-format': log.format };
  for (const [flag, word] of Object.entries(words)) {
    const { proposed } = flags[flag as 'dialect'];
    assert.ok((proposed as readonly string[]).includes(word), flag);
    for (const one of proposed) {
      const file = flag === 'dialect' ? { dialect: one } : { log: { [flag.slice(4)]: one } };
      assert.ok(configSchema.safeParse({ upstreams: [{ name: 'a', url: 'http://a' }], ...file }).success, one);
    }
  }
});

// A person starts a gateway on a terminal.

const cwd = fileURLToPath(new URL('../..', import.meta.url));
const freePorts = '--host 127.0.0.1 --port 0 --operations-port 0';
const isGone = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => false,
    () => true,
  );

test('Ctrl-C on npm start finishes what is in flight', { skip: noPty }, async (t) => {
  const node = await fakeNode(t, {});
  const terminal = onPty(t, `npm start -- serve --upstream ${node.url} ${freePorts}`, { cwd });
  const [, base = ''] = await terminal.output(/^Clients: +(\S+) /m);
  const release = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: release.promise }, { when: ({ url }) => url.includes('/accounts/') });
  const reply = fetch(`${base}/accounts/0x1`, { headers: { connection: 'close' } });
  await node.log.next(({ url }) => url.includes('/accounts/'));

  terminal.type('\x03');
  await terminal.output(/^(?:\^C)?Stopping/m);
  release.resolve();

  assert.equal((await reply).status, 200);
  await until(() => isGone(base));
});

for (const workers of [1, 2]) {
  test(
    `a gateway of npm start ends with its terminal (workers: ${workers}), which shows the log as text`,
    { skip: noPty },
    async (t) => {
      const node = await fakeNode(t, {});
      node.faults.add({ kind: 'unavailable' });
      const file = configFile(t, `workers: ${workers}\nupstreams: [{ name: a, url: "${node.url}" }]\n`);
      const terminal = onPty(t, `npm start -- serve ${file} ${freePorts}`, { cwd });
      const [, base = ''] = await terminal.output(/^Clients: +(\S+) /m);
      const [, operations = ''] = await terminal.output(/^Operations: +(\S+) /m);
      await terminal.output(/^\d\d:\d\d:\d\d\.\d{3} WARN {2}upstream is down {2}(?:worker=\d {2})?upstream=a {2}/m);

      terminal.close();

      await until(() => isGone(base));
      await until(() => isGone(operations));
    },
  );
}
