// The ciphers that TLS accepts: openssl's own client, one cipher at a time.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import type { Config } from '../../../src/config/config.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway } from '../../support/gateway.ts';
import { authority, replaceFiles, type Authority, type Certified } from '../../support/tls.ts';

/** Default ciphers of TLS 1.2, for both kinds of keys. */
const forward = (key: 'ECDSA' | 'RSA') => [
  `ECDHE-${key}-AES128-GCM-SHA256`,
  `ECDHE-${key}-AES256-GCM-SHA384`,
  `ECDHE-${key}-CHACHA20-POLY1305`,
];
const cbc = (key: 'ECDSA' | 'RSA') => [
  `ECDHE-${key}-AES128-SHA`,
  `ECDHE-${key}-AES128-SHA256`,
  `ECDHE-${key}-AES256-SHA384`,
];
const ofTls13 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];

test('TLS 1.3, and TLS 1.2 with forward secrecy and without CBC, is served', async (t) => {
  const { ask } = await world(t, 'ec');
  for (const name of ofTls13) assert.equal(await ask('-tls1_3', '-ciphersuites', name), `TLSv1.3 ${name}`);
  for (const name of forward('ECDSA')) assert.equal(await ask('-tls1_2', '-cipher', name), `TLSv1.2 ${name}`);
  const rsa = await world(t, 'rsa');
  for (const name of forward('RSA')) assert.equal(await rsa.ask('-tls1_2', '-cipher', name), `TLSv1.2 ${name}`);
});

test('a client with only CBC, or only RSA key exchange, is refused', async (t) => {
  const ec = await world(t, 'ec');
  for (const name of cbc('ECDSA')) assert.equal(await ec.ask('-tls1_2', '-cipher', name), 'refused', name);
  const rsa = await world(t, 'rsa');
  for (const name of [...cbc('RSA'), 'AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'AES128-SHA', 'AES256-SHA256']) {
    assert.equal(await rsa.ask('-tls1_2', '-cipher', name), 'refused', name);
  }
  // The gateway selects the best one offered.
  assert.match(await rsa.ask('-tls1_2', '-cipher', 'ALL'), /^TLSv1\.2 ECDHE-RSA-.*(?:GCM|POLY1305)/);
});

test("the config's cipher list survives a certificate change", async (t) => {
  const ciphers = ['TLS_AES_256_GCM_SHA384', 'ECDHE-ECDSA-AES256-GCM-SHA384'];
  const { ask, certified, ca, gateway } = await world(t, 'ec', ciphers);
  const assertListed = async (): Promise<void> => {
    assert.equal(
      await ask('-tls1_2', '-cipher', 'ECDHE-ECDSA-AES256-GCM-SHA384'),
      'TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384',
    );
    assert.equal(await ask('-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-GCM-SHA256'), 'refused');
    assert.equal(await ask('-tls1_3', '-ciphersuites', 'TLS_AES_128_GCM_SHA256'), 'refused');
    assert.equal(await ask('-tls1_3'), 'TLSv1.3 TLS_AES_256_GCM_SHA384');
  };
  await assertListed();
  replaceFiles(certified, ca.certify('renewed'));
  while ((await gateway.metric('ledgergate_tls_reloads_total{result="ok"}')) === 0) await ask('-tls1_3');
  await assertListed();
});

async function world(t: TestContext, key: 'ec' | 'rsa', ciphers?: readonly string[]) {
  const ca: Authority = authority(t);
  const certified: Certified = ca.certify('gateway', 30, key);
  const tls: Config['listen']['tls'] = { ...certified, ...(ciphers === undefined ? {} : { ciphers }) };
  const gateway = await testGateway(t, { full: [await fakeNode(t)], config: { listen: { tls } } });
  const connect = ['s_client', '-connect', `127.0.0.1:${gateway.port}`, '-CAfile', ca.file, '-brief', '-no_ign_eof'];
  return {
    ca,
    certified,
    gateway,
    /** Version and cipher of the connection, or `refused` for a handshake that the gateway ended. */
    ask: async (...options: readonly string[]): Promise<string> => {
      // A stricter bound of the client would refuse its own cipher.
      const args = [...connect, ...options.map((text) => (/^[A-Z0-9-]+$/.test(text) ? `${text}:@SECLEVEL=0` : text))];
      const client = promisify(execFile)('openssl', args, { timeout: 20_000 });
      client.child.stdin?.end();
      const { stdout, stderr } = await client.catch((error: { stdout: string; stderr: string }) => error);
      const output = `${stdout}${stderr}`;
      if (/alert handshake failure|alert number 40/i.test(output)) return 'refused';
      const version = /^Protocol version: (\S+)$/m.exec(output)?.[1];
      const cipher = /^Ciphersuite: (\S+)$/m.exec(output)?.[1];
      assert.ok(version !== undefined && cipher !== undefined, output);
      return `${version} ${cipher}`;
    },
  };
}
