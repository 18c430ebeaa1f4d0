import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { commands } from '../../src/commands/run-command.ts';
import { configFile, oneUpstream } from '../config/config-file.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { noPty, onPty } from '../support/pty.ts';
import { call } from './command-line.ts';

const node = await fakeNode({ after }, { oldest: 500n, head: 1_234_567n });
const gateway = await testGateway({ after }, { full: [node] });

/** A server that answers everything with this; returns its address. */
async function answering(t: TestContext, status: number, body: string): Promise<string> {
  const server = createServer((_request, response) => {
    response.statusCode = status;
    response.end(body);
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a table of what the gateway does, by address and by port', async () => {
  for (const args of [[gateway.operationsUrl], ['--operations-port', String(gateway.operationsPort)]]) {
    const { code, out, err } = await call(['status', ...args]);
    assert.deepEqual({ code, err }, { code: 0, err: '' });
    assert.match(out, /^READY All is well\.$/m);
    // Versions without spaces can be pasted into a request.
    assert.match(out, /^full-0 +● usable +1234567 +0 s +500 /m);
    assert.match(out, /^head 1234567 /m);
  }
  for (const version of [700, 700]) await gateway.get(`/accounts/0x1/module/coin?ledger_version=${version}`);
  const asked = await call(['status', gateway.operationsUrl]);
  assert.match(asked.out, /^ *LAST +RATE +NO NODE +HITS .*\n *10 s +\S+ +50\.0 % +50\.0 % /m);
  assert.match(asked.out, /^memory .* of .*, 1 reads; store off; Redis off$/m);
});

test('a problem is printed with its remedy', async (t) => {
  const node = await fakeNode(t);
  node.faults.add({ kind: 'unavailable' });
  const gateway = await testGateway(t, { full: [node] });

  const { code, out } = await call(['status', gateway.operationsUrl]);

  assert.equal(code, 0);
  assert.match(
    out,
    /^STARTING .*\n {2}- full-0 has not answered yet: error status; the runbook has a row for the reason$/m,
  );
});

test('--format json prints the facts in one line, and so does --json', async () => {
  for (const flags of [['--format', 'json'], ['--json']]) {
    const { code, out } = await call(['status', gateway.operationsUrl, ...flags]);

    assert.equal(code, 0);
    assert.equal(out.split('\n').length, 1);
    assert.equal((JSON.parse(out) as { ledger: { head: string } }).ledger.head, '1234567');
  }
});

test('no answer, another answer and another server are exit code 1 and one line', async (t) => {
  const gone = await answering(t, 200, '');
  for (const [url, why] of [
    [await answering(t, 404, '{}'), /answered 404$/],
    [await answering(t, 200, '<html>'), /is not the status of a gateway$/],
    [await answering(t, 200, '{"name":"other"}'), /is not the status of a gateway$/],
    [gone.replace(/\d+$/, '1'), /cannot be reached \(ECONNREFUSED\)$/],
  ] as const) {
    const { code, out, err } = await call(['status', url]);
    assert.deepEqual({ code, out }, { code: 1, out: '' });
    assert.match(err, why);
  }
});

test('an address by config needs no variable and no right value of another section', async (t) => {
  const operations = `operations: { port: ${gateway.operationsPort} }\n`;
  const file = configFile(t, `${operations}upstreams: [{ name: a, url: "\${UNSET_URL}" }]\nlisten: { prot: 1 }\n`);

  const { code, out } = await call(['status', '--config', file]);

  assert.equal(code, 0, out);
  assert.match(out, /^READY/m);
});

test('ready is exit code 0, by address, flag, variable and config file', async (t) => {
  const { port } = new URL(await answering(t, 200, '{}'));
  const file = configFile(t, `${oneUpstream}operations: { host: 0.0.0.0, port: ${port} }\n`);
  const ready = { code: 0, out: 'ready', err: '' };

  assert.deepEqual(await call(['health', `http://127.0.0.1:${port}`]), ready);
  assert.deepEqual(await call(['health', '--operations-port', port]), ready);
  assert.deepEqual(await call(['health'], { LEDGERGATE_OPERATIONS_PORT: port }), ready);
  assert.deepEqual(await call(['health', '--config', file]), ready);
  assert.deepEqual(await call(['health'], { LEDGERGATE_CONFIG: file }), ready);
});

test('not ready, and no answer, is exit code 1 with the reason', async (t) => {
  const { port } = new URL(await answering(t, 503, '{}'));

  assert.deepEqual(await call(['health', '--operations-port', port]), {
    code: 1,
    out: '',
    err: `not ready: http://127.0.0.1:${port}/readyz answered 503`,
  });
  const err = 'not ready: http://127.0.0.1:1/readyz cannot be reached (ECONNREFUSED)';
  assert.deepEqual(await call(['health', 'http://127.0.0.1:1']), { code: 1, out: '', err });
});

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
    'unknown command "statistics"; the commands are serve, check, config, sample, health, status, drain, resume, keys',
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
  ['status --format jsn', '--format: expected text or json, got "jsn" (did you mean "json"?)'],
  ['status ftp://x', 'status: expected a URL such as http://127.0.0.1:9090, got "ftp://x"'],
  ['status --watch', 'status: unknown flag --watch'],
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
