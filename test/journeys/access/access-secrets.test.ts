// Secrets of clients, nodes and operators are found nowhere but where they belong.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { hashKey } from '../../../src/access/keys/principals.ts';
import { PlanLimits } from '../../../src/access/limits/limits.ts';
import type { Config } from '../../../src/config/config.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { askExplain, askPurge } from '../../support/admin.ts';
import { collector } from '../../support/collector.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  testGateway,
  type LogLine,
  type Reply,
  nodeAndGateway,
  probeAt,
  type TestGateway,
} from '../../support/gateway.ts';
import { jwtConfig, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { bearer, keyedGateway, path } from '../../support/keyed-gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { askKeys } from '../../support/keys-api.ts';
import { askLog, changesLog } from '../../support/log-changes.ts';
import { answersIn, exchangeRaw } from '../../support/raw-http.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { statusOf } from '../../support/status.ts';
import { submission } from '../../support/submission.ts';

const token = 'operations-token-hush-4711';
const password = 'redis-password-hush-4712';
const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

/** The credentials of each node. */
const credentials = [
  { authorization: 'Bearer node-credential-hush-0', 'x-node-key': 'node-key-hush-0' },
  { authorization: 'Bearer node-credential-hush-1' },
];

test('every secret of a journey is nowhere but where it belongs', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t, ['--requirepass', password]);
  const nodes = [await fakeNode(t, { head: 900n }), await fakeNode(t, { head: 900n })] as const;
  const [usual, limited, revoked] = [testKey('one'), testKey('two', { operations: ['read'] }), testKey('three')];
  const typed = 'lgk_a-key-that-was-typed-wrong-hush-4713';
  const file = keysFile(t, [usual, limited, revoked]);
  const signing = signingKey('first');
  const issuer = await testIssuer(t, [signing]);
  const traces = await collector(t);
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
      usage: { metricsByKey: true },
    }),
    tracing: { endpoint: traces.url, share: 1 },
    onLog: (line) => lines.push(line),
  });
  const said: (Reply | string)[] = [];
  const admin = { authorization: `Bearer ${token}` };
  const created = await askKeys(gateway, 'POST', '', { name: 'made', plan: 'free', source: 'file' }, admin);
  const { key: made } = JSON.parse(created.text) as { readonly key: string };

  const given = [usual.text, limited.text, revoked.text, typed];
  const ask = async (...keys: readonly string[]): Promise<void> => {
    for (const key of keys) {
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
    for (const place of [
      'metrics',
      'readyz',
      'livez',
      'status',
      'status.json',
      'admin/keys',
      'admin/usage?format=csv',
    ]) {
      said.push(await fetchReply(`${gateway.operationsUrl}/${place}`, { method: 'GET', headers: admin }));
    }
    said.push(await askExplain(gateway, { target: `/v1${path}` }, admin));
    said.push(await askExplain(gateway, { target: `/v1${path}` }, { authorization: 'Bearer wrong' }));
    said.push(await askPurge(gateway, '{"everything":true}', admin));
  };

  await ask(...given, made, ...jwts);
  for (const kind of ['reset', 'hang', 'truncated body', 'html', 'unavailable'] as const) {
    nodes[0].fault = { kind };
    await ask(usual.text, typed);
  }
  // A node that echoes its request.
  const echoed = { ...credentials[1], 'x-api-key': 'none', location: 'http://10.0.0.1/' };
  nodes[1].fault = { kind: 'answer', status: 302, body: '{}', headers: echoed };
  await ask(usual.text, typed);
  nodes[1].fault = undefined;
  file.write([usual]);
  await until(async () => (await gateway.get(path, { 'x-api-key': revoked.text })).status === 401);
  file.writeText(`keys: [{ name: a, plan: free, sha256: ${usual.text} }]`);
  await until(async () => (await gateway.metric('ledgergate_keys_reloads_total{source="file",result="failed"}')) === 1);
  const stored = await redis.run(
    async (client) => {
      const names = await client.keys('*');
      return [...names, ...(await Promise.all(names.map((name) => client.dump(name).catch(() => ''))))].join('\n');
    },
    { password },
  );
  assert.match(stored, /acme/);
  await until(() => traces.spans.length > 0);
  said.push(stored, JSON.stringify(traces.spans));
  await redis.kill();
  await ask(...given);

  const keys = [...given, made, ...jwts.flatMap(partsOf)];
  const ofNodes = credentials.flatMap((headers) => Object.values(headers));
  const everywhere = [...keys, token, password, ...ofNodes, ...ofNodes.map((text) => text.replace('Bearer ', ''))];
  const hashes = [usual.text, limited.text, revoked.text, made].map(hashKey);
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

  const release = node.hold({ times: 1, when: ({ url }) => url.includes('by_height') });
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
  release();
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

// Of the config that they print: effective.test.ts.
test('no command prints the value of a credential', async (t) => {
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

  for (const line of [
    ['config', file],
    ['check', file],
    ['check', file, '--format', 'json'],
  ]) {
    const { out, err } = await call(line, env);
    assert.doesNotMatch(out + err, /hush/);
  }
});

// A connection that repeats its headers is refused as soon as its key is revoked, expired or of another plan.

/** A gateway with one key, and a connection that asks with it whenever `ask` is called. */
async function keyed(t: TestContext, fastPath: boolean) {
  const key = testKey('wallet');
  const plans = { free: planConfig(), other: planConfig({ operations: ['view'] }) };
  const { file, gateway } = await keyedGateway(t, [key], { plans, config: { listen: { fastPath } } });
  const socket = connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk)));
  const request = `GET /v1${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.text}\r\n\r\n`;
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

// The access log: the requests that get a line, its fields, and changes while the gateway runs.

interface Scene {
  readonly node: FakeNode;
  readonly gateway: TestGateway;
  /** The lines of requests so far. */
  readonly lines: readonly LogLine[];
}

async function scene(t: TestContext, access: Partial<Config['log']['access']>): Promise<Scene> {
  const node = await fakeNode(t);
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node],
    config: { log: { access: { share: 0, slowMs: 2_000, failed: true, ...access } } },
    onLog: (line) => void (line['msg'] === 'answered' && lines.push(line)),
  });
  return { node, gateway, lines };
}

test('a line has route, outcome, node, version, times and size', async (t) => {
  const { gateway, lines } = await scene(t, { share: 1 });

  const { body } = await gateway.get(probeAt(7));
  await gateway.get(probeAt(7));

  const [miss, hit] = lines;
  const { seconds, upstreamMs, level, time: _time, pid: _pid, hostname: _hostname, msg: _msg, ...told } = miss ?? {};
  assert.deepEqual(told, {
    route: 'resource',
    method: 'GET',
    status: 200,
    outcome: 'miss',
    upstream: 'full-0',
    version: '7',
    bytes: body.length,
  });
  assert.equal(level, 30);
  assert.ok(Number(upstreamMs) > 0 && Number(seconds) * 1_000 >= Number(upstreamMs));
  assert.deepEqual([hit?.['outcome'], hit?.['upstream'], hit?.['upstreamMs']], ['memory', undefined, 0]);
});

test('without a share, a slow request gets one, and those that went well and fast get none', async (t) => {
  const { node, gateway, lines } = await scene(t, { slowMs: 1_500 });
  for (let index = 0; index < 50; index += 1) await gateway.get(probeAt(index % 5));
  await gateway.get(probeAt(7).replace('version=7', 'version=x'));
  assert.deepEqual(lines, []);
  node.fault = { kind: 'latency', ms: 1_600 };
  await gateway.get(probeAt(7));
  assert.partialDeepStrictEqual(lines, [{ outcome: 'miss' }]);
});

test('a share of all is about that share', async (t) => {
  const { gateway, lines } = await scene(t, { share: 0.5 });
  for (let index = 0; index < 200; index += 1) await gateway.get(probeAt(7));
  assert.ok(lines.length > 50 && lines.length < 150, `${lines.length} of 200`);
});

test('requests that fail get one, until there are too many: those are counted', async (t) => {
  const { node, gateway, lines } = await scene(t, {});
  await node.close();

  const startedMs = performance.now();
  await Promise.all(Array.from({ length: 400 }, (_, index) => gateway.get(probeAt(index))));

  const most = 100 + Math.ceil(((performance.now() - startedMs) / 1_000) * 50);
  assert.ok(lines.length >= 100 && lines.length <= most, `${lines.length} lines`);
  assert.ok(lines.every(({ status, outcome }) => status === 503 && outcome === 'failed'));
  assert.equal(await gateway.metric('ledgergate_access_log_dropped_total'), 400 - lines.length);
});

test('a 503 has its reason, the node asked last and the number of attempts, and no address', async (t) => {
  const { node, gateway, lines } = await scene(t, {});
  node.fault = { kind: 'reset' };
  assert.equal((await gateway.get(probeAt(7))).status, 503);
  const { reason, attempts, upstream } = lines.at(-1) ?? {};
  assert.deepEqual({ reason, upstream }, { reason: 'nodes failed', upstream: 'full-0' });
  assert.ok(Number(attempts) >= 1);

  // A refused connection, whose error names the address.
  await node.close();
  assert.equal((await gateway.get(probeAt(8))).status, 503);
  assert.partialDeepStrictEqual(lines.at(-1), { reason: 'nodes failed', upstream: 'full-0' });
  assert.doesNotMatch(JSON.stringify(lines), /127\.0\.0\.1/);
});

test('a 503 without an attempt has a reason alone', async (t) => {
  const [node, other] = [await fakeNode(t, { chainId: 4 }), await fakeNode(t, { chainId: 4 })];
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node, other],
    config: { chainId: 5, log: { access: { share: 0, slowMs: 2_000, failed: true } } },
    onLog: (line) => void (line['msg'] === 'answered' && lines.push(line)),
  });

  assert.equal((await gateway.get(probeAt(7))).status, 503);

  const { reason, attempts, upstream } = lines[0] ?? {};
  assert.deepEqual({ reason, attempts, upstream }, { reason: 'other chain', attempts: undefined, upstream: undefined });
});

test('a client that hung up is no success: not in the line, not in metrics, not on the status page', async (t) => {
  const { node, gateway, lines } = await scene(t, { share: 1 });
  node.fault = { kind: 'hang' };
  const asked = node.log.next();
  const abort = new AbortController();
  const hangingUp = fetch(gateway.url + probeAt(7), { signal: abort.signal });
  await asked;
  abort.abort();
  await assert.rejects(hangingUp);
  await until(() => Promise.resolve(lines.length > 0));
  assert.partialDeepStrictEqual(lines[0], { status: 499, outcome: 'refused' });
  const counted = (status: number) =>
    gateway.metric(`ledgergate_http_requests_total{route="resource",status="${status}"}`);
  assert.deepEqual([await counted(499), await counted(200)], [1, 0]);
  const took = 'ledgergate_http_request_duration_seconds_count';
  assert.equal(await gateway.metric(`${took}{route="resource",outcome="refused"}`), 1);
  const { windows } = await statusOf(gateway);
  assert.deepEqual(
    windows[0]?.outcomes.map(({ outcome }) => outcome),
    ['refused'],
  );
});

test('an operator changes what a process logs, until the config is read again', async (t) => {
  const lines: LogLine[] = [];
  const { gateway } = await nodeAndGateway(t, {
    config: { log: { level: 'info', access: { share: 0, slowMs: 2_000, failed: true } } },
    onLog: (line) => lines.push(line),
  });
  const answered = () => lines.filter(({ msg }) => msg === 'answered').length;
  const { operationsUrl, reloads } = gateway;
  const ask = () => gateway.get(probeAt(7));
  await changesLog({ operationsUrl, ask, answered, reload: () => reloads.take(reloads.config) }, 1);
});

test('an invalid setting is refused by name, and changes nothing', async (t) => {
  const { gateway } = await scene(t, {});
  const before = (await askLog(gateway.operationsUrl)).body;
  const wrong: readonly (readonly [change: unknown, words: RegExp])[] = [
    [{ level: 'loud' }, /^level: /],
    [{ access: { share: 2 } }, /^access\.share: expected a share from 0 to 1/],
    [{ access: { slow: 5 } }, /^access\.slow: expected a duration with a unit/],
    [{ access: { paths: true } }, /paths/],
    [[], /^the body: /],
  ];
  for (const [change, words] of wrong) {
    const { status, body } = await askLog(gateway.operationsUrl, change);
    assert.equal(status, 400);
    assert.match((body as unknown as { readonly message: string }).message, words);
  }
  assert.deepEqual((await askLog(gateway.operationsUrl)).body, before);
});

test("tenant and plan are logged, and an exception's place without its message", async (t) => {
  const key = testKey('wallet-a', { tenant: 'acme' });
  const lines: LogLine[] = [];
  const { gateway } = await keyedGateway(t, [key], {}, lines);
  const ask = () => gateway.get(probeAt(7), bearer(key));

  assert.equal((await ask()).status, 200);
  t.mock.method(PlanLimits.prototype, 'admit', () => {
    throw new RangeError(`never said: ${probeAt(7)}`);
  });
  for (let index = 0; index < 30; index += 1) assert.equal((await ask()).status, 500);

  const line = lines.find(({ msg }) => msg === 'answered');
  assert.deepEqual([line?.['tenant'], line?.['plan']], ['acme', 'free']);
  const faults = lines.filter(({ msg }) => msg === 'a fault of the gateway');
  assert.ok(faults.length >= 10 && faults.length < 20, `${faults.length} lines`);
  assert.deepEqual([faults[0]?.['level'], faults[0]?.['name']], [50, 'RangeError']);
  assert.match(String(faults[0]?.['at']), /access-secrets\.test\.ts:\d+/);
  assert.doesNotMatch(JSON.stringify(lines), new RegExp(`never said|${key.text}`));
});
