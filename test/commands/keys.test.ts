import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
  lstatSync,
} from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { hashKey } from '../../src/access/keys/principals.ts';
import { readKeysFile } from '../../src/access/keys/file-keys.ts';
import { call } from './command-line.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function place(t: TestContext, text?: string): string {
  const folder = temporaryFolder(t);
  const file = join(folder, 'keys.yaml');
  if (text !== undefined) writeFileSync(file, text);
  return file;
}

/** The keys of a file without a fault. */
function keysIn(text: string, file: string) {
  const { keys, problems } = readKeysFile(text, file);
  assert.deepEqual(problems, []);
  return keys;
}

const run = (line: string, file: string) => call([...line.split(' '), '--file', file]);

test('a key is created, shown once, listed without its hash, and revoked', async (t) => {
  const file = place(t);

  const created = await run('keys create --name wallet-a --plan free', file);
  assert.equal(created.code, 0);
  assert.match(created.out, /^lgk_[\w-]{43}$/);
  const more =
    '--tenant acme --operations read,view --operations encode --origins https://a --addresses 192.0.2.0/24 --addresses 2001:db8::/32,198.51.100.7 --expires 2999-01-01T00:00:00Z';
  assert.equal((await run(`keys create --name b --plan paid ${more}`, file)).code, 0);

  const text = readFileSync(file, 'utf8');
  assert.ok(!text.includes(created.out));
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const [first, second] = keysIn(text, file);
  assert.equal(first?.sha256, hashKey(created.out));
  assert.partialDeepStrictEqual(second, {
    name: 'b',
    tenant: 'acme',
    plan: 'paid',
    operations: ['read', 'view', 'encode'],
    origins: ['https://a'],
    addresses: ['192.0.2.0/24', '2001:db8::/32', '198.51.100.7'],
    expiresAtMs: Date.parse('2999-01-01T00:00:00Z'),
  });
  const listed = await run('keys list', file);
  const [heads, ...rows] = listed.out.split('\n').map((line) => line.split(/ {2,}/));
  assert.deepEqual(heads, ['NAME', 'TENANT', 'PLAN', 'OPERATIONS', 'ORIGINS', 'ADDRESSES', 'EXPIRES', 'SHA256']);
  assert.deepEqual(rows, [
    ['wallet-a', 'wallet-a', 'free', 'all', 'any', 'any', 'never', `${hashKey(created.out).slice(0, 8)}...`],
    `b acme paid read,view,encode https://a 192.0.2.0/24,2001:db8::/32,198.51.100.7 2999-01-01T00:00:00Z ${second?.sha256.slice(0, 8)}...`.split(
      ' ',
    ),
  ]);

  assert.equal((await run('keys revoke --name wallet-a', file)).code, 0);
  assert.deepEqual(
    keysIn(readFileSync(file, 'utf8'), file).map(({ name }) => name),
    ['b'],
  );
  assert.equal((await run('keys revoke --name b', file)).code, 0);
  assert.deepEqual(keysIn(readFileSync(file, 'utf8'), file), []);
  assert.equal((await run('keys create --name c --plan free', file)).code, 0);
});

test('what others wrote into the file stays, comments included; a key is revoked in each of its entries', async (t) => {
  const hash = hashKey('a');
  const text = [
    '# Our keys. Ask Ana.',
    'keys:',
    '  # the wallet team',
    `  - { name: a, plan: free, sha256: "${hash}" } # until May`,
    `  - name: b # the other one`,
    '    plan: free',
    `    sha256: "${hashKey('b')}"`,
    `  - { name: b, plan: free, sha256: "${hashKey('more')}" }`,
    '',
  ].join('\n');
  const file = place(t, text);

  await run('keys create --name c --plan free', file);
  await run('keys revoke --name c', file);
  assert.equal(readFileSync(file, 'utf8'), text);
  await run('keys revoke --name b', file);
  assert.equal(readFileSync(file, 'utf8'), text.split('\n').slice(0, 4).join('\n').concat('\n'));
});

test('a file of more than 5,000 keys is taken, with a warning that names Redis', async (t) => {
  const keys = Array.from({ length: 5_001 }, (_, index) => ({
    name: `wallet-${index}`,
    plan: 'free',
    sha256: hashKey(String(index)),
  }));
  const file = place(t, JSON.stringify({ keys: keys.slice(1) }));
  const config = `${file}.config`;
  const access = { keys: { file }, plans: { free: {} } };
  writeFileSync(config, JSON.stringify({ upstreams: [{ name: 'a', url: 'http://10.0.0.1/v1' }], access }));
  const check = () => call(['check', config, '--offline']);
  assert.equal((await check()).code, 0);
  assert.doesNotMatch((await check()).out, /warning/);
  writeFileSync(file, JSON.stringify({ keys }));
  const { code, out } = await check();
  assert.equal(code, 0);
  assert.match(out, /^warning: .*keys\.yaml has 5001 keys: keep more than 5000 in Redis \(access\.keys\.redis\)/m);
});

const failures: readonly (readonly [line: string, code: number, message: RegExp])[] = [
  ['keys create --name a --plan free', 1, /has a key named a already$/],
  ['keys create --name "x" --plan free', 2, /keys\[1\]\.name: must be a letter, then/],
  ['keys create --name c --plan free --operations reed', 2, /operations\[0\]: expected "read"/],
  ['keys create --name c --plan free --addresses 10.0.0.0/33', 2, /addresses\[0\]: expected an address or a network/],
  ['keys create --name c --plan free --expires tomorrow', 2, /expires: must be a time in UTC/],
  ['keys create --name c --plan free --origins app.example', 2, /origins\[0\]: expected an origin/],
  ['keys revoke --name b', 1, /has no key named b/],
  ['keys revoke', 2, /keys revoke: --name is needed/],
  ['keys create --name c', 2, /keys create: --plan is needed/],
];

for (const [line, code, message] of failures) {
  test(`nothing is changed by: ${line}`, async (t) => {
    const text = `keys: [{ name: a, plan: free, sha256: "${hashKey('a')}" }]\n`;
    const file = place(t, text);
    const outcome = await run(line, file);
    assert.deepEqual([outcome.code, outcome.out], [code, '']);
    assert.match(outcome.err, message);
    assert.equal(readFileSync(file, 'utf8'), text);
    assert.ok(!existsSync(join(file, '..', '.keys.yaml.new')));
  });
}

test('a wrong entry hinders no list and no revocation, and no key is added beside it', async (t) => {
  const wrong = '  - { name: a, sha: x }\n';
  const file = place(t, `keys:\n${wrong}  - { name: b, plan: free, sha256: "${hashKey('b')}" }\n`);

  const created = await run('keys create --name c --plan free', file);
  const listed = await run('keys list', file);
  const revoked = await run('keys revoke --name b', file);

  assert.deepEqual([created.code, listed.code, revoked.code], [2, 2, 0]);
  for (const { err } of [created, listed, revoked]) assert.match(err, /keys\.yaml:2:16: keys\[0\]\.sha: unknown key/);
  assert.match(listed.out, /^b +b +free /m);
  assert.equal(readFileSync(file, 'utf8'), `keys:\n${wrong}`);
  assert.equal((await run('keys revoke --name a', file)).code, 0);
  assert.deepEqual(keysIn(readFileSync(file, 'utf8'), file), []);
});

test('a file without a list of keys is left alone, with its place', async (t) => {
  const file = place(t, 'keys:\n  a: 1\n');
  for (const line of ['keys create --name c --plan free', 'keys list', 'keys revoke --name a']) {
    const { code, err } = await run(line, file);
    assert.equal(code, 2);
    assert.match(err, /keys\.yaml:2:3: keys: must be a list of keys/);
  }
  assert.equal((await run('keys list', `${file}.gone`)).code, 2);
  assert.equal((await run('keys revoke --name a', `${file}.gone`)).code, 2);
});

/** A config beside `file`, with the plans `free` and `silver`. */
function configFor(file: string, keys = `{ file: ${file} }`): string {
  const config = `${file}.config`;
  writeFileSync(
    config,
    `upstreams: [{ name: a, url: "http://127.0.0.1:1/v1" }]\naccess: { keys: ${keys}, plans: { free: {}, silver: {} } }\n`,
  );
  return config;
}

test('a key of a plan that the config lacks is refused, and the config names the file', async (t) => {
  const file = place(t);
  const config = configFor(file);

  const near = await call(['keys', 'create', '--config', config, '--name', 'a', '--plan', 'sliver']);
  const other = await call(['keys', 'create', '--config', config, '--name', 'a', '--plan', 'gold']);

  assert.deepEqual(near, {
    code: 2,
    out: '',
    err: `ledgergate: --plan: access.plans of ${config} has no plan "sliver" (did you mean "silver"?)`,
  });
  assert.match(other.err, /has no plan "gold"; it has free, silver$/);
  assert.ok(!existsSync(file));

  const created = await call(['keys', 'create', '--config', config, '--name', 'a', '--plan', 'silver']);
  assert.equal(created.code, 0);
  assert.doesNotMatch(created.err, /not checked/);
  assert.match((await call(['keys', 'list'], { LEDGERGATE_CONFIG: config })).out, /^a +a +silver /m);
  assert.equal((await call(['keys', 'revoke', '--config', config, '--name', 'a'])).code, 0);
  assert.match((await run('keys create --name b --plan gold', file)).err, /the plan is not checked without --config/i);
  const inRedis = await call(['keys', 'list', '--config', configFor(file, '{ redis: false }, anonymous: free')]);
  assert.match(inRedis.err, /has no access\.keys\.file: give --file FILE$/);
});

test('keys list --format json prints all fields of each key, for programs', async (t) => {
  const expires = '2999-01-01T00:00:00Z';
  const hash = hashKey('b');
  const file = place(
    t,
    `keys:\n  - { name: a, plan: free, sha256: "${hashKey('a')}" }\n  - { name: b, tenant: acme, plan: free, sha256: "${hash}", operations: [read], origins: ["https://a"], expires: "${expires}" }\n`,
  );

  const { code, out } = await run('keys list --format json', file);

  assert.equal(code, 0);
  const [first, second] = JSON.parse(out) as readonly unknown[];
  assert.partialDeepStrictEqual(first, { name: 'a', tenant: 'a', operations: null, origins: null, expires: null });
  assert.deepEqual(second, {
    name: 'b',
    tenant: 'acme',
    plan: 'free',
    operations: ['read'],
    origins: ['https://a'],
    addresses: null,
    expires: '2999-01-01T00:00:00.000Z',
    sha256Prefix: hash.slice(0, 8),
  });
});

test('two edits at once lose no key: the second fails, and the target of a link is changed', async (t) => {
  const file = place(t, 'keys: []\n');
  const link = `${file}.link`;
  symlinkSync('keys.yaml', link);
  assert.equal((await run('keys create --name a --plan free', link)).code, 0);
  assert.ok(lstatSync(link).isSymbolicLink());
  assert.equal(keysIn(readFileSync(file, 'utf8'), file).length, 1);

  writeFileSync(join(file, '..', '.keys.yaml.new'), '');
  const { code, err } = await run('keys create --name b --plan free', file);
  assert.equal(code, 1);
  assert.match(err, /another change is running/);
});

test('who could read the file still can: it keeps its mode, and its owner', async (t) => {
  const file = place(t, 'keys: []\n');
  chmodSync(file, 0o640);
  assert.equal((await run('keys create --name a --plan free', file)).code, 0);
  assert.equal(statSync(file).mode & 0o777, 0o640);

  // Only root may give files to others.
  if (process.getuid?.() !== 0) return;
  chownSync(file, 65_534, 65_534);
  assert.equal((await run('keys revoke --name a', file)).code, 0);
  const { uid, gid, mode } = statSync(file);
  assert.deepEqual([uid, gid, mode & 0o777], [65_534, 65_534, 0o640]);
});

test('each wrong entry of a file of keys is a problem of the config; the hash of an empty key is one', async (t) => {
  const empty = hash('sha256', '').toUpperCase();
  const file = place(t, `keys: [{ name: a, plan: paid, sha256: x }, { name: b, plan: free, sha256: ${empty} }]\n`);

  const { code, out } = await call(['check', configFor(file), '--offline']);

  assert.equal(code, 2);
  assert.match(out, /keys\.yaml:1:25: keys\[0\]\.plan: there is no such plan in access\.plans/);
  assert.match(out, /keys\.yaml:1:39: keys\[0\]\.sha256: must be the SHA-256 of a key/);
  assert.match(out, /keys\[1\]\.sha256: is the SHA-256 of an empty key/);
});

test('a missing file of keys is a problem at its key of the config, with the remedy, in check and serve', async (t) => {
  const config = configFor(place(t));
  const checked = await call(['check', config, '--offline']);
  const served = await call(['serve', '--config', config]);

  for (const { code, out, err } of [checked, served]) {
    assert.equal(code, 2);
    assert.match(
      out + err,
      /config:2:25: access\.keys\.file: cannot read .*keys\.yaml: there is no such file; `ledgergate keys create` makes /,
    );
  }
});
