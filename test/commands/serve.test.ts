import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { listenProblem } from '../../src/commands/run-gateway.ts';
import { loadConfig } from '../../src/config/source/load.ts';
import { ConfigError } from '../../src/config/source/problem.ts';
import { configFile } from '../config/config-file.ts';
import { eventually, until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway, statusesOf } from '../support/gateway.ts';
import { call, start } from './command-line.ts';

/** For tests that change nothing of it. */
const node = await fakeNode({ after });

const free = [
  ['--host', '127.0.0.1'],
  ['--port', '0'],
  ['--operations-port', '0'],
  ['--log-level', 'silent'],
] as const;
const freePorts = ['--host', '127.0.0.1', '--port', '0', '--operations-port', '0', '--log-level', 'warn'];

test('serve --upstream prints where it listens, logs a SIGHUP as it has no file, serves, and ends with 0 on SIGTERM', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });
  const gateway = start(t, ['serve', '--upstream', node.url, ...freePorts]);
  const [, base = ''] = await gateway.line(/^Clients: +(\S+) \(listening on 127\.0\.0\.1, port \d+\)$/);
  const [, operations = ''] = await gateway.line(/^Operations: +(\S+) /);

  gateway.process.kill('SIGHUP');
  await gateway.line(/SIGHUP: there is no config file to read again/);
  const reply = await fetch(base);
  const ready = await fetch(`${operations}/readyz`);
  gateway.process.kill('SIGTERM');
  const { code, out } = await gateway.ended;

  assert.equal(reply.headers.get('x-node-ledger-version'), '900');
  assert.equal(ready.status, 200);
  assert.equal(code, 0);
  assert.match(out, new RegExp(`^upstream-1 +${node.url} +full +1 +500 +900 +0 +usable$`, 'm'));
});

test('without a command, the environment is enough: a container needs no arguments', async (t) => {
  const node = await fakeNode(t, { dialect: 'aptos', head: 900n });
  const env = {
    LEDGERGATE_UPSTREAM: node.url,
    LEDGERGATE_DIALECT: 'aptos',
    LEDGERGATE_HOST: '127.0.0.1',
    LEDGERGATE_PORT: '0',
    LEDGERGATE_OPERATIONS_PORT: '0',
    LEDGERGATE_LOG_LEVEL: 'warn',
  };
  const gateway = start(t, [], { env });
  const [, base = ''] = await gateway.line(/^Clients: +(\S+) /);

  const reply = await fetch(base);
  gateway.process.kill('SIGINT');

  assert.equal(reply.headers.get('x-aptos-ledger-version'), '900');
  assert.equal((await gateway.ended).code, 0);
});

test('a second signal ends at once, whatever is in flight', async (t) => {
  const node = await fakeNode(t, {});
  const gateway = start(t, ['serve', '--upstream', node.url, ...freePorts]);
  const [, base = ''] = await gateway.line(/^Clients: +(\S+) /);
  node.faults.add({ kind: 'hang' }, { when: ({ url }) => url.includes('/accounts/') });
  const held = fetch(`${base}/accounts/0x1`).catch(() => 'cut');
  await node.log.next(({ url }) => url.includes('/accounts/'));

  gateway.process.kill('SIGTERM');
  await gateway.line(/^Stopping/);
  // npm and service managers send one signal twice: for 0.3 s a second one counts as the first.
  await until(() => gateway.process.exitCode !== null || !gateway.process.kill('SIGTERM'));

  assert.equal((await gateway.ended).code, 1);
  assert.equal(await held, 'cut');
});

for (const [flag, key] of [
  ['--port', 'listen.port'],
  ['--operations-port', 'operations.port'],
] as const) {
  test(`a port in use is one line with its number, ${key} and the remedy, and exit code 2`, async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    t.after(() => taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const ports = new Map([...free, [flag, String(port)]]);

    const { code, err } = await call(['serve', '--upstream', node.url, ...[...ports].flat()]);

    assert.equal(code, 2);
    const hint = `which "ss -ltnp sport = :${port}" names; stop it, or choose another port, 0 for a free one`;
    const variable = `LEDGERGATE${flag.slice(1).toUpperCase().replaceAll('-', '_')}`;
    assert.equal(
      err,
      `${flag}: ${key}: port ${port} of 127.0.0.1 is in use by another process, ${hint} (or by ${flag}, ${variable})`,
    );
  });
}

// 192.0.2.1 is of no machine (RFC 5737), and nothing answers for names below .invalid (RFC 2606).
for (const [section, host, message] of [
  ['listen', '192.0.2.1', /cannot listen on port 0 of 192\.0\.2\.1: no such address on this machine/],
  ['operations', '192.0.2.1', /cannot listen on port 0 of 192\.0\.2\.1: no such address on this machine/],
  ['operations', 'no.invalid', /cannot listen on port 0 of no\.invalid: the name has no address/],
] as const) {
  test(`the address ${host} of ${section} is reported at its place in the file`, async (t) => {
    const other = section === 'listen' ? 'operations' : 'listen';
    const file = configFile(
      t,
      `${section}: { host: ${host}, port: 0 }\n${other}: { host: 127.0.0.1, port: 0 }\nupstreams: [{ name: a, url: "${node.url}" }]\nlog: { level: silent }\n`,
    );

    const { code, err } = await call(['serve', file]);

    assert.equal(code, 2);
    const line = err.split('\n').find((text) => !text.startsWith('warning')) ?? '';
    assert.ok(line.startsWith(`${file}:1:${section.length + 11}: ${section}.host: `), err);
    assert.match(line, message);
  });
}

test('a port without permission names the privilege', () => {
  const loaded = loadConfig({
    given: new Map([['upstream', { values: ['http://a/v1'], origin: '' }]]),
  });
  // A test cannot count on being refused a port: it may run as root.
  const refused = Object.assign(new Error('listen EACCES'), { code: 'EACCES', syscall: 'listen', port: 8080 });

  const problem = listenProblem(refused, loaded);

  assert.ok(problem instanceof ConfigError);
  assert.match(
    problem.message,
    /^listen\.port: no permission to listen on port 8080 of 0\.0\.0\.0: .*CAP_NET_BIND_SERVICE/,
  );
});

test('a file is served with its warnings printed, and its secrets masked', async (t) => {
  const file = configFile(
    t,
    `upstreams: [{ name: a, url: "\${NODE}" }]\nupstream: { maxAttempts: 1 }\nlog: { level: warn }\nlisten: { host: 127.0.0.1 }\n`,
  );
  const env = { NODE: node.url };
  const gateway = start(t, ['serve', '--config', file, '--port', '0', '--operations-port', '0'], { env });
  await gateway.line(/^Operations/);
  gateway.process.kill('SIGTERM');
  const { code, out, err } = await gateway.ended;

  assert.equal(code, 0);
  assert.match(err, /^warning: upstream\.maxAttempts is 1: /m);
  assert.match(out, /^a +\$\{NODE\} +full /m);
  assert.ok(!`${out}${err}`.includes(node.url), `${out}${err}`);
});

const textWith = (level: string) => `upstreams: [{ name: a, url: "${node.url}" }]\nlog: { level: ${level} }\n`;

test('flags stay above the file when it is read again', async (t) => {
  const file = configFile(t, textWith('error'));
  const gateway = start(t, ['serve', '--config', file, ...freePorts]);
  const [, operations = ''] = await gateway.line(/^Operations: +(\S+) /);

  writeFileSync(file, `${textWith('silent')}latest: { maxStaleness: 1s }\nlisten: { port: 1 }\n`);

  const { reload } = await eventually(
    async () => (await (await fetch(`${operations}/readyz`)).json()) as { reload?: Record<string, unknown> },
    (ready) => ready.reload !== undefined,
  );
  assert.deepEqual([reload?.['result'], reload?.['needsRestart']], ['applied', []]);
});

test('a node is drained and resumed by name, and the status names it', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t), await fakeNode(t)] });
  const port = ['--operations-port', String(gateway.operationsPort)];

  const drained = await call(['drain', 'full-1', ...port]);
  const status = await call(['status', ...port]);
  const resumed = await call(['resume', 'full-1', ...port]);

  assert.deepEqual(drained, { code: 0, out: 'full-1 is drained; requests in flight: 0', err: '' });
  assert.match(status.out, /^full-1 +○ drained /m);
  assert.deepEqual(resumed, { code: 0, out: 'full-1 is resumed', err: '' });
  assert.match((await call(['status', ...port])).out, /^READY /m);
  const unknown = await call(['drain', 'a/b', ...port]);
  assert.equal(unknown.code, 1);
  assert.match(unknown.err, /answered 404: no upstream of the config has this name$/);
});

test('a config gives the address and the token', async (t) => {
  const token = 'a-token-of-the-operators';
  const node = await fakeNode(t);
  const gateway = await testGateway(t, { full: [node], config: { operations: { token } } });
  const file = configFile(
    t,
    JSON.stringify({
      operations: { host: '127.0.0.1', port: gateway.operationsPort, token },
      upstreams: [{ name: 'full-0', url: node.url }],
    }),
  );

  const refused = await call(['drain', 'full-0', '--operations-port', String(gateway.operationsPort)]);
  const drained = await call(['drain', 'full-0', '--config', file]);

  assert.equal(refused.code, 1);
  assert.match(refused.err, /answered 401: this needs the header/);
  assert.deepEqual(drained, { code: 0, out: 'full-0 is drained; requests in flight: 0', err: '' });
});

/** A printed line as a POSIX shell splits it, sent by fetch: not every machine has curl. */
async function run(command: string): Promise<Response> {
  const shell = `curl() { for word in "$@"; do printf '%s\\n' "$word"; done; }\n${command}`;
  const words = execFileSync('/bin/sh', ['-c', shell], { encoding: 'utf8' }).trimEnd().split('\n');
  const after = (flag: string): string | undefined =>
    words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined;
  const [name, value] = after('-H')?.split(': ') ?? [];
  const body = after('-d');
  return fetch(words.find((word) => word.startsWith('http')) ?? '', {
    ...(body === undefined ? {} : { method: 'POST', body }),
    ...(name === undefined || value === undefined ? {} : { headers: { [name]: value } }),
  });
}

const anyPorts = { LEDGERGATE_PORT: '0', LEDGERGATE_OPERATIONS_PORT: '0' };

test('without arguments the sample fleet is served under a clear banner, and every printed curl line works', async (t) => {
  const gateway = start(t, [], { env: anyPorts });
  const lines = [/^curl .*::account::Account/, /^curl .*::Probe/, /^curl .*\/view/, /^curl .*encode_submission/];
  const commands = await Promise.all(lines.map(async (pattern) => (await gateway.line(pattern)).input));

  const twice = commands[0] ?? '';
  const replies = [await run(twice), await run(twice), ...(await Promise.all(commands.slice(1).map(run)))];
  gateway.process.kill('SIGTERM');
  const { code, out } = await gateway.ended;

  assert.deepEqual(statusesOf(replies), [200, 200, 200, 200, 200]);
  assert.match(replies[0]?.headers.get('cache-status') ?? '', /fwd=miss/);
  assert.match(replies[1]?.headers.get('cache-status') ?? '', /hit/);
  assert.match(replies[2]?.headers.get('cache-status') ?? '', /detail=sample-archival/);
  assert.equal(code, 0);
  assert.match(out, /^No command was given: serving the built-in SAMPLE fleet/);
  assert.match(out, /^SAMPLE NODES, NOT A REAL LEDGER/m);
  // For this machine alone.
  assert.match(out, /^Clients: .* \(listening on 127\.0\.0\.1, /m);
  assert.match(out, /^sample-full +http:\S+ +full +1 +\d+ +\d+ +\d+ +usable$/m);
  assert.match(out, /^sample-archival +http:\S+ +archival +1 +0 +\d+ +\d+ +usable$/m);
});

test('the sample gateway listens where a flag or a variable names a host', async (t) => {
  const listening = /listening on ([\d.]+), port \d+/;
  const runs = [
    start(t, ['sample', '--host', '0.0.0.0'], { env: anyPorts }),
    start(t, [], { env: { ...anyPorts, LEDGERGATE_HOST: '127.0.0.2' } }),
  ];

  const hosts = await Promise.all(runs.map(async (run) => (await run.line(listening))[1]));

  assert.deepEqual(hosts, ['0.0.0.0', '127.0.0.2']);
});
