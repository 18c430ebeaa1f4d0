// `check` on certificates: an expired one is served, and refused by every client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configFile } from '../../config/config-file.ts';
import { authority } from '../../support/tls.ts';
import { call } from '../command-line.ts';

test('an expired certificate is a problem with its place, and check exits with 1', async (t) => {
  const { cert, key } = authority(t).certify('gateway', 0);
  const tls = `listen:\n  tls:\n    cert: ${cert}\n    key: ${key}\n`;
  const file = configFile(t, `upstreams: [{ name: a, url: "http://127.0.0.1:1/v1" }]\n${tls}`);

  const { code, out } = await call(['check', '--offline', file]);

  assert.match(out, /ledgergate\.yaml:4:11: listen\.tls\.cert: expired at \d{4}-/);
  assert.equal(code, 1);
});
