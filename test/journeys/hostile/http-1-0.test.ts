// HTTP/1.0 clients read an answer without a length to the connection's end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeAndGateway } from '../../support/gateway.ts';
import { exchangeRaw } from '../../support/raw-http.ts';

const held = '/accounts/0x1/module/coin?ledger_version=5';
const keepAlive = 'Connection: keep-alive\r\n';
/** Malformed bytes, in one piece with the request before them. */
const garbage = 'lo\r\n0\r\n\r\n';

const rows = [
  ['an answer that was asked for with a condition', `GET /v1${held} HTTP/1.0\r\nIf-None-Match: *\r\n${keepAlive}`, 304],
  [
    'an answer to a preflight',
    `OPTIONS /v1${held} HTTP/1.0\r\nOrigin: http://a\r\nAccess-Control-Request-Method: GET\r\n${keepAlive}`,
    204,
  ],
] as const;

for (const fastPath of [true, false]) {
  for (const [title, head, status] of rows) {
    test(`no bytes follow ${title}, ${fastPath ? 'with' : 'without'} the fast path`, async (t) => {
      const { gateway } = await nodeAndGateway(t, { config: { listen: { fastPath } } }, { head: 1_000n });
      await gateway.get(held);

      const received = await exchangeRaw(gateway.port, `${head}Content-Length: 3\r\n\r\nhel${garbage}`);

      assert.match(received, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(received, /\r\nConnection: close\r\n/);
      assert.equal(received.indexOf('\r\n\r\n') + 4, received.length, received);
    });
  }
}
