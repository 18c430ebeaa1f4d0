import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { parse, stringify } from 'yaml';
import { configurationMarkdown } from '../../scripts/generate-config-docs.ts';
import { compareConfigs, isLive, liveKeys } from '../../src/config/changes.ts';
import type { Config } from '../../src/config/config.ts';
import { storeWarnings } from '../../src/config/source/load.ts';
import { loadText, oneUpstream } from './config-file.ts';

test('absent keys have the defaults of the contract, in ms and bytes', (t) => {
  const { config, warnings } = loadText(t, oneUpstream);

  const { upstreams, ...rest } = config;
  assert.deepEqual(rest, {
    listen: { host: '0.0.0.0', port: 8080, basePath: '/v1', maxConnections: 10_000, fastPath: true },
    operations: { host: '127.0.0.1', port: 9090, readyInOutage: true },
    dialect: 'auto',
    workers: 1,
    upstream: {
      timeoutMs: 5_000,
      deadlineMs: 10_000,
      probeIntervalMs: 1_000,
      discoverIntervalMs: 10_000,
      connections: 128,
      maxAttempts: 3,
      maxLagMs: 30_000,
      hedge: { quantile: 0.95, share: 0.04 },
      audit: 0.001,
    },
    cache: { gasPriceTtlMs: 1_000, memory: { maxBytes: 256 * 2 ** 20 } },
    latest: {
      maxStalenessMs: 200,
      waitForVersionMs: 500,
      minClientStalenessMs: 0,
      maxClientStalenessMs: 10_000,
      floor: 'client',
      overrides: [],
    },
    follow: { mode: 'auto', minReads: 20 },
    streams: { max: 10_000, intervalMs: 1_000 },
    encode: { enabled: true, shadow: 0.01, signingDomain: 'APTOS' },
    log: { level: 'info', format: 'auto', access: { share: 0, slowMs: 2_000, failed: true } },
  });
  assert.deepEqual(upstreams, [{ name: 'a', url: 'http://10.0.0.1/v1', tier: 'full', weight: 1 }]);
  assert.deepEqual(warnings, []);
});

test('the config is deeply frozen', (t) => {
  const { config } = loadText(t, oneUpstream);
  const thawed: string[] = [];
  const visit = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return;
    if (!Object.isFrozen(value)) thawed.push(path);
    for (const [key, part] of Object.entries(value)) visit(part, `${path}.${key}`);
  };

  visit(config, 'config');

  assert.deepEqual(thawed, []);
});

test('bounds of plans and overrides are ms, and views have one spelling', (t) => {
  const text = `${oneUpstream}access: { anonymous: free, plans: { free: { maxStaleness: 1h }, exact: { maxStaleness: 0ms }, none: {} } }
latest:
  overrides:
    - { view: "0x${'1'.padStart(64, '0')}::coin::*", maxStaleness: 5s }
    - { view: "1::coin::name", maxStaleness: 0ms }
    - { view: "0xaBc::a::b", maxStaleness: 1ms }
    - { route: resource, maxStaleness: 1s }
`;

  const { config } = loadText(t, text);

  const plans = Object.values(config.access?.plans ?? {}) as { readonly maxStalenessMs?: number }[];
  assert.deepEqual(
    plans.map(({ maxStalenessMs }) => maxStalenessMs),
    [3_600_000, 0, undefined],
  );
  assert.deepEqual(config.latest.overrides, [
    { view: '0x1::coin::*', maxStalenessMs: 5_000 },
    { view: '0x1::coin::name', maxStalenessMs: 0 },
    { view: '0xabc::a::b', maxStalenessMs: 1 },
    { route: 'resource', maxStalenessMs: 1_000 },
  ]);
});

/** Overrides as `view` or `route`, each with the sentence about it, if any. */
const overrideCases: readonly (readonly [overrides: readonly string[], ...warnings: string[]])[] = [
  [['resource', 'resources', 'view']],
  [['0x1::coin::name', '0x1::coin::symbol', '0x1::coin::*', '0x1::coins::name', '0x2::coin::name', 'view']],
  [['0x1::coin::*', '0x01::coin::name'], '[1] view 0x1::coin::name never applies: [0] view 0x1::coin::*'],
  [['0x1::coin::name', '0x1::coin::name'], '[1] view 0x1::coin::name never applies: [0] view 0x1::coin::name'],
  [['resource', 'view', 'resource'], '[2] route resource never applies: [0] route resource'],
  [
    ['view', '0x1::coin::*', '0x1::coin::*'],
    '[1] view 0x1::coin::* never applies: [0] route view',
    '[2] view 0x1::coin::* never applies: [0] route view',
  ],
];

for (const [overrides, ...warnings] of overrideCases) {
  test(`${overrides.join(', ')}: ${warnings.length} override(s) never apply`, (t) => {
    const list = overrides.map((name) => `{ ${name.includes(':') ? 'view' : 'route'}: "${name}", maxStaleness: 1s }`);

    const found = loadText(t, `${oneUpstream}latest: { overrides: [${list.join()}] }`).warnings;

    const expected = warnings.map((text) => `${text} matches all of its reads, and comes first`);
    assert.deepEqual(
      found.map((text) => text.replaceAll('latest.overrides', '')),
      expected,
    );
  });
}

const attempts = 'upstream.maxAttempts is 1: a request that one upstream does not answer fails';
const names =
  'operations.host is 0.0.0.0 and operations.hosts is not set: a request for a public name, such as gateway.example, gets 421. List the public names, or [] for none';

for (const [text, ...warnings] of [
  ['upstream: { maxAttempts: 1 }', attempts],
  ['workers: auto'],
  ['operations: { host: 127.1.2.3 }'],
  ['operations: { host: "::1" }'],
  ['operations: { host: localhost }'],
  ['operations: { host: 0.0.0.0, hosts: [] }'],
  ['operations: { host: 0.0.0.0 }', names],
] as const) {
  test(`${text} has ${warnings.length} warnings`, (t) => {
    assert.deepEqual(loadText(t, `${oneUpstream}${text}\n`).warnings, warnings);
  });
}

test('names of hosts are lower case, and the chain is a number, also when the file has its name', (t) => {
  const { operations } = loadText(
    t,
    `${oneUpstream}operations: { hosts: [Gateway.Example, "*.Svc.Example"] }\n`,
  ).config;
  const chainIdOf = (text: string) => loadText(t, oneUpstream + text).config.chainId;

  assert.deepEqual(operations.hosts, ['gateway.example', '*.svc.example']);
  assert.deepEqual(['', 'chainId: 7', 'chainId: mainnet', 'chainId: testnet'].map(chainIdOf), [undefined, 7, 1, 2]);
});

test('a quota without a place that keeps it is a warning', (t) => {
  const withQuota = (more = '', others = '') =>
    loadText(t, `${oneUpstream}access: { anonymous: free, plans: { free: { quota: { day: 5 } } }${more} }\n${others}`);
  assert.deepEqual(withQuota().warnings, [
    'access.plans.free.quota: a restart forgets what is used: set access.redis or cache.redis, or a folder (access.usage.path, or cache.store)',
  ]);
  assert.deepEqual(withQuota(', usage: { path: usage }').warnings, []);
  assert.deepEqual(withQuota(', redis: { url: "redis://127.0.0.1:1" }').warnings, []);
  const { config, warnings } = withQuota('', 'cache: { store: { path: /var/lib/store, maxBytes: 1GiB } }\n');
  assert.deepEqual(
    [warnings.filter((text) => text.includes('quota')), config.access?.usage.path],
    [[], '/var/lib/store'],
  );
});

test('a store on a Node whose SQLite is experimental is a warning', () => {
  const store = { path: '/var/cache/ledgergate', maxBytes: 2 ** 32 };
  const warned = ['22.19.0', '23.11.1', '24.14.9', '25.6.1'];
  const silent = ['24.15.0', '24.21.0', '25.7.0', '26.0.0'];

  for (const version of warned)
    assert.match(storeWarnings(store, version).join(), new RegExp(`^cache\\.store: .*${version}`));
  for (const version of silent) assert.deepEqual(storeWarnings(store, version), []);
  assert.deepEqual(storeWarnings(undefined, '22.19.0'), []);
});

test('the redacted config has no secret, and loads as the same config', (t) => {
  const text = `upstreams: [{ name: a, url: "https://node/\${KEY}/v1" }]
cache:
  redis: { url: "redis://me:hunter2@r:6379/0?password=hunter2", keyPrefix: lg }
encode: { signingDomain: "\${DOMAIN}" }
`;
  const env = { KEY: 'hunter2', DOMAIN: 'APTOS' };

  const { redacted, config } = loadText(t, text, { env });

  const yaml = stringify(redacted);
  assert.ok(!yaml.includes('hunter2'), yaml);
  assert.equal(redacted.upstreams[0]?.url, 'https://node/${KEY}/v1');
  const url = 'redis://me:***@r:6379/0?password=***';
  assert.equal(redacted.cache.redis?.url, url);
  const redis = { ...config.cache.redis, target: { kind: 'single', url } };
  assert.deepEqual(loadText(t, yaml, { env }).config, { ...config, cache: { ...config.cache, redis } });
  assert.deepEqual((parse(yaml) as { upstream: unknown }).upstream, {
    timeout: '5s',
    deadline: '10s',
    probeInterval: '1s',
    discoverInterval: '10s',
    connections: 128,
    maxAttempts: 3,
    maxLag: '30s',
    hedge: { quantile: 0.95, share: 0.04 },
    audit: 0.001,
  });
});

test('the token of the operations port is masked, however it was given', (t) => {
  const env = { ADMIN: 'hunter2-hunter2-hunter2' };
  const given = loadText(t, `${oneUpstream}operations: { token: "\${ADMIN}" }\n`, { env });
  assert.deepEqual([given.config.operations.token, given.redacted.operations.token], [env.ADMIN, '${ADMIN}']);
  const written = loadText(t, `${oneUpstream}operations: { token: ${env.ADMIN} }\n`);
  assert.equal(written.config.operations.token, env.ADMIN);
  assert.ok(!JSON.stringify(written.redacted).includes('hunter2'));
  // The redacted config is a config file.
  loadText(t, stringify(written.redacted));
});

test('credentials of nodes and of the collector of traces are masked, however they were given', (t) => {
  const env = { HUSH: 'hunter2' };
  const headers = '{ Authorization: "Bearer ${HUSH}", X-Key: hunter2 }';
  const text = `upstreams: [{ name: a, url: "http://a/v1", headers: ${headers} }]
tracing: { endpoint: "https://collector.example/otlp/", headers: ${headers} }
`;

  const { config, redacted } = loadText(t, text, { env });

  const given = { authorization: 'Bearer hunter2', 'x-key': 'hunter2' };
  assert.deepEqual([config.upstreams[0]?.headers, config.tracing?.headers], [given, given]);
  const masked = { Authorization: 'Bearer ${HUSH}', 'X-Key': '*'.repeat(16) };
  assert.deepEqual([redacted.upstreams[0]?.headers, redacted.tracing?.headers], [masked, masked]);
  assert.equal(config.tracing?.endpoint, 'https://collector.example/otlp');
  // The redacted config is a config file.
  loadText(t, stringify(redacted), { env });
});

test('passwords are masked in every form of a redis address', (t) => {
  const nodes = '["redis://:hunter2@a:1", "rediss://hunter2@b:2", "redis://u:hunt@er2@c:3"]';
  for (const servers of [`cluster: ${nodes}`, `sentinel: { name: p, nodes: ${nodes} }`]) {
    const { redacted } = loadText(t, `${oneUpstream}cache: { redis: { ${servers} } }\n`);
    assert.ok(!/hunt|er2/.test(JSON.stringify(redacted)), JSON.stringify(redacted));
  }
});

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
