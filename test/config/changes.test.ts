import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { configurationMarkdown } from '../../scripts/generate-config-docs.ts';
import { compareConfigs, isLive, liveKeys } from '../../src/config/changes.ts';
import type { Config } from '../../src/config/config.ts';
import { loadText, oneUpstream } from './config-file.ts';

const config = (t: TestContext, text: string): Config => loadText(t, oneUpstream + text).config;

test('the same config in another form changes nothing', (t) => {
  const before = config(t, 'upstream: { timeout: 1s }\ncache: { redis: { url: "redis://a:1" } }');
  const after = config(t, 'cache: { redis: { url: "redis://a:1" } }\nupstream: { timeout: 1000ms }');

  const { live, restart, effective } = compareConfigs(before, after);

  assert.deepEqual([live, restart], [[], []]);
  assert.equal(effective, before);
});

/**
 * The file before and after (`\n`: a line break, `OPEN`: a plan for all), and the keys that change at run time and at a restart.
 */
const cases = `
- | log: { level: warn } | log.level | -
- | log: { access: { share: 0.5, slow: 1s } } | log.access | -
- | listen: { port: 1234, host: 127.0.0.1 } | - | listen.host listen.port
- | operations: { port: 1, readyInOutage: false } | operations.readyInOutage | operations.port
- | operations: { token: "0123456789abcdef" } | operations.token | -
- | operations: { hosts: [gateway.example] } | operations.hosts | -
- | upstream: { hedge: false, connections: 7 } | upstream.hedge | upstream.connections
- | upstream: { timeout: 1s, deadline: 2s } | upstream.deadline upstream.timeout | -
- | latest: { maxStaleness: 1s } | latest | -
- | latest: { overrides: [{ route: view, maxStaleness: 1s }] } | latest | -
access: { OPEN } | access: { anonymous: p, plans: { p: { maxStaleness: 1s } } } | access.plans | -
- | follow: { mode: off }\\nstreams: { max: 0, interval: 2s } | follow streams | -
- | cache: { memory: { maxBytes: 1MiB } } | cache.memory.maxBytes | -
- | cache: { redis: { url: "redis://a:1" } } | - | cache.redis
cache: { redis: { url: "redis://a:1" } } | - | - | cache.redis
cache: { redis: { url: "redis://a:1" } } | cache: { redis: { cluster: ["redis://a:1"], ttl: 1d, keyPrefix: b } } | cache.redis.ttl | cache.redis.keyPrefix cache.redis
access: { redis: { url: "redis://a:1" }, OPEN } | access: { redis: { url: "redis://b:1", timeout: 9ms }, OPEN } | access.redis.timeout | access.redis
access: { OPEN } | access: { redis: { url: "redis://a:1" }, OPEN } | - | access.redis
- | encode: { enabled: false, signingDomain: X } | encode.enabled | encode.signingDomain
- | dialect: aptos\\nworkers: 2 | - | dialect workers
- | tracing: { endpoint: "http://a:1" } | - | tracing
tracing: { endpoint: "http://a:1" } | tracing: { endpoint: "http://a:1", share: 1 } | - | tracing.share
tracing: { endpoint: "http://a:1" } | tracing: { endpoint: "http://b:1", headers: { a: b } } | tracing.headers | tracing.endpoint
cache: { redis: { url: "rediss://a:1" } } | cache: { redis: { url: "rediss://u:p@a:1", tls: { ca: ca.crt } } } | cache.redis.url cache.redis.tls | -
cache: { redis: { sentinel: { name: n, nodes: ["redis://u:p@a:1"] } } } | cache: { redis: { sentinel: { name: n, nodes: ["redis://u:q@a:1"] } } } | cache.redis.sentinel | -
cache: { redis: { cluster: ["redis://u:p@a:1", "redis://b:1"] } } | cache: { redis: { cluster: ["redis://u:q@a:1", "redis://c:1"] } } | - | cache.redis
access: { redis: { url: "redis://:p@a:1" }, OPEN } | access: { redis: { url: "redis://:q@a:1" }, OPEN } | access.redis.url | -
- | chainId: testnet | - | chainId
chainId: mainnet | chainId: 1 | - | -`;

for (const row of cases.split('\n').slice(1)) {
  const [before = '', after = '', ...keys] = row
    .split(' | ')
    .map((cell) =>
      cell === '-' ? '' : cell.replaceAll('\\n', '\n').replace('OPEN', 'anonymous: p, plans: { p: {} }'),
    );
  test(`from "${before}" to "${after}"`, (t) => {
    const { live, restart } = compareConfigs(config(t, before), config(t, after));
    assert.deepEqual([live.join(' '), restart.join(' ')], keys);
  });
}

test('the effective config has new values of live keys alone', (t) => {
  const before = config(t, '');
  const after = loadText(
    t,
    'upstreams: [{ name: b, url: "http://10.0.0.2/v1" }]\nlisten: { port: 1 }\nupstream: { connections: 1, hedge: false }',
  ).config;

  const { effective, live } = compareConfigs(before, after);

  assert.deepEqual(live, ['upstream.hedge', 'upstreams']);
  assert.equal(effective.upstreams[0]?.url, 'http://10.0.0.2/v1');
  assert.equal(effective.listen.port, before.listen.port);
  assert.equal(effective.upstream.connections, before.upstream.connections);
  assert.equal(effective.upstream.hedge, undefined);
  assert.ok(Object.isFrozen(effective) && Object.isFrozen(effective.upstream));
});

test('keys of a closed endpoint are live; closing or opening one needs a restart', (t) => {
  const open = config(t, '');
  const access = { header: 'authorization' } as NonNullable<Config['access']>;
  const closed: Config = { ...open, access };
  const changed: Config = { ...open, access: { ...access, header: 'x-key' } };

  assert.deepEqual(compareConfigs(closed, changed).live, ['access.header']);
  for (const [before, after] of [
    [open, closed],
    [closed, open],
  ] as const) {
    const { live, restart, effective } = compareConfigs(before, after);
    assert.deepEqual([live, restart, effective.access], [[], ['access'], before.access]);
  }
});

test('every live key is a key of the file, and the documentation lists the live ones', () => {
  const rows = configurationMarkdown().split('\n');
  for (const key of liveKeys) {
    const row = rows.find((line) => line.startsWith(`| \`${key}\` |`));
    assert.ok(row !== undefined, key);
    if (!row.includes('| section')) assert.match(row, /\| yes \|/, key);
  }
  assert.match(rows.find((line) => line.startsWith('| `listen.port` |')) ?? '', /\| restart \|/);
  assert.deepEqual([isLive('upstreams[].url'), isLive('upstream.connections')], [true, false]);
});
