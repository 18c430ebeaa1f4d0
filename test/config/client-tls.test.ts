import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import { ClientTls } from '../../src/config/client-tls.ts';
import type { ClientTlsConfig } from '../../src/config/config.ts';
import { TlsFiles } from '../../src/config/tls-files.ts';
import { familiesOf, type FileTexts, Journal, Renewals, SharedFiles } from '../../src/metrics/index.ts';
import { call } from '../commands/command-line.ts';
import { until } from '../support/eventually.ts';
import { authority, replaceFiles } from '../support/tls.ts';
import { configFile, oneUpstream } from './config-file.ts';

const dayMs = 86_400_000;
const ca = authority({ after });

/** Files that are watched, at a clock of the test. `lines`: messages of the log. `shared`: with the other processes. */
function opened(t: TestContext, config: ClientTlsConfig, shared?: SharedFiles, onChange: () => void = () => {}) {
  const clock = { nowMs: Date.now() };
  const lines: string[] = [];
  const write = (_: object, message: string): void => void lines.push(message);
  const journal = new Journal({ debug: write, info: write, warn: write, error: write });
  const registry = new Registry();
  const renewals = new Renewals(registry, journal, shared);
  const open = (): ClientTls => {
    const files = new ClientTls(config, { toward: 'a', renewals, journal, now: () => clock.nowMs });
    files.use(onChange);
    return files;
  };
  const files = open();
  t.after(() => files.close());
  const valueOf = async (name: string): Promise<number | undefined> => {
    const family = (await familiesOf(registry)).find((each) => each.name === name);
    return family?.values[0]?.value;
  };
  return { clock, lines, files, open, valueOf };
}

test('faults name file and key, and quote nothing', () => {
  const [one, two] = [ca.certify('one'), ca.certify('two')];
  const wrong = join(ca.folder, 'wrong');
  writeFileSync(wrong, 'hush');
  const broken = join(ca.folder, 'broken');
  writeFileSync(broken, ca.ca.replace(/\n.{20}/, '\nhush'));
  const noCert = 'cert: holds no certificate in PEM form';
  const noKey = 'key: holds no private key in PEM form without a passphrase';
  const table: readonly (readonly [ClientTlsConfig, ...faults: string[]])[] = [
    [{ ca: wrong }, 'ca: holds no certificates in PEM form'],
    [{ ca: broken }, 'ca: holds no certificates in PEM form'],
    [{ ca: `${wrong}2` }, `ca: cannot read ${wrong}2: there is no such file`],
    [{ cert: one.cert, key: two.key }, "key: is not the key of tls.cert's first certificate"],
    [{ cert: one.cert, key: wrong }, noKey],
    [{ cert: wrong, key: one.key }, noCert],
    [{ cert: one.key, key: one.key }, noCert],
    [{ cert: wrong, key: wrong }, noCert, noKey],
  ];
  for (const [config, ...faults] of table) {
    const { material, problems } = TlsFiles.read(config, Date.now(), 'tls');
    const found = problems.map(({ at, message }) => `${at}: ${message}`);
    assert.deepEqual([material, found], [undefined, faults]);
    assert.throws(() => ClientTls.once(config), { message: faults.map((fault) => `tls.${fault}`).join('; ') });
  }
});

test('the expiry is that of the certificate, and of the last authority to expire', (t) => {
  const short = authority(t).certify('short', 3);
  const bundle = join(ca.folder, 'bundle');
  // A certificate may stand for itself; it ends ahead of the root.
  writeFileSync(bundle, readFileSync(short.cert, 'utf8') + ca.ca);
  const { cert, key } = ca.certify('own', 5);
  const { expiries, warnings } = TlsFiles.read({ ca: bundle, cert, key }, Date.now(), 'tls');
  const days = [...expiries].map(([file, ms]) => [file, Math.round((ms - Date.now()) / dayMs)]);
  assert.deepEqual(days, [
    ['cert', 5],
    ['ca', 30],
  ]);
  assert.deepEqual(
    warnings.map((text) => text.replace(/ at \S+Z/, '')),
    ['tls.cert expires, in less than 5 day(s)'],
  );
});

test('a certificate that ends is a line of the log each day of its last week, and one after its end', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { cert, key } = ca.certify('nine-days', 9);
  const { clock, lines } = opened(t, { cert, key });
  const hourMs = dayMs / 24;
  for (let day = 0; day < 10; day += 1) {
    clock.nowMs += dayMs;
    t.mock.timers.tick(hourMs);
  }
  const ended = lines.filter((line) => /^tls\.cert expired at \S+: renew the file$/.test(line));
  const soon = lines.filter((line) =>
    /^tls\.cert expires at \S+, in less than \d day\(s\): renew the file$/.test(line),
  );
  // The days of the calendar are not those of the certificate.
  assert.ok(soon.length >= 7 && soon.length <= 9, `${soon.length} lines`);
  assert.ok(ended.length >= 1 && ended.length <= 2, `${ended.length} lines`);
  assert.equal(lines.length, soon.length + ended.length);
});

test('ended files replace ended ones, and no valid ones; other usable ones do', async (t) => {
  const served = ca.certify('served', -1);
  let changes = 0;
  const config = { ca: ca.file, cert: served.cert, key: served.key };
  const { files, valueOf, lines } = opened(t, config, undefined, () => (changes += 1));
  const replaced = async (days: number): Promise<void> => {
    const before = changes;
    replaceFiles(served, ca.certify('next', days));
    await until(() => changes === before + 1);
  };
  await replaced(-1);
  assert.notEqual(await valueOf('ledgergate_renewal_pending'), 1);
  await replaced(30);
  const { material } = files;
  replaceFiles(served, ca.certify('ended', -1));
  await until(async () => (await valueOf('ledgergate_renewal_pending')) === 1);
  assert.equal(files.material, material);
  assert.match(lines.join(), /renewed credentials refused/);
  await replaced(20);
  assert.notEqual(files.material, material);
  assert.equal(await valueOf('ledgergate_renewal_pending'), 0);
  const expiresMs = ((await valueOf('ledgergate_client_certificate_expiry_timestamp_seconds')) ?? 0) * 1_000;
  assert.equal(Math.round((expiresMs - Date.now()) / dayMs), 20);
});

/** Contents that all processes have, as one of them has published them. */
function sharedFiles() {
  const all: [section: string, texts: FileTexts][] = [];
  return { all, joined: () => new SharedFiles(new Map(all), (...published) => void all.push(published)) };
}

test('contents of the other processes are those of the start alone: later ones of this process take their place', async (t) => {
  const [first, second] = [ca, authority(t)];
  const file = join(first.folder, 'used');
  const put = (text: string): void => writeFileSync(file, text);
  const { all, joined } = sharedFiles();
  put(first.ca);
  opened(t, { ca: file }, joined()).files.close();
  put('broken');
  let changes = 0;
  const { lines, open, valueOf } = opened(t, { ca: file }, joined(), () => (changes += 1));
  assert.equal(await valueOf('ledgergate_renewal_pending'), 1);
  // Another address of the same name is asked with the same files; the refusal is recorded once.
  open().close();
  assert.equal(lines.length, 1);

  put(second.ca);
  await until(() => changes === 1);
  put('broken again');

  // The authority before is withdrawn.
  assert.throws(open, { message: 'tls.ca: holds no certificates in PEM form' });
  assert.deepEqual(
    all.map(([, { ca }]) => ca),
    [first.ca, second.ca],
  );
});

test('a process that starts with ended files has the valid ones of the others, and publishes none', async (t) => {
  const served = ca.certify('twenty-days', 20);
  const config = { cert: served.cert, key: served.key };
  const { all, joined } = sharedFiles();
  opened(t, config, joined()).files.close();
  replaceFiles(served, ca.certify('ended', -1));
  const { valueOf, lines } = opened(t, config, joined());
  assert.equal(await valueOf('ledgergate_renewal_pending'), 1);
  assert.match(lines.join(), /renewed credentials refused/);
  const expiresMs = ((await valueOf('ledgergate_client_certificate_expiry_timestamp_seconds')) ?? 0) * 1_000;
  assert.equal(Math.round((expiresMs - Date.now()) / dayMs), 20);
  assert.equal(all.length, 1);
});

test('an expired, soon expired or not yet valid certificate is a warning', () => {
  const files = ca.certify('a');
  const warningAt = (days: number): string | undefined =>
    TlsFiles.read(files, Date.now() + days * dayMs, 'listen.tls').warnings.map((text) =>
      text.replace(/ at \S+?Z/, ''),
    )[0];
  assert.equal(warningAt(0), undefined);
  assert.equal(warningAt(22), undefined);
  assert.equal(warningAt(24), 'listen.tls.cert expires, in less than 6 day(s)');
  assert.equal(warningAt(31), 'listen.tls.cert expired');
  assert.match(warningAt(-2) ?? '', /is not valid before/);
});

/** Checks a config in the folder of the authority. `more`: in the section of TLS. */
async function check(cert: string, more = '') {
  const tls = `{ cert: ${cert}.crt, key: a.key${more} }`;
  const file = join(ca.folder, 'ledgergate.yaml');
  writeFileSync(file, `listen:\n  tls: ${tls}\n${oneUpstream}`);
  return call(['check', file, '--offline']);
}

test('check reads the files relative to the config, and reports the place of a faulty one', async () => {
  ca.certify('a');
  assert.equal((await check('a')).code, 0);
  const missing = await check('b');
  assert.equal(missing.code, 2);
  assert.match(missing.out, /ledgergate\.yaml:2:\d+: listen\.tls\.cert: cannot read .*b\.crt: there is no such file/);
  ca.certify('a', 3);
  const soon = await check('a');
  assert.equal(soon.code, 0);
  assert.match(soon.out, /warning: listen\.tls\.cert expires at/);
});

test('check refuses a cipher that OpenSSL lacks, and warns of a weak one', async () => {
  ca.certify('a');
  const good = await check('a', ', ciphers: [TLS_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256]');
  assert.deepEqual([good.code, good.out.includes('warning')], [0, false]);
  for (const wrong of ['[AES]', '["HIGH:!aNULL"]', '[ECDHE-RSA-AES128-GCM-SHA256x]', '[]', 'HIGH']) {
    const { code, out } = await check('a', `, ciphers: ${wrong}`);
    assert.deepEqual([code, /ledgergate\.yaml:2:\d+: listen\.tls\.ciphers/.test(out)], [2, true], out);
  }
  const weak = await check('a', ', ciphers: [ECDHE-ECDSA-AES128-SHA, AES128-GCM-SHA256, AES128-SHA]');
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
