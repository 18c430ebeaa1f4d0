// Requests with a key and without one, and the refusals.
import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { hashKey } from '../../../src/access/keys/principals.ts';
import { eventually, until } from '../../support/eventually.ts';
import { type LogLine, nodeAndGateway, type Reply } from '../../support/gateway.ts';
import { bearer, keyedGateway, path, replan } from '../../support/keyed-gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';
import { submission } from '../../support/submission.ts';

const challenge = 'Bearer realm="ledgergate"';
const wrongKey = `${challenge}, error="invalid_token"`;

function assertRefused(reply: Reply, status: number, code: string, told = challenge): void {
  assert.equal(reply.status, status, reply.text);
  const body = JSON.parse(reply.text) as Record<string, unknown>;
  assert.deepEqual(Object.keys(body), ['message', 'error_code', 'vm_error_code']);
  assert.equal(body['error_code'], code);
  assert.equal(reply.headers['cache-control'], 'no-store');
  assert.equal(reply.headers['x-node-ledger-version'], '900');
  assert.equal(reply.headers['www-authenticate'], status === 401 ? told : undefined);
}

/** A gateway with keys, and the lines of its log. */
async function keyed(t: TestContext, keys: readonly TestKey[], more: Parameters<typeof keyedGateway>[2] = {}) {
  const lines: LogLine[] = [];
  const world = await keyedGateway(t, keys, more, lines);
  /** Asks until the key has the status. */
  const eventuallyIs = (key: TestKey, status: number) => until(async () => (await world.statusOf(key)) === status);
  return { ...world, lines, eventuallyIs };
}

/** Keys as Redis has them. */
function recordsOf(keys: readonly TestKey[]): Record<string, string> {
  return Object.fromEntries(keys.map(({ entry: { sha256, ...record } }) => [sha256, JSON.stringify(record)]));
}

test('a key opens the endpoint; without one, or with another, nothing is answered and no node is asked', async (t) => {
  const [key, expired, lasting] = [
    testKey('wallet'),
    testKey('old', { expires: '2001-01-01T00:00:00Z' }),
    testKey('new', { expires: '2999-01-01T00:00:00Z' }),
  ];
  const { node, gateway } = await keyed(t, [key, expired, lasting]);
  const asked = node.log.count;

  for (const headers of [
    {},
    bearer(`${key.text}x`),
    bearer(expired.text),
    bearer(hashKey(key.text)),
    bearer('x'.repeat(20_000)),
    bearer(''),
    { authorization: key.text },
    { authorization: `Basic ${key.text}` },
    { authorization: `Bearer ${key.text}, Bearer ${lasting.text}` },
    { 'x-api-key': key.text },
    { cookie: `key=${key.text}` },
  ]) {
    // Without credentials, or with those of another scheme, there is no error code (RFC 6750 3.1).
    const isBearer = headers['authorization']?.startsWith('Bearer') === true;
    assertRefused(await gateway.get(path, headers), 401, 'web_framework_error', isBearer ? wrongKey : challenge);
  }
  const inTarget = [`${path}&key=${key.text}&authorization=Bearer%20${key.text}`, `/${key.text}${path}`];
  for (const target of inTarget) assertRefused(await gateway.get(target), 400, 'web_framework_error');
  assertRefused(await gateway.post('/transactions', submission()), 401, 'web_framework_error');
  assertRefused(await gateway.get(''), 401, 'web_framework_error');
  assertRefused(await gateway.send('DELETE', '/anything'), 401, 'web_framework_error');
  assert.equal(node.log.count, asked);

  for (const headers of [bearer(key.text), { authorization: `bearer  ${key.text}` }, bearer(lasting.text)]) {
    const reply = await gateway.get(path, headers);
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.headers['cache-control'], 'private, max-age=31536000, immutable');
    assert.match(reply.headers['vary'] ?? '', /, authorization$/);
  }
  assert.equal(
    (await gateway.get('/accounts/0x1?x=1', bearer(key.text))).headers['vary'],
    'Accept, Accept-Encoding, Origin, authorization',
  );
  assert.equal((await gateway.post('/transactions', submission(), bearer(key.text))).status, 202);
  // Answers in memory are refused to strangers as well.
  assertRefused(await gateway.get(path), 401, 'web_framework_error');
  assert.equal(await gateway.metric('ledgergate_keys'), 3);
  assert.ok((await gateway.metric('ledgergate_access_refusals_total{reason="bad key",plan=""}')) >= 6);
});

test('a configured header carries the key, and reaches no node', async (t) => {
  const key = testKey('wallet');
  const { node, gateway } = await keyed(t, [key], { header: 'x-api-key' });

  assert.equal((await gateway.get(path, { 'x-api-key': key.text })).status, 200);
  assert.equal((await gateway.get('/accounts/0x1?x=1', { 'X-Api-Key': key.text })).status, 200);
  assertRefused(await gateway.get(path, bearer(key.text)), 401, 'web_framework_error');
  const twice = `GET /v1${path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${key.text}\r\nX-Api-Key: ${key.text}\r\nConnection: close\r\n\r\n`;
  assert.match(await exchangeRaw(gateway.port, twice), /^HTTP\/1\.1 401 /);
  for (const { headers } of node.log.received) assert.doesNotMatch(JSON.stringify(headers), new RegExp(key.text));
});

test('a file without a list of keys, or none, changes nothing, and is logged once, with its place and without a key', async (t) => {
  const key = testKey('wallet');
  const { file, lines, gateway, statusOf, eventuallyIs } = await keyed(t, [key]);
  const refusals = () => lines.filter(({ msg }) => String(msg).startsWith('keys file refused'));
  const failed = () => gateway.metric('ledgergate_keys_reloads_total{source="file",result="failed"}');

  file.writeText(`keys: "${key.text}"\n`);
  await eventually(failed, (count) => count === 1);
  assert.equal(await statusOf(key), 200);
  assert.deepEqual(refusals()[0]?.['problems'], [`${file.path}:1:7: keys: must be a list of keys`]);

  renameSync(file.path, `${file.path}.away`);
  await eventually(failed, (count) => count === 2);
  assert.equal(await statusOf(key), 200);
  assert.equal(refusals().length, 2);

  file.write([]);
  await eventually(failed, (count) => count === 3);
  file.writeText('keys: []\n');
  await eventuallyIs(key, 401);
  assert.doesNotMatch(JSON.stringify(lines), new RegExp(key.text));
});

test('a wrong entry is refused alone: a revocation and a new key beside it are in force within a second', async (t) => {
  const stalls = watchStalls(t);
  const [stays, revoked, added, wrong] = [testKey('stays'), testKey('revoked'), testKey('added'), testKey('wrong')];
  const twice = { ...testKey('other'), text: stays.text };
  const { file, lines, gateway, statusOf } = await keyed(t, [stays, revoked, wrong]);
  const statuses = () => Promise.all([stays, revoked, added, wrong].map(statusOf));
  assert.deepEqual(await statuses(), [200, 200, 401, 200]);
  const failed = () => gateway.metric('ledgergate_keys_reloads_total{source="file",result="failed"}');

  const startedMs = performance.now();
  file.write([stays, { ...wrong, entry: { ...wrong.entry, plan: 'fre' } }, added]);
  await eventually(failed, (count) => count === 1);

  stalls.judge(performance.now() - startedMs < 1_000, 'within a second');
  assert.deepEqual(await statuses(), [200, 401, 200, 401]);
  const refused = lines.find(({ msg }) => String(msg).startsWith('keys of the file are refused'));
  assert.equal(refused?.['level'], 50);
  assert.deepEqual(refused['problems'], [
    `${file.path}:3:28: keys[1].plan: there is no such plan in access.plans (did you mean "free"?)`,
  ]);
  assert.equal(await gateway.metric('ledgergate_keys'), 2);

  // One key with two sets of rights: neither is certain, and no set of rights opens the endpoint.
  const expires = '2999-01-01T00:00:00Z';
  file.write([stays, { ...twice, entry: { ...twice.entry, sha256: stays.entry['sha256'], expires } }, added]);
  await eventually(failed, (count) => count === 2);
  assert.deepEqual(await statuses(), [401, 401, 200, 401]);

  file.write([stays, added, wrong]);
  await eventually(statuses, ([, , , status]) => status === 200);
  assert.deepEqual(await statuses(), [200, 401, 200, 200]);
  assert.doesNotMatch(JSON.stringify(lines), /lgk_/);
});

test('a read-only key cannot submit, view, encode or pass, in any spelling', async (t) => {
  const key = testKey('reader', { operations: ['read'] });
  const { node, gateway } = await keyed(t, [key]);

  assert.equal((await gateway.get(path, bearer(key.text))).status, 200);
  assert.equal((await gateway.get('', bearer(key.text))).status, 200);
  // Looks at the ledger are the gateway's own.
  const passedOn = () => node.log.count - node.log.countOf('ledgerInfo');
  const asked = passedOn();
  const submits = [
    '/transactions',
    '/transactions/',
    '/%74ransactions',
    '/transactions/batch',
    '/transactions/simulate',
  ];
  const others = ['/view', '/vie%77', '/view?ledger_version=5', '/transactions/encode_submission', '/unknown'];
  for (const target of [...submits, ...others]) {
    assertRefused(await gateway.post(target, submission(), bearer(key.text)), 403, 'api_disabled');
  }
  assertRefused(await gateway.get('/accounts/0x1', bearer(key.text)), 403, 'api_disabled');
  assert.equal(passedOn(), asked);
  assert.equal(await gateway.metric('ledgergate_access_refusals_total{reason="operation",plan="free"}'), 11);
});

test('a key that may read and pass cannot submit, view or encode by a spelling that is passed', async (t) => {
  const key = testKey('reader', { operations: ['read', 'pass'] });
  const passing = testKey('passer', { operations: ['pass'] });
  const { node, gateway } = await keyed(t, [key, passing]);
  const passedOn = () => node.log.count - node.log.countOf('ledgerInfo');
  const asked = passedOn();

  const views = ['/view/', '/VIEW', '/view;a=b', '/view%20', '/view.json', '/view%3Fa', '/;a/view', '/%56iew/;a'];
  const encodings = ['/transactions/encode_submission/', '/transactions/Encode_submission;a'];
  const submits = ['/transactions/', '/transactions;a', '/Transactions', '/transactions/batch;a/', '/transactions;/x'];
  for (const target of [...views, ...encodings, ...submits]) {
    assertRefused(await gateway.post(target, submission(), bearer(key.text)), 403, 'api_disabled');
  }
  for (const target of ['/accounts/0x1/module/coin/', '/Accounts/0x1/module/coin', '/accounts/0x1/module/coin;a']) {
    assertRefused(await gateway.get(target, bearer(passing.text)), 403, 'api_disabled');
  }
  assertRefused(await gateway.get('/accounts;a/0x1/module/coin', bearer(passing.text)), 400, 'web_framework_error');
  assert.equal(passedOn(), asked);

  // Nothing else of what is passed needs more than before.
  assert.equal((await gateway.get('/accounts/0x1', bearer(key.text))).status, 200);
  assert.equal((await gateway.get('/blocks/by_height/5', bearer(passing.text))).status, 200);
});

test('a key for certain pages is of no use to others, and they can read why', async (t) => {
  const key = testKey('page', { origins: ['https://app.example'] });
  const { gateway } = await keyed(t, [key]);
  const ask = (origin: string) => gateway.get(path, { ...bearer(key.text), origin });

  assert.equal((await ask('https://app.example')).status, 200);
  for (const origin of ['https://evil.example', 'http://app.example', 'https://app.example.evil.example', 'null']) {
    const reply = await ask(origin);
    assertRefused(reply, 403, 'api_disabled');
    assert.equal(reply.headers['access-control-allow-origin'], origin);
  }
  assertRefused(await gateway.get(path, bearer(key.text)), 403, 'api_disabled');
  const stranger = await gateway.get(path, { origin: 'https://evil.example' });
  assertRefused(stranger, 401, 'web_framework_error');
  assert.equal(stranger.headers['access-control-allow-origin'], 'https://evil.example');
});

test('a preflight needs no key, and is no way in', async (t) => {
  const { node, gateway } = await keyed(t, []);
  const asked = node.log.count;
  const headers = {
    origin: 'https://app.example',
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'authorization',
  };

  assert.equal((await gateway.send('OPTIONS', path, { headers })).status, 204);
  assert.equal((await gateway.send('OPTIONS', path)).status, 405);
  assert.equal(node.log.count, asked);
});

test('without a key there is the plan for it, and what a shared cache may keep stays public', async (t) => {
  const key = testKey('wallet');
  const plans = { free: planConfig(), open: planConfig({ operations: ['read'] }) };
  const { gateway } = await keyed(t, [key], { anonymous: 'open', plans });

  const anonymous = await gateway.get(path);
  assert.equal(anonymous.status, 200);
  assert.equal(anonymous.headers['cache-control'], 'public, max-age=31536000, immutable');
  assertRefused(await gateway.post('/transactions', submission()), 403, 'api_disabled');
  assert.equal((await gateway.post('/transactions', submission(), bearer(key.text))).status, 202);
  // The sender of a key expects its plan.
  assertRefused(await gateway.get(path, bearer('lgk_unknown')), 401, 'web_framework_error', wrongKey);
});

test('keys in Redis count beside those of the file, and stay in force without it', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t);
  const [first, second, odd] = [testKey('first'), testKey('second'), testKey('odd', { plan: 'gold' })];
  const [listed, misread] = [['127.0.0.2/32'], ['127.0.0.2/33']].map((addresses) => testKey('listed', { addresses }));
  const [fine, wrong] = [testKey('fine'), testKey('wrong', { expires: 'soon' })];
  assert.ok(listed !== undefined && misread !== undefined);
  const set = (...keys: TestKey[]) => redis.run((client) => client.hset('lg:access:keys', recordsOf(keys)));
  await set(first, odd, listed, misread, { ...wrong, entry: { ...wrong.entry, expires: undefined } });
  await redis.run((client) => client.hset('lg:access:keys', 'nonsense', '{'));
  const { gateway, lines, statusOf, eventuallyIs } = await keyed(t, [], {
    keys: { file: keysFile(t, [fine, wrong]).path, redis: true },
    config: { cache: { memory: { maxBytes: 1_000_000 }, redis: redisAt(redis.url, { timeoutMs: 50, ttlMs: 10_000 }) } },
  });

  await eventuallyIs(first, 200);
  assert.equal(lines.filter(({ msg }) => String(msg).startsWith('keys of the file are refused')).length, 1);
  // The faulty entry of the file is refused, whatever Redis has; so is a key with a list that cannot be read.
  const statuses = [second, odd, listed, misread, fine, wrong].map(statusOf);
  assert.deepEqual(await Promise.all(statuses), [401, 401, 403, 401, 200, 401]);
  await replan(gateway, { free: planConfig(), gold: planConfig() });
  assert.equal(await statusOf(odd), 200);

  await set(second);
  await eventuallyIs(second, 200);
  await redis.run((client) => client.hdel('lg:access:keys', String(first.entry['sha256'])));
  await eventuallyIs(first, 401);
  const failed = () => gateway.metric('ledgergate_keys_reloads_total{source="redis",result="failed"}');
  // Evicted, or lost: an absent hash does not state that there are no keys.
  const before = await failed();
  await redis.run((client) => client.del('lg:access:keys'));
  await until(async () => (await failed()) === before + 1);
  assert.equal(await statusOf(second), 200);
  await redis.kill();
  assert.equal(await statusOf(second), 200);
  await redis.start();
  await redis.run((client) => client.hset('lg:access:keys', 'none', ''));
  await eventuallyIs(second, 401);
});

test('until the keys in Redis are read, no key is refused as wrong', async (t) => {
  const { gateway } = await nodeAndGateway(t, {
    config: {
      cache: {
        memory: { maxBytes: 1_000_000 },
        redis: redisAt('redis://127.0.0.1:1', { timeoutMs: 50, ttlMs: 10_000 }),
      },
    },
    access: accessConfig({ keys: { redis: true } }),
  });

  const reply = await gateway.get(path, bearer('lgk_any'));

  assertRefused(reply, 503, 'internal_error');
  assert.equal(reply.headers['retry-after'], '1');
  assertRefused(await gateway.get(path), 401, 'web_framework_error');
});
