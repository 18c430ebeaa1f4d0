// Secrets of clients, nodes and operators are found nowhere but where they belong.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { stringify } from 'yaml';
import { hashKey } from '../../../src/access/keys/principals.ts';
import { loadConfig } from '../../../src/config/source/load.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { askExplain, askPurge } from '../../support/admin.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, testGateway, type LogLine, type Reply, nodeAndGateway } from '../../support/gateway.ts';
import { jwtConfig, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { answersIn, exchangeRaw } from '../../support/raw-http.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { submission } from '../../support/submission.ts';

const token = 'operations-token-hush-4711';
const password = 'redis-password-hush-4712';
const path = '/accounts/0x1/module/coin?ledger_version=5';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

/** The credentials of each node. */
const credentials = [
  { authorization: 'Bearer node-credential-hush-0', 'x-node-key': 'node-key-hush-0' },
  { authorization: 'Bearer node-credential-hush-1' },
];

test('every secret of a journey is nowhere but where it belongs', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t, ['--requirepass', password]);
  const nodes = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })] as const;
  const [bearer, limited, revoked] = [testKey('one'), testKey('two', { operations: ['read'] }), testKey('three')];
  const typed = 'lgk_a-key-that-was-typed-wrong-hush-4713';
  const file = keysFile(t, [bearer, limited, revoked]);
  const signing = signingKey('first');
  const issuer = await testIssuer(t, [signing]);
  const jwts = [tokenOf(signing, 'acme'), tokenOf(signingKey('first'), 'acme'), tokenOf(signing, 'acme', { exp: 1 })];
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: nodes.map(({ url }, index) => ({ url, headers: credentials[index] ?? {} })),
    config: {
      operations: { token },
      upstream: { timeoutMs: 300, deadlineMs: 600, audit: 1, probeIntervalMs: 50 },
      latest: { maxStalenessMs: 0 },
      encode: { shadow: 1 },
      cache: {
        memory: { maxBytes: 1_000_000 },
        redis: redisAt(`redis://:${password}@127.0.0.1:${redis.port}/0`, { timeoutMs: 50 }),
      },
    },
    access: accessConfig({
      header: 'x-api-key',
      keys: { file: file.path, redis: true },
      anonymous: 'open',
      plans: { free: planConfig({ requests: 10_000 }), open: planConfig({ operations: ['read'] }) },
      jwt: jwtConfig(issuer.url),
    }),
    onLog: (line) => lines.push(line),
  });
  const said: (Reply | string)[] = [];
  const admin = { authorization: `Bearer ${token}` };

  const ask = async (...more: readonly string[]): Promise<void> => {
    for (const key of [bearer.text, limited.text, revoked.text, typed, ...more]) {
      const headers = { 'x-api-key': key, authorization: `Bearer ${key}`, origin: 'https://app.example' };
      said.push(await gateway.get(path, headers));
      said.push(await gateway.get(`/accounts/0x1/resource/0x1::a::B?key=${key}`, headers));
      said.push(await gateway.get(`/accounts/0x1?key=${key}`, headers));
      said.push(await gateway.get(`/${key}/..%2f`, headers));
      said.push(await gateway.post('/view?ledger_version=6', view, headers));
      said.push(await gateway.post('/transactions', submission(), headers));
      said.push(await gateway.post('/transactions/encode_submission', submission(), headers));
      said.push(
        await gateway.send('OPTIONS', path, { headers: { ...headers, 'access-control-request-method': 'GET' } }),
      );
      const raw = `GET /v1${path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${key}\r\n ${key}\r\n\r\n`;
      said.push(await exchangeRaw(gateway.port, raw));
      const connection = `Connection: close, x-api-key\r\nX-Api-Key: ${key}`;
      const listed = await exchangeRaw(
        gateway.port,
        `GET /v1/accounts/0x1?x=1 HTTP/1.1\r\nHost: a\r\n${connection}\r\n\r\n`,
      );
      assert.equal(answersIn(listed).length, 1);
    }
    for (const place of ['/metrics', '/readyz', '/livez', '/status.json', '/admin/usage']) {
      said.push(await fetchReply(gateway.operationsUrl + place, { method: 'GET', headers: admin }));
    }
    said.push(await askExplain(gateway, { target: `/v1${path}` }, admin));
    said.push(await askExplain(gateway, { target: `/v1${path}` }, { authorization: 'Bearer wrong' }));
    said.push(await askPurge(gateway, '{"everything":true}', admin));
  };

  await ask(...jwts);
  for (const kind of ['reset', 'hang', 'truncated body', 'html', 'unavailable'] as const) {
    nodes[0].fault = { kind };
    await ask();
  }
  // A node that echoes its request.
  const echoed = { ...credentials[1], 'x-api-key': 'none', location: 'http://10.0.0.1/' };
  nodes[1].fault = { kind: 'answer', status: 302, body: '{}', headers: echoed };
  await ask();
  nodes[1].fault = undefined;
  file.write([bearer]);
  await until(async () => (await gateway.get(path, { 'x-api-key': revoked.text })).status === 401);
  file.writeText(`keys: [{ name: a, plan: free, sha256: ${bearer.text} }]`);
  await until(async () => (await gateway.metric('ledgergate_keys_reloads_total{source="file",result="failed"}')) === 1);
  const stored = await redis.run(
    async (client) => {
      const names = await client.keys('*');
      return [...names, ...(await Promise.all(names.map((name) => client.dump(name).catch(() => ''))))].join('\n');
    },
    { password },
  );
  assert.match(stored, /acme/);
  said.push(stored);
  await redis.kill();
  await ask();

  const keys = [bearer.text, limited.text, revoked.text, typed, ...jwts.flatMap(partsOf)];
  const ofNodes = credentials.flatMap((headers) => Object.values(headers));
  const everywhere = [...keys, token, password, ...ofNodes, ...ofNodes.map((text) => text.replace('Bearer ', ''))];
  const hashes = [bearer, limited, revoked].map(({ text }) => hashKey(text));
  assert.ok(lines.length >= 200, `${lines.length} lines`);
  for (const line of lines) assert.deepEqual(found([...everywhere, ...hashes], JSON.stringify(line)), []);
  assert.ok(said.length >= 200, `${said.length} answers`);
  for (const reply of said) {
    assert.deepEqual(found([...everywhere, ...hashes], typeof reply === 'string' ? reply : textOf(reply)), []);
  }
  for (const [index, node] of nodes.entries()) {
    const own = Object.values(credentials[index] ?? {});
    assert.ok(node.log.received.length >= 20);
    for (const { headers, url, body } of node.log.received) {
      const others = [...keys, token, password, ...ofNodes.filter((secret) => !own.includes(secret))];
      assert.deepEqual(found(others, JSON.stringify(headers)), []);
      assert.deepEqual(found([...others, ...own], url + body.toString()), []);
      for (const [name, value] of Object.entries(credentials[index] ?? {})) assert.equal(headers[name], value);
    }
  }
});

test("a reloaded config's credentials reach no client either, nor those of the config before", async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [{ url: node.url, headers: { 'x-ratelimit-old': 'hush-old' } }] });
  const echo = (headers: Readonly<Record<string, string>>): void => {
    node.fault = { kind: 'answer', status: 400, body: '{}', headers: { ...headers, 'x-ratelimit-other': 'told' } };
  };
  const told = async (): Promise<readonly unknown[]> => {
    const { headers } = await gateway.get('/blocks/by_height/1?x=1');
    return ['x-ratelimit-old', 'x-ratelimit-new', 'x-ratelimit-other'].map((name) => headers[name]);
  };
  echo({ 'x-ratelimit-old': 'hush-old' });
  assert.deepEqual(await told(), [undefined, undefined, 'told']);

  const held = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: held.promise }, { times: 1, when: ({ url }) => url.includes('by_height') });
  const asked = node.log.next();
  const leaving = told();
  await asked;
  const { config } = gateway.reloads;
  const headers = { 'x-ratelimit-new': 'hush-new' };
  const upstreams = config.upstreams.map((upstream) => ({ ...upstream, headers }));
  node.fault = undefined;
  await gateway.reloads.take({ ...config, upstreams });
  assert.equal(gateway.reloads.status?.result, 'applied');
  echo({ 'x-ratelimit-old': 'hush-old' });
  held.resolve();
  assert.deepEqual(await leaving, [undefined, undefined, 'told']);
  echo({ 'x-ratelimit-new': 'hush-new' });
  assert.deepEqual(await told(), [undefined, undefined, 'told']);
});

/** The ends of the parts of a token: one part may be that of another token. */
function partsOf(jwt: string): readonly string[] {
  return jwt.split('.').map((part) => part.slice(-40));
}

function found(secrets: readonly string[], text: string): readonly string[] {
  return secrets.filter((secret) => text.includes(secret));
}

/** All of an answer; what the echoing node adds to the rest of its answer would be in its headers. */
function textOf({ headers, text }: Reply): string {
  return JSON.stringify(headers) + text;
}

test('a node receives its credentials with every request, and no other node does', async (t) => {
  const nodes = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })] as const;
  const gateway = await testGateway(t, {
    full: nodes.map(({ url }, index) => ({ url, headers: { 'x-node-key': `key-${index}` } })),
    config: { upstream: { audit: 1, probeIntervalMs: 20 }, encode: { shadow: 1 }, latest: { maxStalenessMs: 0 } },
  });
  const asked = () => new Set(nodes.flatMap(({ log }) => log.received.map(({ route }) => route)));

  // The client's own header does not replace it.
  await gateway.get(path, { 'x-node-key': 'forged' });
  await gateway.get('/accounts/0x1?x=1', { 'x-node-key': 'forged' });
  await gateway.get('/accounts/0x1/module/coin');
  await gateway.post('/view', view, { 'x-node-key': 'forged' });
  await gateway.post('/transactions', submission(), { 'x-node-key': 'forged' });
  await gateway.get(`/transactions/wait_by_hash/0x${'ab'.repeat(32)}`);
  nodes[0].fault = { kind: 'reset' };
  await gateway.get('/accounts/0x1/module/code?ledger_version=7');
  nodes[0].fault = undefined;
  nodes[1].fault = { kind: 'answer', status: 307, body: '', headers: { location: `${nodes[0].url}/accounts/0x9` } };
  await gateway.get('/accounts/0x9?x=1');
  nodes[1].fault = undefined;
  await until(() => nodes.map(moduleReads).every((count) => count > 0));

  for (const route of ['ledgerInfo', 'module', 'view', 'submit'] as const) assert.ok(asked().has(route), route);
  for (const [index, node] of nodes.entries()) {
    for (const { headers } of node.log.received) assert.equal(headers['x-node-key'], `key-${index}`);
  }
});

/** Pinned ones: of two, the second node's is the audit of the first's. */
function moduleReads({ log }: FakeNode): number {
  return log.received.filter(({ url }) => url.includes('ledger_version=5')).length;
}

test('the config shows the source of a credential, and never its value', async (t) => {
  const text = [
    'operations: { token: operations-token-hush-4711 }',
    'upstreams:',
    '  - name: a',
    '    url: "http://127.0.0.1:1/v1"',
    '    headers: { Authorization: "Bearer ${NODE_KEY}", X-Key: hush-written-down }',
    '',
  ].join('\n');
  const file = configFile(t, text);
  const env = { NODE_KEY: 'hush-from-the-environment' };

  const { config, redacted } = loadConfig({ file, env });
  assert.deepEqual(config.upstreams[0]?.headers, {
    authorization: 'Bearer hush-from-the-environment',
    'x-key': 'hush-written-down',
  });
  assert.deepEqual(redacted.upstreams[0]?.headers, { Authorization: 'Bearer ${NODE_KEY}', 'X-Key': '*'.repeat(16) });
  for (const line of [
    ['config', file],
    ['check', file],
    ['check', file, '--format', 'json'],
  ]) {
    const { out, err } = await call(line, env);
    assert.doesNotMatch(out + err, /hush/);
  }
  // The redacted config can be parsed again.
  assert.deepEqual(
    loadConfig({ file: configFile(t, stringify(redacted)), env }).config.upstreams[0]?.headers?.['authorization'],
    'Bearer hush-from-the-environment',
  );
});

// A connection that repeats its headers is refused as soon as its key is revoked, expired or of another plan.

const target = '/v1/accounts/0x1/module/coin?ledger_version=5';

/** A gateway with one key, and a connection that asks with it whenever `ask` is called. */
async function keyed(t: TestContext, fastPath: boolean) {
  const key = testKey('wallet');
  const file = keysFile(t, [key]);
  const plans = { free: planConfig(), other: planConfig({ operations: ['view'] }) };
  const access = accessConfig({ keys: { file: file.path, redis: false }, plans });
  const { gateway } = await nodeAndGateway(t, { access, config: { listen: { fastPath } } });
  const socket = connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk)));
  const request = `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.text}\r\n\r\n`;
  const ask = async (times = 1): Promise<readonly number[]> => {
    received = '';
    socket.write(request.repeat(times));
    await until(() => answersIn(received).length === times);
    return answersIn(received).map(({ status }) => status);
  };
  return { key, file, ask };
}

for (const fastPath of [true, false]) {
  test(`a key that is revoked, of another plan, or expired is refused on an open connection (fast path: ${fastPath})`, async (t) => {
    const { key, file, ask } = await keyed(t, fastPath);
    const written = (more: TestKey['entry']) => file.write([{ ...key, entry: { ...key.entry, ...more } }]);
    const eventuallyIs = (status: number) => until(async () => (await ask())[0] === status);
    assert.deepEqual([...(await ask()), ...(await ask(2))], [200, 200, 200]);

    written({ plan: 'other' });
    await eventuallyIs(403);
    file.write([testKey('another')]);
    await eventuallyIs(401);
    assert.deepEqual(await ask(2), [401, 401]);

    file.write([key]);
    await eventuallyIs(200);
    // It is served until then, whether the file is read sooner or later.
    const expires = new Date(Date.now() + 2_000).toISOString();
    written({ expires });
    assert.deepEqual(await ask(), [200]);
    await eventuallyIs(401);
    assert.ok(Date.now() >= Date.parse(expires));
  });
}
