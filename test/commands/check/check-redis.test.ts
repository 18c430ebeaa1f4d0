import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { configFile } from '../../config/config-file.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { freePort } from '../../support/free-port.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';
import { call } from '../command-line.ts';

const fit = ['--maxmemory', '64mb', '--maxmemory-policy', 'volatile-lfu'];

/** A sound config; `cache.redis` starts at line 4, column 5. */
async function redisFile(t: TestContext, redis: string): Promise<string> {
  const node = await fakeNode(t, {});
  return configFile(t, `upstreams:\n  - { name: n0, url: "${node.url}" }\ncache:\n    redis: ${redis}\n`);
}

/** Lines of `check` below its table. */
async function said(
  file: string,
  ...flags: string[]
): Promise<{ readonly code: number | null; readonly lines: string[] }> {
  const { code, out } = await call(['check', file, ...flags]);
  const text = flags.includes('--offline') ? out : out.slice(out.indexOf('\n\n') + 2);
  return { code, lines: text.replaceAll(file, 'F').split('\n') };
}

test('a Redis that is set up well is nothing to talk about', { skip: noRedis }, async (t) => {
  const server = await redisServer(t, fit);
  assert.deepEqual(await said(await redisFile(t, `{ url: "${server.url}" }`)), { code: 0, lines: ['F: fine'] });
  assert.equal(await server.run((client) => client.dbsize()), 0);
});

test('a Redis that is away is reported at its key, exit code 1', { skip: noRedis }, async (t) => {
  const at = `127.0.0.1:${await freePort()}`;
  const file = await redisFile(t, `{ url: "redis://:hush@${at}/0" }`);
  const why = `redis://:***@${at}/0 cannot be used: connection refused: does Redis listen on this port?`;
  assert.deepEqual(await said(file), { code: 1, lines: [`F:4:19: cache.redis.url: ${why}`, 'F: 1 problem'] });
  assert.deepEqual(await said(file, '--offline'), { code: 0, lines: ['F: fine'] });
});

test('a Redis that hangs is reported within a bound', { skip: noRedis }, async (t) => {
  const server = await redisServer(t, fit);
  server.pause();
  const { code, lines } = await said(await redisFile(t, `{ url: "${server.url}" }`));
  assert.equal(code, 1);
  assert.match(lines[0] ?? '', /^F:4:19: cache\.redis\.url: redis:\/\/127\.0\.0\.1:\d+ cannot be used: time-out/);
});

test('a wrong password, and none at all, are reported without it', { skip: noRedis }, async (t) => {
  const server = await redisServer(t, [...fit, '--requirepass', 'right']);
  for (const [credentials, why] of [
    [':wrong@', /WRONGPASS/],
    ['', /NOAUTH/],
  ] as const) {
    const { code, lines } = await said(
      await redisFile(t, `{ url: "${server.url.replace('//', `//${credentials}`)}" }`),
    );
    assert.equal(code, 1);
    assert.match(lines[0] ?? '', why);
    assert.ok(!lines.join().includes('wrong'), lines.join());
  }
  assert.equal((await said(await redisFile(t, `{ url: "${server.url.replace('//', '//:right@')}" }`))).code, 0);
});

const warned: Readonly<Record<string, { readonly args: readonly string[]; readonly says: readonly RegExp[] }>> = {
  'as it comes': { args: [], says: [/has no memory limit/, /evicts nothing/] },
  'without a limit': { args: ['--maxmemory-policy', 'volatile-lfu'], says: [/has no memory limit/] },
  'that evicts nothing': { args: ['--maxmemory', '64mb'], says: [/evicts nothing/] },
  'that evicts anything': {
    args: ['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru'],
    says: [/may evict what must stay \(maxmemory-policy allkeys-lru\)/],
  },
};

for (const [what, { args, says }] of Object.entries(warned)) {
  test(`a Redis ${what} is a warning, exit code 0`, { skip: noRedis }, async (t) => {
    const server = await redisServer(t, args);
    const { code, lines } = await said(await redisFile(t, `{ url: "${server.url}" }`));
    assert.deepEqual([code, lines.length, lines.at(-1)], [0, says.length + 1, 'F: fine']);
    for (const [index, pattern] of says.entries()) {
      assert.match(lines[index] ?? '', /^warning: cache\.redis .*volatile-lfu \(docs\/redis\.md\)$/);
      assert.match(lines[index] ?? '', pattern);
    }
  });
}

const counted: Readonly<Record<string, readonly RegExp[]>> = {
  noeviction: [],
  'volatile-lfu': [/may evict limits and usage \(maxmemory-policy volatile-lfu\)/],
  'allkeys-lru': [/may evict limits and usage \(maxmemory-policy allkeys-lru\)/],
};

for (const [policy, says] of Object.entries(counted)) {
  test(`a Redis that also holds limits and usage evicts nothing: ${policy}`, { skip: noRedis }, async (t) => {
    const server = await redisServer(t, ['--maxmemory', '64mb', '--maxmemory-policy', policy]);
    const access = 'access: { anonymous: free, plans: { free: { requests: 9 } } }';
    const { code, lines } = await said(await redisFile(t, `{ url: "${server.url}" }\n${access}`));
    assert.deepEqual([code, lines.length, lines.at(-1)], [0, says.length + 1, 'F: fine']);
    for (const [index, pattern] of says.entries()) {
      assert.match(lines[index] ?? '', pattern);
      assert.match(lines[index] ?? '', /set maxmemory and maxmemory-policy noeviction \(docs\/limits\.md\)$/);
    }
  });
}

test('a Redis that takes no writes is a warning', { skip: noRedis }, async (t) => {
  const [primary, server] = [await redisServer(t), await redisServer(t, fit)];
  await server.run((client) => client.replicaof('127.0.0.1', primary.port));
  const { code, lines } = await said(await redisFile(t, `{ url: "${server.url}" }`));
  assert.equal(code, 0);
  assert.match(lines[0] ?? '', /^warning: cache\.redis takes no writes, so nothing is shared: READONLY/);
});

test('a server that does not let itself be asked is a warning', { skip: noRedis }, async (t) => {
  const server = await redisServer(t, fit);
  const rules = ['on', '>secret', '~lg:*', '+@all', '-info'];
  await server.run((client) => client.call('ACL', 'SETUSER', 'limited', ...rules));
  const { code, lines } = await said(await redisFile(t, `{ url: "${server.url.replace('//', '//limited:secret@')}" }`));
  assert.equal(code, 0);
  assert.match(lines[0] ?? '', /^warning: cache\.redis hides its memory limit/);
});

test('every server of a cluster is looked at', { skip: noRedis }, async (t) => {
  const { servers, target } = await redisCluster(t);
  assert.ok(target.kind === 'cluster');
  for (const server of servers) {
    await server.run((client) => client.config('SET', 'maxmemory', '64mb', 'maxmemory-policy', 'volatile-lfu'));
  }
  const file = await redisFile(t, `{ cluster: ${JSON.stringify(target.urls)} }`);
  assert.deepEqual(await said(file), { code: 0, lines: ['F: fine'] });
  await servers[2]!.run((client) => client.config('SET', 'maxmemory-policy', 'allkeys-lru'));
  assert.match((await said(file)).lines[0] ?? '', /allkeys-lru/);
});
