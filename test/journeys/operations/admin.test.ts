/** Access to /admin over real sockets, and the answers of /admin/explain. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { after, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../../src/config/config.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { askExplain, askPurge, purge } from '../../support/admin.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  nodeAndGateway,
  probe,
  testGateway,
  type TestGateway,
  twoTiers,
  type LogLine,
  statusesOf,
} from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig } from '../../support/keys.ts';
import { redisAt, redisTest } from '../../support/redis-server.ts';

/** For tests that do not depend on what earlier ones have read of it. */
const { full, archival, gateway } = await twoTiers({ after });
const requests = () => full.requests + archival.requests;

const everything = '{"everything": true}';
const token = 'a-token-of-the-operators';

test('with a token /admin asks for it, and the rest of the port does not', async (t) => {
  const config = { operations: { host: '127.0.0.1', port: 0, token } };
  const gateway = await testGateway(t, { full: [await fakeNode(t)], config });
  const statuses: number[] = [];
  for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: `Bearer ${token}` }]) {
    statuses.push((await askPurge(gateway, everything, headers)).status);
    statuses.push((await askExplain(gateway, { target: '/v1' }, headers)).status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 401, 200, 200]);
  const challenges: unknown[] = [];
  for (const authorization of [undefined, `Basic ${token}`, 'Bearer', 'Bearer wrong']) {
    const headers = authorization === undefined ? {} : { authorization };
    challenges.push((await askPurge(gateway, everything, headers)).headers['www-authenticate']);
  }
  // Without credentials, or with those of another scheme, there is no error code (RFC 6750 3.1).
  const wrong = 'Bearer error="invalid_token"';
  assert.deepEqual(challenges, ['Bearer', 'Bearer', wrong, wrong]);
  for (const path of ['/livez', '/readyz', '/metrics']) {
    assert.equal((await fetchReply(gateway.operationsUrl + path, { method: 'GET' })).status, 200);
  }
});

test('without a token /admin is closed beyond loopback, and its error names the key to set', async (t) => {
  const gateway = await testGateway(t, {
    full: [await fakeNode(t)],
    config: { operations: { host: '0.0.0.0', port: 0 } },
  });
  for (const reply of [await askPurge(gateway, everything), await askExplain(gateway, { target: '/v1' })]) {
    assert.equal(reply.status, 403);
    assert.match(reply.text, /operations\.token/);
  }
  // Another spelling of the path is the same route, or none.
  const url = `${gateway.operationsUrl}/%61dmin/purge`;
  const headers = { 'content-type': 'application/json' };
  assert.equal((await fetchReply(url, { method: 'POST', body: everything, headers })).status, 403);
});

test('on loopback web pages of other sites are refused', async () => {
  assert.equal((await askPurge(gateway, everything)).status, 200);
  assert.equal((await askPurge(gateway, everything, { origin: 'https://evil.example' })).status, 403);
  assert.equal((await askPurge(gateway, everything, { host: 'evil.example' })).status, 421);
  // The rest of the port answers for names of the cluster; without a token /admin does not.
  assert.equal((await askExplain(gateway, { target: '/v1' }, { host: 'gateway.ledger.svc' })).status, 403);
});

test('a body of 128 kB is read, and a larger one is refused unread', async () => {
  const replies = [128 * 1024, 128 * 1024 + 1].map((bytes) => askPurge(gateway, everything.padEnd(bytes)));
  assert.deepEqual(statusesOf(await Promise.all(replies)), [200, 413]);
  for (const body of ['{', '{"__proto__":{"everything":true}}', '']) {
    assert.equal((await askPurge(gateway, body)).status, 400);
  }
});

/** The members of an explanation that tests read. */
interface Explanation {
  readonly route?: string;
  readonly kept?: string;
  readonly read?: {
    readonly operation: string;
    readonly subject: string;
    readonly version?: string;
    readonly form: string;
  };
  readonly latest?: Readonly<Record<string, unknown>> & {
    readonly state: string;
    readonly version?: string;
    readonly ageMs?: number;
  };
  readonly key?: { readonly text: string; readonly redis?: string; readonly field: string };
  readonly memory?: Readonly<Record<string, unknown>> & { readonly state: string };
  readonly redis?: Readonly<Record<string, unknown>> & { readonly reference: string };
  readonly nodes?: {
    readonly asked: readonly (Readonly<Record<string, unknown>> & {
      readonly name: string;
      readonly behind?: string;
    })[];
    readonly leftOut: readonly { readonly name: string; readonly because: string }[];
  };
  readonly answer?: { readonly status: number; readonly body: { readonly message: string } };
}

async function explain(gateway: TestGateway, query: Readonly<Record<string, string>>): Promise<Explanation> {
  const reply = await askExplain(gateway, query);
  assert.equal(reply.status, 200, reply.text);
  return JSON.parse(reply.text) as Explanation;
}

test('a miss is explained, then a hit, and no node is asked', async () => {
  const target = `/v1${probe.replace('0x1/', '0x0001/')}?ledger_version=600`;
  const before = requests();

  const miss = await explain(gateway, { target });
  assert.equal(requests(), before);
  const reply = await gateway.get(`${probe}?ledger_version=600`, { 'accept-encoding': 'gzip' });
  const asked = requests();
  const hit = await explain(gateway, { target });

  assert.equal(requests(), asked);
  assert.deepEqual(miss.read, {
    operation: 'resource',
    subject: '0x1/0x1::ledgergate_sample::Probe',
    version: '600',
    form: 'json',
  });
  assert.equal(miss.route, 'resource');
  assert.match(miss.kept ?? '', /^for ever/);
  assert.deepEqual(miss.memory, { state: 'absent' });
  assert.deepEqual(miss.redis, { reference: 'off' });
  assert.equal(miss.key?.text, '1|resource|0x1/0x1::ledgergate_sample::Probe|json|0@600');
  assert.deepEqual(
    miss.nodes?.asked.map(({ name, holding, behind = '' }) => `${name} ${String(holding)} ${behind.split(':', 1)[0]}`),
    ['full-0 held ', 'archive-0 held tier'],
  );
  assert.equal(hit.memory?.state, 'held');
  assert.equal(`"${String(hit.memory?.['digest'])}"`, (reply.headers['etag'] ?? '').replace('-gzip', ''));
});

test('an explained hit lists its codings', async () => {
  const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Padded5000?ledger_version=600';
  const plain = await gateway.get(path);
  const coded = await gateway.get(path, { 'accept-encoding': 'gzip' });
  assert.equal(coded.headers['content-encoding'], 'gzip');
  const { memory } = await explain(gateway, { target: `/v1${path}` });
  assert.deepEqual([memory?.['bytes'], memory?.['codings']], [plain.body.length, { gzip: coded.body.length }]);
});

test('a pruned version: nodes that pruned it are left out, with their window', async (t) => {
  const shallow = await fakeNode(t, { oldest: 700n, head: 900n });
  const { nodes } = await explain(gateway, { target: `/v1${probe}?ledger_version=20` });
  assert.deepEqual(
    nodes?.asked.map(({ name, holding, behind = '' }) => `${name} ${String(holding)} ${behind.split(':', 1)[0]}`),
    ['archive-0 held ', 'full-0 pruned holding'],
  );
  const [, pruned] = nodes?.asked ?? [];
  assert.deepEqual([pruned?.['oldest'], pruned?.['safeOldest'], pruned?.['head']], ['500', '500', '900']);

  const alone = await testGateway(t, { full: [await fakeNode(t, { oldest: 500n, head: 900n }), shallow] });
  const explained = await explain(alone, { target: `/v1${probe}?ledger_version=20` });
  assert.deepEqual(
    explained.nodes?.asked.map(({ name }) => name),
    ['full-0'],
  );
  assert.deepEqual(
    explained.nodes?.leftOut.map(({ name }) => name),
    ['full-1'],
  );
  assert.match(explained.nodes?.leftOut[0]?.because ?? '', /pruned the version/);
});

test('a version above every head: no answer is cached before a node reaches it', async () => {
  const { kept, nodes } = await explain(gateway, { target: `/v1${probe}?ledger_version=5000` });
  assert.match(kept ?? '', /Nothing while no node has reached the version: the head is 900/);
  assert.deepEqual(
    nodes?.asked.map(({ holding }) => holding),
    ['unknown', 'unknown'],
  );
});

test('a read of latest: its bound by header, override, plan or default, and the state that reads of it share', async (t) => {
  const access = accessConfig({
    keys: { file: keysFile(t, []).path, redis: false },
    plans: {
      open: planConfig(),
      slow: planConfig({ maxStalenessMs: 60_000 }),
      exact: planConfig({ maxStalenessMs: 0 }),
    },
    anonymous: 'open',
  });
  const overrides = [
    { view: '0x1::coin::*', maxStalenessMs: 5_000 },
    { route: 'account', maxStalenessMs: 9_000 },
  ] as const;
  const { node, gateway } = await nodeAndGateway(t, {
    access,
    config: { latest: { maxStalenessMs: 1_000, overrides } },
  });
  const explained = async (query: Readonly<Record<string, string>>): Promise<string> => {
    const { latest, answer } = await explain(gateway, query);
    const { state, version } = latest ?? { state: '' };
    return (
      answer?.body.message ?? [state.split(':', 1)[0], version ?? '-', latest?.['bound'], latest?.['by']].join(', ')
    );
  };
  await gateway.get('/accounts/0x1?x=1');
  node.clock.advance(50n);
  await gateway.get(probe, { 'ledgergate-max-staleness': '0', 'ledgergate-min-version': '950' });
  const target = `/v1${probe}`;
  const body = '{"function":"0x01::coin::balance","type_arguments":[],"arguments":[]}';
  const cases: readonly (readonly [query: Readonly<Record<string, string>>, expected: string | RegExp])[] = [
    [{ target: '/v1/accounts/0x1' }, 'in use, 900, 9000 ms, latest.overrides[1] route account'],
    [{ target: '/v1/accounts/0x1?x=1' }, 'in use, 900, 9000 ms, latest.overrides[1] route account'],
    [{ target: '/v1/accounts/0x1', plan: 'exact' }, 'not shared, -, 0 ms, access.plans.exact'],
    [{ target: '/v1/view', body }, /, 5000 ms, latest\.overrides\[0\] view 0x1::coin::\*$/],
    [{ target: '/v1/accounts/0x1/transactions' }, /, 1000 ms, latest\.maxStaleness$/],
    [{ target: '/v1' }, /, 1000 ms, latest\.maxStaleness$/],
    [{ target, plan: 'slow' }, /, 60000 ms, access\.plans\.slow$/],
    [{ target, plan: 'slow', maxStaleness: '3s' }, /, 3000 ms, Ledgergate-Max-Staleness$/],
    [{ target, maxStaleness: '1h' }, 'Ledgergate-Max-Staleness is no duration such as 200ms or 2s: "1h"'],
  ];
  for (const [query, expected] of cases) {
    const found = await explained(query);
    if (typeof expected === 'string') assert.equal(found, expected);
    else assert.match(found, expected);
  }

  const unknown = await askExplain(gateway, { target, plan: 'slo' });
  assert.deepEqual(
    [unknown.status, JSON.parse(unknown.text)],
    [400, { message: 'plan: there is none of this name (did you mean "slow"?)' }],
  );
});

test('a read of latest: the version it would be pinned to, and how old that is', async (t) => {
  const { full, archival, gateway } = await twoTiers(t);
  const target = `/v1${probe}`;
  const unknown = await explain(gateway, { target });
  assert.match(unknown.latest?.state ?? '', /^unknown/);
  assert.equal(unknown.key, undefined);

  await gateway.get(probe);
  const before = full.requests + archival.requests;
  const explained = await explain(gateway, { target });
  await sleep(250);
  const old = await explain(gateway, { target });

  assert.equal(explained.latest?.state, 'in use');
  assert.deepEqual(
    [explained.latest?.version, explained.read?.version, explained.memory?.state],
    ['900', '900', 'held'],
  );
  assert.ok((explained.latest?.ageMs ?? Infinity) <= 200);
  assert.match(old.latest?.state ?? '', /^(?:too old|in use)/);
  // Only the look that reads of latest ask for themselves, ahead of time.
  assert.ok(full.requests + archival.requests - before <= 2);
});

test('with latest.maxStaleness 0 no read of latest is cached', async (t) => {
  const config = { latest: { maxStalenessMs: 0 } };
  const gateway = await testGateway(t, { full: [await fakeNode(t)], config });
  const explained = await explain(gateway, { target: `/v1${probe}` });
  assert.match(explained.kept ?? '', /^never/);
});

test('a view, a transaction and passed paths are explained', async () => {
  const body = '{"arguments":["0x1"],"function":"0x0001::coin::balance","type_arguments":[]}';
  const view = await explain(gateway, { target: '/v1/view?ledger_version=600', method: 'POST', body });
  assert.equal(view.read?.subject, 'json:{"function":"0x1::coin::balance","type_arguments":[],"arguments":["0x1"]}');
  assert.doesNotMatch(view.kept ?? '', /404/);

  const transaction = await explain(gateway, { target: `/v1/transactions/by_hash/0x${'1'.repeat(64)}` });
  assert.match(transaction.kept ?? '', /10 minutes/);
  assert.deepEqual(
    transaction.nodes?.asked.map(({ name }) => name),
    ['full-0', 'archive-0'],
  );

  const block = await explain(gateway, { target: '/v1/blocks/by_version/20?x=1' });
  assert.deepEqual([block.route, block.kept], ['block_by_version', 'never: passed through']);
  assert.equal(block.nodes?.asked[0]?.name, 'archive-0');
  const unknown = await explain(gateway, { target: '/v1/blocks/latest' });
  assert.deepEqual([unknown.route, unknown.kept], ['pass_through', 'never: passed through']);

  const submission = await explain(gateway, { target: '/v1/transactions', body: '{}' });
  assert.equal(submission.route, 'submit');
  const info = await explain(gateway, { target: '/v1' });
  assert.equal(info.route, 'ledger_info');
});

test('a refused request is explained by the error that the client would get', async () => {
  const paths = ['/accounts/0xzz/module/coin', `${probe}?ledger_version=x`, '/accounts/0x1/../x', '/set_failpoint'];
  for (const path of paths) {
    const { answer } = await explain(gateway, { target: `/v1${path}` });
    // Clients normalise dots in paths: what is sent is sent as it is.
    if (path.includes('..')) assert.equal(answer?.status, 400);
    else {
      const reply = await gateway.get(path);
      assert.deepEqual([answer?.status, answer?.body], [reply.status, JSON.parse(reply.text)]);
    }
  }
  const view = { target: '/v1/view', method: 'POST', body: '{}', contentType: 'text/plain' };
  assert.equal((await explain(gateway, view)).answer?.status, 415);
  assert.equal((await askExplain(gateway, {})).status, 400);
  assert.equal((await askExplain(gateway, { target: '/v1', verbose: 'yes' })).status, 400);
});

redisTest('a look-up in Redis is explained: found, absent, damaged, unavailable', async (t, server) => {
  const redis = redisAt(server.url);
  const gateway = await testGateway(t, { full: [await fakeNode(t)], config: { cache: { redis } } });
  const path = `${probe}?ledger_version=7`;
  const ask = () => explain(gateway, { target: `/v1${path}` });
  const absent = await eventually(ask, ({ redis }) => redis?.reference === 'absent');
  const [history] = await server.run((client) => client.hkeys('lg:history:1.nogenesis'));
  const page = `lg:1:nogenesis:${history}:1|resource|0x1/0x1::ledgergate_sample::Probe|json|0`;
  assert.deepEqual([absent.key?.redis, absent.key?.field], [page, '7']);

  const { body } = await gateway.get(path);
  const found = await eventually(ask, ({ redis }) => redis?.reference === 'found');
  const { answer, bytes, ttlMs, digest } = found.redis as Readonly<Record<string, unknown>>;
  assert.deepEqual([answer, bytes, digest], ['found', body.length, found.memory?.['digest']]);
  assert.ok(typeof ttlMs === 'number' && ttlMs > 0 && ttlMs <= 60_000);

  await server.run((client) => client.set(`lg:1:nogenesis:=${String(digest)}`, 'damaged'));
  assert.equal((await ask()).redis?.['answer'], 'damaged');
  await server.run((client) => client.hset(page, '7', 'damaged'));
  assert.equal((await ask()).redis?.reference, 'damaged');
  await server.kill();
  assert.equal((await ask()).redis?.reference, 'unavailable');
  assert.equal((await purge(gateway, { everything: true })).complete, false);
});

test('a node that is ejected for reads of recent state is explained so for these, and not for views', async (t) => {
  const [bad, good] = [await fakeNode(t), await fakeNode(t)];
  const gateway = await testGateway(t, { full: [bad, good] });
  bad.faults.add({ kind: 'answer', status: 502, body: '' }, { when: ({ route }) => route === 'balance' });
  let reads = 0;
  await until(async () => {
    const paths = Array.from({ length: 10 }, (_, n) => `/accounts/0x1/balance/0x${reads + n}a?ledger_version=900`);
    reads += paths.length;
    await Promise.all(paths.map((path) => gateway.get(path)));
    return (await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}')) === 1;
  });
  const ejected = async (query: Record<string, string>) => {
    const { nodes } = await explain(gateway, query);
    return nodes?.asked.map(({ name, isEjected }) => [name, isEjected]);
  };
  const target = '/v1/accounts/0x1/balance/0xa?ledger_version=900';
  const body = '{"function":"0x1::coin::balance","type_arguments":[],"arguments":[]}';

  assert.deepEqual(await ejected({ target }), [
    ['full-1', false],
    ['full-0', true],
  ]);
  const views = await ejected({ target: '/v1/view?ledger_version=900', method: 'POST', body });
  assert.deepEqual(
    views?.map(([, isEjected]) => isEjected),
    [false, false],
  );
});

// Named operators, their roles, and the audit log of what they do.

const [ana, ben, single] = ['token-of-ana-hush-4711', 'token-of-ben-hush-4712', 'token-of-all-hush-4713'];
const tokens = [
  { name: 'ana', role: 'admin', sha256: hash('sha256', ana) },
  { name: 'ben', role: 'read', sha256: hash('sha256', ben) },
] as const;

/** A gateway, calls of its `/admin`, and the lines of its audit log. */
async function operated(t: TestContext, operations: Partial<Config['operations']>) {
  const lines: LogLine[] = [];
  const { gateway } = await nodeAndGateway(t, {
    config: { operations, log: { level: 'silent' } },
    onLog: (line) => lines.push(line),
  });
  const admin = async (method: 'GET' | 'POST' | 'PUT' | 'HEAD', path: string, token?: string, body?: object) => {
    const reply = await fetchReply(`${gateway.operationsUrl}/admin/${path}`, {
      method,
      body: body === undefined ? null : JSON.stringify(body),
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
    });
    return reply.status;
  };
  const audited = () =>
    lines
      .filter(({ level }) => level === 35)
      .map(({ time: _, pid: __, hostname: ___, level: ____, msg, ...fields }) => {
        assert.equal(msg, 'audit');
        return fields;
      });
  return { gateway, lines, admin, audited };
}

test('an operator who may read gets GET of /admin alone, and a token that the config drops gets nothing', async (t) => {
  const { gateway, admin } = await operated(t, { token: single, tokens });

  assert.deepEqual(
    [await admin('GET', 'log', ben), await admin('HEAD', 'log', ben), await admin('GET', 'log', ana)],
    [200, 200, 200],
  );
  assert.equal(await admin('POST', 'purge', ben, { everything: true }), 403);
  assert.equal(await admin('PUT', 'log', ben, { level: 'silent' }), 403);
  assert.equal(await admin('POST', 'upstreams/full-0/drain', ben), 403);
  assert.equal(await admin('POST', 'purge', ana, { everything: true }), 200);
  assert.equal(await admin('POST', 'purge', single, { everything: true }), 200);
  for (const token of [undefined, `${ana}x`, hash('sha256', ana), ana.slice(1)])
    assert.equal(await admin('GET', 'log', token), 401);

  const { config } = gateway.reloads;
  await gateway.reloads.take({ ...config, operations: { ...config.operations, tokens: [tokens[1]] } });
  assert.deepEqual([await admin('GET', 'log', ana), await admin('GET', 'log', ben)], [401, 200]);
});

test('each change has one line of the audit log, whatever the level of the log, with the name of the operator', async (t) => {
  const { lines, admin, audited } = await operated(t, { token: single, tokens });

  await admin('POST', 'purge', ana, { account: '0x1' });
  await admin('POST', 'purge', ana, { account: 'hush' });
  await admin('POST', 'upstreams/full-0/drain', single);
  await admin('POST', 'upstreams/full-0/resume', ana);
  await admin('POST', 'upstreams/hush/drain', ana);
  await admin('PUT', 'log', ana, { level: 'fatal' });
  await admin('PUT', 'log', ben, { level: 'trace' });
  // No change, or no operator.
  await admin('GET', 'log', ana);
  await admin('GET', 'explain?target=/v1', ben);
  await admin('POST', 'purge', 'wrong-token-hush-4714', { everything: true });

  const from = '127.0.0.1';
  assert.deepEqual(audited(), [
    { operator: 'ana', from, action: 'purge', purge: 'account', status: 200 },
    { operator: 'ana', from, action: 'purge', status: 400 },
    { operator: 'token', from, action: 'drain', upstream: 'full-0', status: 200 },
    { operator: 'ana', from, action: 'resume', upstream: 'full-0', status: 200 },
    { operator: 'ana', from, action: 'drain', status: 404 },
    { operator: 'ana', from, action: 'log', logLevel: 'fatal', status: 200 },
    { operator: 'ben', from, action: 'log', status: 403 },
  ]);
  assert.doesNotMatch(JSON.stringify(lines), /hush/);
});

test('names of operators are unique, and no token is empty', async (t) => {
  const sha256 = hash('sha256', ana);
  const file = configFile(
    t,
    JSON.stringify({
      upstreams: [{ name: 'a', url: 'http://10.0.0.1/v1' }],
      operations: {
        tokens: [
          { name: 'ana', sha256 },
          { name: 'ana', sha256: sha256.slice(1) },
          { name: 'token', sha256: hash('sha256', '') },
        ],
      },
    }),
  );

  const { code, out } = await call(['check', file, '--offline']);

  assert.equal(code, 2);
  assert.match(out, /operations\.tokens\[1\]\.name: the name "ana" is already taken by operations\.tokens\[0\]/);
  assert.match(out, /operations\.tokens\[1\]\.sha256: must be the SHA-256 of a token, 64 hex digits/);
  assert.match(out, /operations\.tokens\[2\]\.name: "token" stands for an operator without a name/);
  assert.match(out, /operations\.tokens\[2\]\.sha256: is the SHA-256 of an empty token/);
});
