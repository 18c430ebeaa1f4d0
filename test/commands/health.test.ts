import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { configFile, oneUpstream } from '../config/config-file.ts';
import { call } from './command-line.ts';

/** An operations port that answers `/readyz` with `status`; returns its number. */
async function operationsPort(t: TestContext, status: number): Promise<number> {
  const server = createServer((request, response) => {
    response.statusCode = request.url === '/readyz' ? status : 404;
    response.end('{}');
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

test('ready is exit code 0, by address, flag, variable and config file', async (t) => {
  const port = await operationsPort(t, 200);
  const file = configFile(t, `${oneUpstream}operations: { host: 0.0.0.0, port: ${port} }\n`);
  const ready = { code: 0, out: 'ready', err: '' };

  assert.deepEqual(await call(['health', `http://127.0.0.1:${port}`]), ready);
  assert.deepEqual(await call(['health', '--operations-port', String(port)]), ready);
  assert.deepEqual(await call(['health'], { LEDGERGATE_OPERATIONS_PORT: String(port) }), ready);
  assert.deepEqual(await call(['health', '--config', file]), ready);
  assert.deepEqual(await call(['health'], { LEDGERGATE_CONFIG: file }), ready);
});

test('not ready is exit code 1 with the reason', async (t) => {
  const port = await operationsPort(t, 503);

  assert.deepEqual(await call(['health', '--operations-port', String(port)]), {
    code: 1,
    out: '',
    err: `not ready: http://127.0.0.1:${port}/readyz answered 503`,
  });
});

test('no answer is exit code 1', async () => {
  const { code, err } = await call(['health', 'http://127.0.0.1:1']);

  assert.equal(code, 1);
  assert.equal(err, 'not ready: http://127.0.0.1:1/readyz cannot be reached (ECONNREFUSED)');
});
