import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspectTlsPair, TlsPair } from '../../src/config/tls-pair.ts';
import { call } from '../commands/command-line.ts';
import { authority } from '../support/tls.ts';
import { configFile, oneUpstream } from './config-file.ts';

const dayMs = 86_400_000;

function at(cert: string, key: string): readonly string[] {
  return inspectTlsPair({ cert, key }, Date.now()).problems.map((problem) => `${problem.at}: ${problem.message}`);
}

test('a certificate and its key are a pair with an expiry', (t) => {
  const files = authority(t).certify('a');
  const { pair, expiresMs = 0, problems, warnings } = TlsPair.read(files, Date.now());
  assert.deepEqual([problems, warnings], [[], []]);
  assert.equal(pair?.cert, readFileSync(files.cert, 'utf8'));
  assert.ok(Math.abs(expiresMs - Date.now() - 30 * dayMs) < dayMs / 24);
});

test('a fault names its file and quotes nothing of it', (t) => {
  const ca = authority(t);
  const one = ca.certify('one');
  const text = { cert: readFileSync(one.cert, 'utf8'), key: readFileSync(one.key, 'utf8') };
  const other = readFileSync(ca.certify('two').key, 'utf8');

  assert.deepEqual(at('secret text', text.key), ['cert: holds no certificate in PEM form']);
  assert.deepEqual(at(text.key, text.key), ['cert: holds no certificate in PEM form']);
  assert.deepEqual(at(text.cert, 'secret text'), ['key: holds no private key in PEM form without a passphrase']);
  assert.deepEqual(at(text.cert, other), ["key: is not the key of listen.tls.cert's first certificate"]);
  assert.equal(at('', '').length, 2);
});

test('an expired, soon expired or not yet valid certificate is a warning', (t) => {
  const files = authority(t).certify('a');
  const warningAt = (days: number): string | undefined =>
    TlsPair.read(files, Date.now() + days * dayMs).warnings.map((text) => text.replace(/ at \S+?Z/, ''))[0];
  assert.equal(warningAt(22), undefined);
  assert.equal(warningAt(24), 'listen.tls.cert expires, in less than 6 day(s)');
  assert.equal(warningAt(31), 'listen.tls.cert expired');
  assert.match(warningAt(-2) ?? '', /is not valid before/);
});

test('check reads the files relative to the config, and reports the place of a faulty one', async (t) => {
  const ca = authority(t);
  ca.certify('a');
  const check = async (tls: string) => {
    const file = join(ca.folder, 'ledgergate.yaml');
    writeFileSync(file, `listen:\n  tls: ${tls}\n${oneUpstream}`);
    return call(['check', file, '--offline']);
  };
  assert.deepEqual(await check('{ cert: a.crt, key: a.key }').then(({ code }) => code), 0);
  const missing = await check('{ cert: b.crt, key: a.key }');
  assert.equal(missing.code, 2);
  assert.match(missing.out, /ledgergate\.yaml:2:\d+: listen\.tls\.cert: cannot read .*b\.crt: there is no such file/);
  ca.certify('soon', 3);
  const soon = await check('{ cert: soon.crt, key: soon.key }');
  assert.equal(soon.code, 0);
  assert.match(soon.out, /warning: listen\.tls\.cert expires at/);
});

test('check refuses a cipher that OpenSSL lacks, and warns of a weak one', async (t) => {
  const ca = authority(t);
  ca.certify('a');
  const check = async (ciphers: string) => {
    const file = join(ca.folder, 'ledgergate.yaml');
    writeFileSync(file, `listen:\n  tls: { cert: a.crt, key: a.key, ciphers: ${ciphers} }\n${oneUpstream}`);
    return call(['check', file, '--offline']);
  };

  const good = await check('[TLS_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256]');
  assert.deepEqual([good.code, good.out.includes('warning')], [0, false]);
  for (const wrong of ['[AES]', '["HIGH:!aNULL"]', '[ECDHE-RSA-AES128-GCM-SHA256x]', '[]', 'HIGH']) {
    const { code, out } = await check(wrong);
    assert.deepEqual([code, /ledgergate\.yaml:2:\d+: listen\.tls\.ciphers/.test(out)], [2, true], out);
  }
  const weak = await check('[ECDHE-ECDSA-AES128-SHA, AES128-GCM-SHA256, AES128-SHA]');
  assert.equal(weak.code, 0);
  assert.deepEqual(weak.out.match(/(?<=warning: listen\.tls\.ciphers: ).*/g), [
    'ECDHE-ECDSA-AES128-SHA has no authenticated encryption',
    'AES128-GCM-SHA256 has no forward secrecy',
    'AES128-SHA has no forward secrecy and no authenticated encryption',
  ]);
});

test('a gateway does not start with invalid files', async (t) => {
  const file = configFile(t, `listen: { port: 0, tls: { cert: none.crt, key: none.key } }\n${oneUpstream}`);
  const { code, err } = await call(['serve', '--config', file, '--operations-port', '0']);
  assert.equal(code, 2);
  assert.match(err, /listen\.tls\.cert: cannot read/);
});
