import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import { ClientTls } from '../../src/config/client-tls.ts';
import type { ClientTlsConfig } from '../../src/config/config.ts';
import { familiesOf, type FileTexts, Journal, Renewals, SharedFiles } from '../../src/metrics/index.ts';
import { until } from '../support/eventually.ts';
import { authority, replaceFiles } from '../support/tls.ts';

const dayMs = 86_400_000;

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

test('faults name file and key, and quote nothing', (t) => {
  const ca = authority(t);
  const [one, two] = [ca.certify('one'), ca.certify('two')];
  const wrong = join(ca.folder, 'wrong');
  writeFileSync(wrong, 'hush');
  const broken = join(ca.folder, 'broken');
  writeFileSync(broken, ca.ca.replace(/\n.{20}/, '\nhush'));
  const table: readonly (readonly [ClientTlsConfig, string])[] = [
    [{ ca: wrong }, 'ca: holds no certificates in PEM form'],
    [{ ca: broken }, 'ca: holds no certificates in PEM form'],
    [{ ca: `${wrong}2` }, `ca: cannot read ${wrong}2: there is no such file`],
    [{ cert: one.cert, key: two.key }, "key: is not the key of tls.cert's first certificate"],
    [{ cert: one.cert, key: wrong }, 'key: holds no private key in PEM form without a passphrase'],
    [{ cert: wrong, key: one.key }, 'cert: holds no certificate in PEM form'],
  ];
  for (const [config, fault] of table) {
    const { material, problems } = ClientTls.read(config, Date.now());
    const found = problems.map(({ at, message }) => `${at}: ${message}`);
    assert.deepEqual([material, found], [undefined, [fault]]);
    assert.throws(() => ClientTls.once(config), { message: `tls.${fault}` });
  }
});

test('the expiry is that of the certificate, and of the last authority to expire', (t) => {
  const [ca, ended] = [authority(t), authority(t)];
  const short = ended.certify('short', 3);
  const bundle = join(ca.folder, 'bundle');
  // A certificate may stand for itself; it ends ahead of the root.
  writeFileSync(bundle, readFileSync(short.cert, 'utf8') + ca.ca);
  const { cert, key } = ca.certify('own', 5);
  const { expiries, warnings } = ClientTls.read({ ca: bundle, cert, key }, Date.now());
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
  const { cert, key } = authority(t).certify('own', 9);
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

test('ended files do not replace valid ones; other usable ones do', async (t) => {
  const ca = authority(t);
  const served = ca.certify('one');
  let changes = 0;
  const config = { ca: ca.file, cert: served.cert, key: served.key };
  const { files, valueOf, lines } = opened(t, config, undefined, () => (changes += 1));
  const { material } = files;
  replaceFiles(served, ca.certify('ended', -1));
  await until(async () => (await valueOf('ledgergate_renewal_pending')) === 1);
  assert.equal(files.material, material);
  assert.match(lines.join(), /renewed credentials refused/);
  replaceFiles(served, ca.certify('two', 20));
  await until(() => changes === 1);
  assert.notEqual(files.material, material);
  assert.equal(await valueOf('ledgergate_renewal_pending'), 0);
  const expiresMs = ((await valueOf('ledgergate_client_certificate_expiry_timestamp_seconds')) ?? 0) * 1_000;
  assert.equal(Math.round((expiresMs - Date.now()) / dayMs), 20);
});

test('ended files replace ended ones', async (t) => {
  const ca = authority(t);
  const served = ca.certify('one', -1);
  let changes = 0;
  const { valueOf } = opened(t, { cert: served.cert, key: served.key }, undefined, () => (changes += 1));
  replaceFiles(served, ca.certify('two', -1));
  await until(() => changes === 1);
  assert.notEqual(await valueOf('ledgergate_renewal_pending'), 1);
});

/** Contents that all processes have, as one of them has published them. */
function sharedFiles() {
  const all: [section: string, texts: FileTexts][] = [];
  return { all, joined: () => new SharedFiles(new Map(all), (...published) => void all.push(published)) };
}

test('contents of the other processes are those of the start alone: later ones of this process take their place', async (t) => {
  const [first, second] = [authority(t), authority(t)];
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
  const ca = authority(t);
  const served = ca.certify('one', 20);
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
