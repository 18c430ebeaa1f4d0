import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { configFile } from '../config/config-file.ts';
import { eventually } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { start } from './command-line.ts';

const freePorts = ['--host', '127.0.0.1', '--port', '0', '--operations-port', '0', '--log-level', 'warn'];

test('serve --upstream prints where it listens, serves, and ends with 0 on SIGTERM', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });
  const gateway = start(t, ['serve', '--upstream', node.url, ...freePorts]);
  const [, base = ''] = await gateway.line(/^Clients: +(\S+) \(listening on 127\.0\.0\.1, port \d+\)$/);
  const [, operations = ''] = await gateway.line(/^Operations: +(\S+) /);

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
  gateway.process.kill('SIGTERM');

  assert.equal((await gateway.ended).code, 1);
  assert.equal(await held, 'cut');
});

test('a port that is taken is one line and exit code 1', async (t) => {
  const node = await fakeNode(t, {});
  const taken = createServer().listen(0, '127.0.0.1');
  t.after(() => taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;

  const args = ['--host', '127.0.0.1', '--port', String(port), '--operations-port', '0', '--log-level', 'silent'];
  const { code, err } = await start(t, ['serve', '--upstream', node.url, ...args]).ended;

  assert.equal(code, 1);
  const hint = 'choose another one with --port or --operations-port; 0 picks a free one';
  assert.equal(err, `ledgergate: cannot listen on 127.0.0.1, port ${port}: the port is taken (${hint})\n`);
});

test('a file is served with its warnings printed, and its secrets masked', async (t) => {
  const node = await fakeNode(t, {});
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

test('SIGHUP without a config file changes nothing and is logged; the gateway serves on', async (t) => {
  const node = await fakeNode(t, {});
  const gateway = start(t, ['serve', '--upstream', node.url, ...freePorts]);
  const [, base = ''] = await gateway.line(/^Clients: +(\S+) /);

  gateway.process.kill('SIGHUP');

  await gateway.line(/SIGHUP: there is no config file to read again/);
  assert.equal((await fetch(base)).status, 200);
});

test('flags stay above the file when it is read again', async (t) => {
  const node = await fakeNode(t, {});
  const text = (level: string) => `upstreams: [{ name: a, url: "${node.url}" }]\nlog: { level: ${level} }\n`;
  const file = configFile(t, text('error'));
  const gateway = start(t, ['serve', '--config', file, ...freePorts]);
  const [, operations = ''] = await gateway.line(/^Operations: +(\S+) /);

  writeFileSync(file, `${text('silent')}latest: { maxStaleness: 1s }\nlisten: { port: 1 }\n`);

  const { reload } = await eventually(
    async () => (await (await fetch(`${operations}/readyz`)).json()) as { reload?: Record<string, unknown> },
    (ready) => ready.reload !== undefined,
  );
  assert.deepEqual([reload?.['result'], reload?.['needsRestart']], ['applied', []]);
});
