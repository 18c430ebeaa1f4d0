// Keys that operators create, change and revoke while the gateway serves.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { readKeysFile } from '../../../src/access/keys/file-keys.ts';
import { call } from '../../commands/command-line.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, type LogLine, nodeAndGateway, type Reply, testGateway } from '../../support/gateway.ts';
import { askKeys, changedKey, createdKey, listedKeys } from '../../support/keys-api.ts';
import { bearer, keyedGateway, path } from '../../support/keyed-gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisAt, type RedisServer, redisTest } from '../../support/redis-server.ts';
import { redisCluster, type TestCluster } from '../../support/redis-topology.ts';

const plans = { free: planConfig(), silver: planConfig(), views: planConfig({ operations: ['view'] }) };

/** The status of a read with the key, over a connection of its own. */
async function statusOf({ url }: { readonly url: string }, key: string): Promise<number> {
  return (await fetchReply(url + path, { method: 'GET', headers: bearer(key) })).status;
}

/** As the gateway writes a line. */
function entryOf({ entry }: TestKey): string {
  return `{ ${Object.entries(entry)
    .map(([field, value]) => `${field}: ${String(value)}`)
    .join(', ')} }`;
}

test('a key is created, changed and revoked in the file, each in force with the answer', async (t) => {
  const { file, gateway } = await keyedGateway(t, [], { plans });
  file.writeText(`# Ask Ana.\nkeys:\n  # the wallet team\n  - ${entryOf(testKey('wallet'))} # until May\n`);
  await eventually(
    () => listedKeys(gateway),
    ({ keys }) => keys.length === 1,
  );
  const before = readFileSync(file.path, 'utf8');

  const rights = { operations: ['read', 'view'], origins: ['https://app.example'], addresses: ['0.0.0.0/0', '::/0'] };
  const fields = { name: 'shop', plan: 'silver', tenant: 'acme', expires: '2999-01-01T00:00:00Z', ...rights };
  const created = await askKeys(gateway, 'POST', '', fields);

  assert.equal(created.status, 201);
  assert.equal(created.headers['cache-control'], 'no-store');
  const { key, ...described } = JSON.parse(created.text) as Record<string, unknown> & { readonly key: string };
  assert.match(key, /^lgk_[\w-]{43}$/);
  const sha256 = hash('sha256', key);
  assert.deepEqual(described, {
    ...fields,
    expires: '2999-01-01T00:00:00.000Z',
    sha256Prefix: sha256.slice(0, 8),
    source: 'file',
    inForce: true,
  });
  const read = (more = {}) => gateway.get(path, { ...bearer(key), origin: 'https://app.example', ...more });
  assert.equal((await read()).status, 200);
  assert.equal((await read({ origin: 'https://other.example' })).status, 403);
  const { keys, problems } = readKeysFile(readFileSync(file.path, 'utf8'), file.path);
  assert.deepEqual(problems, []);
  assert.equal(keys.find(({ name }) => name === 'shop')?.sha256, sha256);

  const changed = await changedKey(gateway, 'shop', { plan: 'views', operations: null, origins: null, tenant: 'beta' });
  assert.partialDeepStrictEqual(changed, { plan: 'views', tenant: 'beta', operations: null, origins: null });
  assert.equal((await read()).status, 403);
  await changedKey(gateway, 'shop', { plan: 'free', expires: '2001-01-01T00:00:00Z' });
  assert.equal((await read()).status, 401);
  assert.deepEqual(
    (await listedKeys(gateway)).keys.map(({ name, inForce }) => [name, inForce]),
    [
      ['wallet', true],
      ['shop', false],
    ],
  );
  await changedKey(gateway, 'shop', { expires: null });
  assert.equal((await read()).status, 200);

  const revoked = await changedKey(gateway, 'shop');
  assert.deepEqual(revoked, { revoked: 'shop' });
  assert.equal((await read()).status, 401);
  // Nothing else of the file has changed, comments included.
  assert.equal(readFileSync(file.path, 'utf8'), before);
  assert.equal(await gateway.metric('ledgergate_keys'), 1);
  const { text } = await askKeys(gateway, 'GET');
  assert.doesNotMatch(text, /[\da-f]{9}|lgk_/);
});

test('a change in the file is applied once, and the watch of the file finds nothing new in it', async (t) => {
  const lines: LogLine[] = [];
  const { file, gateway } = await keyedGateway(t, [testKey('a')], { plans }, lines);
  const reloads = () => gateway.metric('ledgergate_keys_reloads_total{source="file",result="ok"}');

  const key = await createdKey(gateway, { name: 'b', plan: 'free' });
  assert.equal(await reloads(), 1);
  // A later change by hand is found, and the one before it was read once.
  file.writeText(readFileSync(file.path, 'utf8').replace('name: b', 'name: c'));
  await until(async () => (await reloads()) > 1);
  assert.equal(await reloads(), 2);
  assert.equal(await statusOf(gateway, key), 200);
  assert.deepEqual(
    (await listedKeys(gateway)).keys.map(({ name }) => name),
    ['a', 'c'],
  );
});

/** Calls, their bodies, and the answers. */
const refusals: readonly (readonly [call: string, body: unknown, status: number, message: RegExp])[] = [
  ['POST', { name: 'a', plan: 'free' }, 409, /there is a key named a already/],
  ['POST', { name: 'b', plan: 'sliver' }, 400, /^plan: there is no such plan .*"silver"/],
  ['POST', { name: 'b' }, 400, /^plan: is required$/],
  ['POST', { name: '1b', plan: 'free' }, 400, /^name: must be a letter/],
  ['POST', { name: 'b', plan: 'free', tennant: 'c' }, 400, /^tennant: unknown key \(did you mean "tenant"/],
  ['POST', { name: 'b', plan: 'free', sha256: 'a'.repeat(64) }, 400, /^sha256: unknown key/],
  ['POST', { name: 'b', plan: 'free', operations: ['reed'] }, 400, /^operations\[0\]: expected "read"/],
  ['POST', { name: 'b', plan: 'free', addresses: ['10.0.0.0/33'] }, 400, /^addresses\[0\]: expected an address/],
  ['POST', { name: 'b', plan: 'free', expires: 'tomorrow' }, 400, /^expires: must be a time in UTC/],
  ['POST', { name: 'b', plan: 'free', source: 'redis' }, 409, /access\.keys has no redis/],
  ['POST', [], 400, /^the body: expected a mapping/],
  ['POST', undefined, 400, /^the body: is required/],
  ['POST', { name: `lgk_${'x'.repeat(43)}`, plan: 'free' }, 400, /holds a key/],
  ['PATCH /b', { plan: 'free' }, 404, /no key named b/],
  ['PATCH /a', { name: 'b' }, 400, /^name: unknown key/],
  ['PATCH /a', { plan: 'gold' }, 400, /no such plan/],
  ['PATCH /a', { plan: null }, 400, /^plan: /],
  ['DELETE /b', undefined, 404, /no key named b/],
  [`DELETE /lgk_${'x'.repeat(43)}`, undefined, 404, /^no key has this name$/],
  ['DELETE /%00', undefined, 404, /^no key has this name$/],
];

test('a call that asks for something impossible is refused in the words of the config, and changes nothing', async (t) => {
  const lines: LogLine[] = [];
  const { file, gateway } = await keyedGateway(t, [testKey('a')], { plans }, lines);
  const before = readFileSync(file.path, 'utf8');

  for (const [call, body, status, message] of refusals) {
    const [method, path] = call.split(' ') as [Parameters<typeof askKeys>[1], string | undefined];
    const reply = await askKeys(gateway, method, path, body);
    assert.equal(reply.status, status, `${call}: ${reply.text}`);
    const told = (JSON.parse(reply.text) as { readonly message: string }).message;
    assert.match(told, message, call);
    assert.doesNotMatch(told, /lgk_/);
  }

  assert.equal(readFileSync(file.path, 'utf8'), before);
  assert.equal(lines.filter(({ level }) => level === 35).length, refusals.length);
  assert.doesNotMatch(JSON.stringify(lines), /lgk_/);
});

test('a faulty entry hinders no other key, is reported, and is revoked by its name', async (t) => {
  const wrong = testKey('wrong', { expires: 'soon' });
  const { file, gateway } = await keyedGateway(t, [testKey('a'), wrong], { plans });

  const key = await createdKey(gateway, { name: 'b', plan: 'free' });
  const { keys, problems } = await listedKeys(gateway);

  assert.equal(await statusOf(gateway, key), 200);
  assert.deepEqual(
    keys.map(({ name }) => name),
    ['a', 'b'],
  );
  assert.match(problems.join(), /keys\.yaml:3:.*keys\[1\]\.expires: must be a time in UTC/);
  assert.equal((await askKeys(gateway, 'POST', '', { name: 'wrong', plan: 'free' })).status, 409);
  await changedKey(gateway, 'wrong', { expires: '2999-01-01T00:00:00Z' });
  assert.equal(await statusOf(gateway, wrong.text), 200);
  file.write([testKey('a'), wrong]);
  await until(async () => (await listedKeys(gateway)).problems.length === 1);
  await changedKey(gateway, 'wrong');
  assert.deepEqual((await listedKeys(gateway)).problems, []);
});

/** The statuses in order. */
function ascending(replies: readonly Reply[]): readonly number[] {
  return replies.map(({ status }) => status).sort((one, other) => one - other);
}

test('writers at one time lose no key: calls, the command, and an editor that replaced the file', async (t) => {
  const { file, gateway } = await keyedGateway(t, [testKey('a')], { plans });
  // Not read by the gateway yet.
  file.write([testKey('a'), testKey('by-hand')]);
  const names = Array.from({ length: 8 }, (_, index) => `key-${index}`);
  const twins = Array.from({ length: 5 }, () => askKeys(gateway, 'POST', '', { name: 'twin', plan: 'free' }));
  // Of several creations of one name one succeeds.
  assert.deepEqual(ascending(await Promise.all(twins)), [201, 409, 409, 409, 409]);

  const made = await Promise.all(
    names.map(async (name, index) => {
      if (index % 2 === 0) return createdKey(gateway, { name, plan: 'free' });
      const { code, out, err } = await call(['keys', 'create', '--file', file.path, '--name', name, '--plan', 'free']);
      assert.equal(code, 0, err);
      return out;
    }),
  );

  const { keys, problems } = readKeysFile(readFileSync(file.path, 'utf8'), file.path);
  assert.deepEqual([keys.map(({ name }) => name).sort(), problems], [['a', 'by-hand', 'twin', ...names].sort(), []]);
  for (const key of made) await until(async () => (await statusOf(gateway, key)) === 200);
  await Promise.all(names.slice(0, 4).map((name) => changedKey(gateway, name)));
  for (const [index, key] of made.entries()) assert.equal(await statusOf(gateway, key), index < 4 ? 401 : 200);
});

test('a file that is gone, has no list or may not be written is left as it is, with 503', async (t) => {
  const key = testKey('a');
  const { file, gateway } = await keyedGateway(t, [key], { plans });
  const create = async () => {
    const { status, text } = await askKeys(gateway, 'POST', '', { name: 'b', plan: 'free' });
    return [status, (JSON.parse(text) as { readonly message: string }).message];
  };

  renameSync(file.path, `${file.path}.away`);
  assert.deepEqual(await create(), [503, `${file.path} is missing`]);
  assert.ok(!existsSync(file.path));
  file.writeText('keys:\n  a: 1\n');
  assert.match(String(await create()), /^503,the keys file cannot be changed: .*keys\.yaml:2:3: keys: must be a list/);
  assert.equal(readFileSync(file.path, 'utf8'), 'keys:\n  a: 1\n');
  assert.equal(await statusOf(gateway, key.text), 200);
  assert.ok(!existsSync(join(dirname(file.path), '.keys.yaml.new')));

  // Root may write everywhere.
  if (process.getuid?.() === 0) return;
  file.write([key]);
  chmodSync(dirname(file.path), 0o500);
  t.after(() => chmodSync(dirname(file.path), 0o700));
  assert.match(String(await create()), /^503,cannot change .*keys\.yaml: EACCES/);
});

test('the change of a writer that was killed is given up after half a minute', async (t) => {
  const { file, gateway } = await keyedGateway(t, [], { plans });
  const beside = join(dirname(file.path), '.keys.yaml.new');
  writeFileSync(beside, 'keys: [');
  const refused = await askKeys(gateway, 'POST', '', { name: 'a', plan: 'free' });
  assert.equal(refused.status, 503);
  assert.match(refused.text, /another change is running, or one was cut off/);

  utimesSync(beside, new Date(), new Date(Date.now() - 31_000));
  const key = await createdKey(gateway, { name: 'a', plan: 'free' });

  assert.equal(await statusOf(gateway, key), 200);
  assert.ok(!existsSync(beside));
});

test('without access there are no keys to change', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  for (const [method, path, body] of [
    ['GET', ''],
    ['POST', '', { name: 'a', plan: 'free' }],
    ['DELETE', '/a'],
  ] as const) {
    assert.equal((await askKeys(gateway, method, path, body)).status, 404);
  }
});

/** Two replicas that share a Redis with keys. */
async function replicas(t: TestContext, server: Pick<RedisServer, 'url'> | TestCluster, file?: string) {
  const node = await fakeNode(t, { head: 900n });
  const redis = 'target' in server ? { ...redisAt(''), target: server.target } : redisAt(server.url);
  const config = { cache: { memory: { maxBytes: 1_000_000 }, redis } };
  const keys = { redis: true, ...(file !== undefined && { file }) };
  const start = () => testGateway(t, { full: [node], config, access: accessConfig({ keys, plans }) });
  const [one, two] = [await start(), await start()] as const;
  // Both have read the keys, of which there may be none.
  for (const gateway of [one, two]) await until(async () => (await statusOf(gateway, 'no-key')) === 401);
  return { one, two };
}

redisTest('keys in Redis are created, changed and revoked at any replica', async (t, server) => {
  const { one, two } = await replicas(t, server, keysFile(t, []).path);
  const fieldsOf = (key: string) => server.run((client) => client.hget('lg:access:keys', hash('sha256', key)));

  await t.test('and each other has it in force', async () => {
    const key = await createdKey(one, { name: 'shop', plan: 'silver', tenant: 'acme' });
    assert.equal(await statusOf(one, key), 200);
    await until(async () => (await statusOf(two, key)) === 200);
    assert.deepEqual(JSON.parse((await fieldsOf(key)) ?? ''), { name: 'shop', tenant: 'acme', plan: 'silver' });

    await changedKey(two, 'shop', { plan: 'views', tenant: null });
    assert.equal(await statusOf(two, key), 403);
    await until(async () => (await statusOf(one, key)) === 403);
    assert.partialDeepStrictEqual((await listedKeys(one)).keys, [
      { name: 'shop', tenant: 'shop', plan: 'views', source: 'redis', inForce: true },
    ]);

    await changedKey(one, 'shop');
    assert.equal(await statusOf(one, key), 401);
    await until(async () => (await statusOf(two, key)) === 401);
    // The last one is gone, and no replica takes the hash for lost.
    assert.deepEqual(await server.run((client) => client.hgetall('lg:access:keys')), { none: '' });
    const again = await createdKey(two, { name: 'shop', plan: 'free' });
    await until(async () => (await statusOf(one, again)) === 200);
  });

  await t.test('of creations of one name at one time one succeeds', async () => {
    const creations = [one, two, one, two].map((at) => askKeys(at, 'POST', '', { name: 'a', plan: 'free' }));
    assert.deepEqual(ascending(await Promise.all(creations)), [201, 409, 409, 409]);
    for (const at of [one, two]) {
      await until(async () => (await listedKeys(at)).keys.filter(({ name }) => name === 'a').length === 1);
    }
  });

  await t.test('changes of one key at one time are all made', async () => {
    const key = await createdKey(one, { name: 'changed', plan: 'free' });
    await until(async () => (await statusOf(two, key)) === 200);
    const changes = { tenant: 'acme', plan: 'silver', operations: ['read'], addresses: ['0.0.0.0/0'] };
    const calls = Object.entries(changes).map(([field, value], at) => {
      return changedKey(at % 2 === 0 ? one : two, 'changed', { [field]: value });
    });
    await Promise.all(calls);
    assert.deepEqual(JSON.parse((await fieldsOf(key)) ?? ''), { name: 'changed', ...changes });
  });

  await t.test('those that were added by hand are found by their names', async () => {
    const key = testKey('hand');
    const field = String(key.entry['sha256']);
    await server.run((client) => client.hset('lg:access:keys', field, '{"name":"hand","plan":"free"}', 'x', '{'));
    assert.partialDeepStrictEqual(await changedKey(one, 'hand', { tenant: 'acme' }), { name: 'hand', tenant: 'acme' });
    assert.equal(await statusOf(one, key.text), 200);
    assert.deepEqual((await listedKeys(one)).problems, ['Redis: the key x... is invalid']);
    await changedKey(one, 'hand');
    assert.equal(await statusOf(one, key.text), 401);
  });

  await t.test('a call may name the file for a new key; a revocation is of both', async () => {
    const inFile = await createdKey(one, { name: 'b', plan: 'free', source: 'file' });
    assert.equal(await statusOf(one, inFile), 200);
    const sourcesOf = async () =>
      (await listedKeys(one)).keys.flatMap(({ name, source }) => (name === 'b' ? source : []));
    assert.deepEqual(await sourcesOf(), ['file']);
    assert.equal((await askKeys(one, 'POST', '', { name: 'b', plan: 'free' })).status, 409);

    // By hand, the name of a key in the file.
    const another = hash('sha256', 'another');
    await server.run((client) => client.hset('lg:access:keys', another, '{"name":"b","plan":"free"}'));
    await until(async () => (await sourcesOf()).length === 2);
    assert.equal((await askKeys(one, 'PATCH', '/b', { plan: 'silver' })).status, 409);
    await changedKey(one, 'b');
    assert.deepEqual(await sourcesOf(), []);
  });

  await t.test('while Redis has lost them, or is away, none is changed and all stay in force', async () => {
    const key = await createdKey(one, { name: 'stays', plan: 'free' });
    await server.run((client) => client.flushall());
    const lost = await askKeys(one, 'POST', '', { name: 'lost', plan: 'free' });
    assert.deepEqual([lost.status, await server.run((client) => client.exists('lg:access:keys'))], [503, 0]);
    assert.match(lost.text, /lg:access:keys has disappeared from Redis/);
    assert.equal((await askKeys(one, 'DELETE', '/stays')).status, 503);
    assert.equal(await statusOf(one, key), 200);

    await server.kill();
    for (const [method, path, body] of [
      ['POST', '', { name: 'lost', plan: 'free' }],
      ['PATCH', '/stays', { plan: 'silver' }],
      ['DELETE', '/stays'],
      ['DELETE', '/unknown'],
    ] as const) {
      const reply = await askKeys(one, method, path, body);
      assert.equal(reply.status, 503, `${method} ${path} ${reply.text}`);
    }
    assert.equal(await statusOf(one, key), 200);
  });
});

test('in a cluster, too, each replica has a change in force', { skip: noRedis }, async (t) => {
  const { one, two } = await replicas(t, await redisCluster(t));
  const key = await createdKey(one, { name: 'shop', plan: 'free' });
  assert.equal(await statusOf(one, key), 200);
  await until(async () => (await statusOf(two, key)) === 200);
  await changedKey(two, 'shop', { plan: 'views' });
  await until(async () => (await statusOf(one, key)) === 403);
  await changedKey(one, 'shop');
  await until(async () => (await statusOf(two, key)) === 401);
});

test('ledgergate keys --url makes, lists and revokes keys of a running gateway, with the token of a file', async (t) => {
  const token = 'token-of-ana-hush-4711';
  const tokens = [{ name: 'ana', role: 'admin', sha256: hash('sha256', token) }] as const;
  const { file, gateway } = await keyedGateway(t, [], { plans, config: { operations: { tokens } } });
  const tokenFile = join(dirname(file.path), 'ana.token');
  writeFileSync(tokenFile, `${token}\n`);
  const at = ['--url', gateway.operationsUrl, '--token-file', tokenFile];
  const keys = (...line: readonly string[]) => call(['keys', ...line, ...at]);

  const created = await keys('create', '--name', 'a', '--plan', 'silver', '--addresses', '10.0.0.0/8,::1');
  assert.equal(created.code, 0, created.err);
  assert.match(created.out, /^lgk_[\w-]{43}$/);
  assert.match(created.err, /^The key of a, shown this once; the gateway has its SHA-256 only:$/);
  const listed = await keys('list');
  assert.deepEqual(listed.out.split('\n').at(-1)?.split(/ {2,}/).slice(0, 6), [
    'a',
    'a',
    'silver',
    'all',
    'any',
    '10.0.0.0/8,::1',
  ]);
  assert.partialDeepStrictEqual(JSON.parse((await keys('list', '--format', 'json')).out), [
    { name: 'a', source: 'file' },
  ]);
  assert.deepEqual(await keys('revoke', '--name', 'a'), {
    code: 0,
    out: 'Revoked a: the gateway refuses it.',
    err: '',
  });
  assert.equal(await statusOf(gateway, created.out), 401);

  const twice = await keys('revoke', '--name', 'a');
  assert.equal(twice.code, 1);
  assert.match(twice.err, /^ledgergate: .* answered 404: .*no key named a$/);
  const wrong = await keys('create', '--name', 'b', '--plan', 'sliver');
  assert.match(wrong.err, /answered 400: plan: there is no such plan .*did you mean "silver"/);
  const without = await call(['keys', 'list', '--url', gateway.operationsUrl]);
  assert.match(without.err, /answered 401/);
  for (const [line, message] of [
    [['--url', 'ftp://x'], /--url: expected a URL such as/],
    [['--url', gateway.operationsUrl, '--file', file.path], /give either --file or --url/],
    [['--url', gateway.operationsUrl, '--token-file', `${tokenFile}.gone`], /cannot read .*gone: ENOENT/],
    [['--url', gateway.operationsUrl, '--token-file', file.path], /does not hold one token/],
  ] as const) {
    const { err } = await call(['keys', 'list', ...line]);
    assert.match(err, message);
    assert.doesNotMatch(err, /hush/);
  }
});

test('a key that is revoked while its request waits for its plan gets no answer', async (t) => {
  const slow = { patient: planConfig({ concurrency: 1, waitMs: 60_000 }) };
  const { node, gateway } = await keyedGateway(t, [], { plans: slow });
  const release = node.hold({ when: ({ route }) => route === 'module' });
  const fields = { plan: 'patient', tenant: 'acme' };
  const kept = await createdKey(gateway, { name: 'kept', ...fields });
  const revoked = await createdKey(gateway, { name: 'revoked', ...fields });

  const first = statusOf(gateway, kept);
  await until(() => node.requestsTo('module') === 1);
  const waiting = statusOf(gateway, revoked);
  await until(async () => (await gateway.metric('ledgergate_limits_waiting')) === 1);
  await changedKey(gateway, 'revoked');
  release();

  assert.deepEqual([await first, await waiting], [200, 401]);
  assert.equal(await gateway.metric('ledgergate_access_refusals_total{reason="bad key",plan=""}'), 1);
});
