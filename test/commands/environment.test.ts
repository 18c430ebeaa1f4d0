import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { Environment } from '../../src/commands/command.ts';
import type { FileConfig } from '../../src/config/schema/schema.ts';
import { configFile, oneUpstream } from '../config/config-file.ts';
import { call } from './command-line.ts';

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

test('an empty variable counts as not set', async (t) => {
  const { listen } = await effective([configFile(t, oneUpstream)], { LEDGERGATE_PORT: '', LEDGERGATE_UPSTREAM: '' });

  assert.equal(listen.port, 8080);
});

test('a variable of Kubernetes for a Service called ledgergate is not read as a port', async (t) => {
  const env = {
    LEDGERGATE_PORT: 'tcp://10.96.0.7:8080',
    LEDGERGATE_PORT_8080_TCP: 'tcp://10.96.0.7:8080',
    LEDGERGATE_PORT_8080_TCP_PROTO: 'tcp',
    LEDGERGATE_SERVICE_HOST: '10.96.0.7',
    LEDGERGATE_SERVICE_PORT: '8080',
  };

  const { code, out, err } = await call(['config', configFile(t, oneUpstream)], env);

  assert.deepEqual({ code, err }, { code: 0, err: '' });
  assert.match(out, /port: 8080/);
});

test('a variable that looks like a slip of ours is warned about', async (t) => {
  const { err } = await call(['config', configFile(t, oneUpstream)], { LEDGERGATE_UPSTREAMS: 'http://b/v1' });

  assert.equal(err, 'warning: LEDGERGATE_UPSTREAMS is not read by anything (did you mean "LEDGERGATE_UPSTREAM"?)');
});

test('a wrong variable is reported by its name', async (t) => {
  const file = configFile(t, oneUpstream);

  assert.deepEqual(await call(['config', file], { LEDGERGATE_PORT: '80 80' }), {
    code: 2,
    out: '',
    err: 'LEDGERGATE_PORT: listen.port: expected a whole number from 0 to 65535, got "80 80"',
  });
  const { err } = await call(['check', file], { LEDGERGATE_OFFLINE: 'maybe' });
  assert.equal(err, 'ledgergate: LEDGERGATE_OFFLINE: expected true or false, got "maybe"');
});

test('config masks what came from ${ENV}, and prints warnings beside it', async (t) => {
  const text = 'upstreams: [{ name: a, url: "http://node/${KEY}/v1" }]\nupstream: { maxAttempts: 1 }\n';

  const { code, out, err } = await call(['config', configFile(t, text)], { KEY: 'hunter2' });

  assert.equal(code, 0);
  assert.match(out, /url: http:\/\/node\/\$\{KEY\}\/v1/);
  assert.ok(!out.includes('hunter2'));
  assert.match(err, /^warning: upstream\.maxAttempts is 1: .*$/);
});
