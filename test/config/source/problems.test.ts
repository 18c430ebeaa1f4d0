import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationMs, findDurationMs, findSizeBytes, sizeBytes } from '../../../src/config/schema/schema-parts.ts';
import { loadConfig } from '../../../src/config/source/load.ts';
import { loadText, oneUpstream, problemsOf } from '../config-file.ts';

/** A faulty second line below a valid fleet, with `\n` for a line break, and below it the problems, without the file's name. */
const secondLines = `
dialekt: aptos
  2:1: dialekt: unknown key (did you mean "dialect"?)
frobnicate: 1
  2:1: frobnicate: unknown key
timeout: 5s
  2:1: timeout: unknown key (did you mean "upstream.timeout"?)
upstream: { probe_interval: 1s }
  2:13: upstream.probe_interval: unknown key (did you mean "probeInterval"?)
cache: { memory: { maxbytes: 1GiB } }
  2:20: cache.memory.maxbytes: unknown key (did you mean "maxBytes"?)
upstream: { hedge: { quantil: 0.9 } }
  2:22: upstream.hedge.quantil: unknown key (did you mean "quantile"?)
quantile: 0.9
  2:1: quantile: unknown key (did you mean "upstream.hedge.quantile"?)
url: http://b/v1
  2:1: url: unknown key (did you mean "upstreams[0].url"?)
access: { anonymous: p, plans: { p: { opertions: [read] } } }
  2:39: access.plans.p.opertions: unknown key (did you mean "operations"?)
access: { anonymous: p, burst: 9, plans: { p: {} } }
  2:25: access.burst: unknown key (did you mean "access.plans.NAME.burst"?)
__proto__: 1
  2:1: __proto__: unknown key
"a key": 1
  2:1: ["a key"]: unknown key
1: x
  2:1: ["1"]: unknown key
? [a]
  2:3: a key must be a word
# Wrong words
dialect: aptoss
  2:10: dialect: expected "node", "aptos" or "auto", got "aptoss" (did you mean "aptos"?)
dialect: 7
  2:10: dialect: expected "node", "aptos" or "auto", got 7
workers: many
  2:10: workers: expected a whole number from 1 to 1024, or "auto", got "many"
workers: 0
  2:10: workers: expected a whole number from 1 to 1024, got 0
encode: { enabled: yes }
  2:20: encode.enabled: expected true or false, got "yes"
chainId: 0
  2:10: chainId: expected a whole number from 1 to 255, got 0
chainId: 256
  2:10: chainId: expected a whole number from 1 to 255, got 256
chainId: "1"
  2:10: chainId: expected a whole number from 1 to 255, "mainnet" or "testnet", got "1"
chainId: main
  2:10: chainId: expected a whole number from 1 to 255, "mainnet" or "testnet", got "main"
chainId: mainet
  2:10: chainId: expected a whole number from 1 to 255, "mainnet" or "testnet", got "mainet" (did you mean "mainnet"?)
workers: atuo
  2:10: workers: expected a whole number from 1 to 1024, or "auto", got "atuo" (did you mean "auto"?)
latest: { overrides: [{ route: view }, { route: view, maxStalenes: 1s }] }
  2:23: latest.overrides[0].maxStaleness: is required
  2:55: latest.overrides[1].maxStalenes: unknown key (did you mean "maxStaleness"?)
latest: { overrides: [{ route: view, maxStaleness: 61m }] }
  2:52: latest.overrides[0].maxStaleness: expected a duration from 0ms to 1h, got "61m"
# Wrong forms
listen: 8080
  2:9: listen: expected a mapping of keys (host, port, basePath, ...), got 8080
listen: [8080]
  2:9: listen: expected a mapping of keys (host, port, basePath, ...), got a list
cache: { redis: "redis://:hush@r:6379" }
  2:17: cache.redis: expected a mapping of keys (url, cluster, sentinel, ...), got an address
access: { anonymous: free, plans: "http://a" }
  2:35: access.plans: expected plans by name, got an address
listen:
  2:8: listen: is empty: give it a value or leave the key out
listen: { port: "8080" }
  2:17: listen.port: expected a whole number from 0 to 65535, got "8080"
listen: { port: 65536 }
  2:17: listen.port: expected a whole number from 0 to 65535, got 65536
listen: { port: 80.5 }
  2:17: listen.port: expected a whole number from 0 to 65535, got 80.5
listen: { host: "[::1]" }
  2:17: listen.host: expected an IP address (IPv6 without brackets) or a host name, got "[::1]"
listen: { basePath: /v1/ }
  2:21: listen.basePath: expected a path such as "/v1": a leading slash, no trailing one, got "/v1/"
encode: { shadow: 2 }
  2:19: encode.shadow: expected a share from 0 to 1, got 2
operations: { token: hunter2 }
  2:22: operations.token: must be a text of at least 16 visible ASCII characters, such as "\${LEDGERGATE_ADMIN_TOKEN}"
operations: { token: 12345678901234567 }
  2:22: operations.token: must be a text of at least 16 visible ASCII characters, such as "\${LEDGERGATE_ADMIN_TOKEN}"
operations: { hosts: ["gateway.example:9090"] }
  2:23: operations.hosts[0]: expected a host name such as "gateway.example" or "*.example", without a port, got "gateway.example:9090"
operations: { hosts: "*" }
  2:22: operations.hosts: expected a list of host names, got "*"
listen: { tls: { cert: a.crt } }
  2:16: listen.tls.key: is required
listen: { tls: { key: a.key } }
  2:16: listen.tls.cert: is required
# Units
upstream: { timeout: 5 }
  2:22: upstream.timeout: expected a duration with a unit (ms, s, m, h, d), such as "5s" or "200ms", got 5
upstream: { timeout: 5sec }
  2:22: upstream.timeout: expected a duration with a unit (ms, s, m, h, d), such as "5s" or "200ms", got "5sec"
upstream: { timeout: 0s }
  2:22: upstream.timeout: expected a duration from 1ms to 1h, got "0s"
upstream: { probeInterval: 30d }
  2:28: upstream.probeInterval: expected a duration from 10ms to 1h, got "30d"
cache: { memory: { maxBytes: 268435456 } }
  2:30: cache.memory.maxBytes: expected a size with a unit (B, KiB, MiB, GiB, TiB), such as "256MiB", got 268435456
cache: { memory: { maxBytes: 1B } }
  2:30: cache.memory.maxBytes: expected a size of at least 1MiB, got "1B"
# Impossible pairs
upstream: { timeout: 20s }
  2:22: upstream.timeout: upstream.timeout (20s) is longer than upstream.deadline (10s)
upstream: { deadline: 1s }
  2:23: upstream.deadline: upstream.timeout (5s) is longer than upstream.deadline (1s)
latest: { waitForVersion: 11s }
  2:27: latest.waitForVersion: latest.waitForVersion (11s) is longer than upstream.deadline (10s)
listen: { port: 9090 }
  2:17: listen.port: listen.port and operations.port are both 9090
operations: { host: "::", port: 8080 }
  2:33: operations.port: listen.port and operations.port are both 8080
cache: { redis: { ttl: 1d } }
  2:10: cache.redis: needs exactly one of url, cluster, sentinel; got none of them
access: { redis: { timeout: 1s }, anonymous: a, plans: { a: {} } }
  2:11: access.redis: needs exactly one of url, cluster, sentinel; got none of them
access: { redis: { url: "redis://a", cluster: ["redis://a"] }, anonymous: a, plans: { a: {} } }
  2:11: access.redis: needs exactly one of url, cluster, sentinel; got url and cluster
access: { redis: { url: "redis://a", tls: { ca: a.crt } }, anonymous: a, plans: { a: {} } }
  2:38: access.redis.tls: needs addresses that begin with rediss://
cache: { redis: { cluster: ["rediss://a", "redis://b"], tls: {} } }
  2:57: cache.redis.tls: needs addresses that begin with rediss://
cache: { redis: { url: "rediss://a", tls: { cert: a.crt } } }
  2:45: cache.redis.tls.cert: needs key: a certificate and its key are a pair
access: { redis: { url: "rediss://a", tls: { key: a.key } }, anonymous: a, plans: { a: {} } }
  2:46: access.redis.tls.key: needs cert: a certificate and its key are a pair
cache: { redis: { sentinel: { name: a, nodes: ["redis://b"] }, tls: {} } }
  2:64: cache.redis.tls: needs addresses that begin with rediss://
latest: { overrides: [{ maxStaleness: 1s }, { view: "0x1::a::b", route: view, maxStaleness: 1s }] }
  2:23: latest.overrides[0]: needs exactly one of view, route; got neither
  2:45: latest.overrides[1]: needs exactly one of view, route; got both
# YAML itself
listen: {}\\nlisten: {}
  3:1: listen: the key is given twice, first at line 2, column 1
upstream: { timeout: 5, timeout: 1s }
  2:22: upstream.timeout: expected a duration with a unit (ms, s, m, h, d), such as "5s" or "200ms", got 5
  2:25: upstream.timeout: the key is given twice, first at line 2, column 13
---\\nlisten: {}
  2:1: a config file holds one YAML document
listen: !secret x
  2:9: not valid YAML: unresolved tag: !secret
workers: *nobody
  2:10: workers: there is no anchor &nobody before this alias
listen: &l { port: 8081 }\\nfrobnicate: *l
  3:1: frobnicate: unknown key
frobnicate: &a [*a]
  2:1: frobnicate: unknown key
  2:17: too many aliases, or one that contains itself
# Keys and plans
access:
  2:8: access: is empty: give it a value or leave the key out
access: { plans: { free: {} } }
  2:1: access: needs keys (keys.file or keys.redis), tokens (jwt), or a plan for requests without one (anonymous)
access: { keys: { redis: false }, anonymous: 7, plans: { free: {} } }
  2:46: access.anonymous: expected a letter, then at most 62 letters, digits or any of "._-", got 7
access: { jwt: { issuer: a, audience: b, jwks: "http://idp.example/k", algorithms: [HS256] }, plans: { free: {} } }
  2:48: access.jwt.jwks: expected an https:// address (http:// on this machine alone), or a path, got another address
  2:85: access.jwt.algorithms[0]: expected "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512" or "EdDSA", got "HS256" (did you mean "RS256"?)
access: { jwt: { issuer: a, audience: b, jwks: k.json, plan: fre }, plans: { free: {} } }
  2:62: access.jwt.plan: there is no plan "fre" in access.plans (did you mean "free"?)
access: { keys: { file: k.yaml } }
  2:9: access.plans: is required
access: { anonymous: fre, plans: { free: {} } }
  2:22: access.anonymous: there is no plan "fre" in access.plans (did you mean "free"?)
access: { anonymous: free, plans: { free: {}, 1st: {} } }
  2:47: access.plans["1st"]: expected a letter, then at most 62 letters, digits or any of "._-", got "1st"
access: { keys: { redis: true }, plans: { free: {} } }
  2:26: access.keys.redis: needs access.redis, or cache.redis: it holds the keys
access: { header: X-Api-Key, anonymous: free, plans: { free: {} } }
  2:19: access.header: expected a header name such as "authorization" or "x-api-key", got "X-Api-Key"
access: { anonymous: free, plans: { free: {} }, trustedProxies: [10.0.0.0/33] }
  2:66: access.trustedProxies[0]: expected an address or a network such as "10.0.0.0/8" or "fd00::/8", got "10.0.0.0/33"
access: { anonymous: free, plans: { free: { origins: [app.example] } } }
  2:55: access.plans.free.origins[0]: expected an origin such as "https://app.example": scheme, host, perhaps a port, got "app.example"
`;

/** The same, for lines that are made. */
const madeLines: readonly (readonly [line: string, ...problems: string[]])[] = [
  ...['0x1::coin', '0xg::coin::name', '0x1::coin::na*', '0x1::*::name', '*', '0x1::coin::'].map(
    (view) =>
      [
        `latest: { overrides: [{ view: "${view}", maxStaleness: 1s }] }`,
        `F:2:31: latest.overrides[0].view: expected a function such as "0x1::coin::balance", or "0x1::coin::*" for every one of a module, got "${view}"`,
      ] as const,
  ),
  [
    'latest: { overrides: [{ route: resorce, maxStaleness: 1s }, { route: submit, maxStaleness: 1s }] }',
    ...[
      'F:2:32: latest.overrides[0].route: expected LIST, got "resorce" (did you mean "resource"?)',
      'F:2:70: latest.overrides[1].route: expected LIST, got "submit"',
    ].map((text) =>
      text.replace(
        'LIST',
        '"resource", "module", "view", "account", "balance", "resources", "modules", "table_item", "raw_table_item", "transactions", "account_transactions", "transaction_summaries" or "ledger_info"',
      ),
    ),
  ],
  [
    `latest: { overrides: [${Array.from({ length: 101 }, () => '{ route: view, maxStaleness: 1h }').join()}] }`,
    'F:2:22: latest.overrides: must have at most 100 overrides',
  ],
  ...['x-request-id', 'x-node-key', 'x-aptos-key', 'accept', 'host', 'cookie', 'x-forwarded-for', 'traceparent'].map(
    (name): [string, string] => [
      `access: { header: ${name}, anonymous: free, plans: { free: {} } }`,
      'F:2:19: access.header: has another meaning, or is forwarded to nodes: keys must never reach one',
    ],
  ),
];

function testLine(line: string, problems: readonly string[]): void {
  test(`wrong: ${line.replaceAll('\n', ' / ')}`, (t) => {
    assert.deepEqual(problemsOf(t, `${oneUpstream}${line}\n`), problems);
  });
}

for (const row of secondLines.split(/\n(?=[^ #])/).slice(1)) {
  const [line = '', ...problems] = row.replace(/\n(?:#.*)?$/, '').split('\n  ');
  testLine(
    line.replaceAll('\\n', '\n'),
    problems.map((text) => `F:${text}`),
  );
}
for (const [line, ...problems] of madeLines) testLine(line, problems);

/** Claims, the lines of the file, and the problems, without its name. */
const files = `
# an empty file
  1:1: upstreams: is required
# no fleet
| dialect: node
  1:1: upstreams: is required
# an empty fleet
| upstreams: []
  1:12: upstreams: needs at least one upstream
# a file that is a list
| - a
  1:1: expected a mapping of keys (upstreams), got a list
# the section of the fleet in place of its list
| upstream:
|   - { name: a, url: "http://a/v1" }
  2:3: upstream: expected a mapping of keys (timeout, deadline, probeInterval, ...), got a list (did you mean "upstreams"?)
# the list of the fleet in place of its section
| upstreams: { timeout: 1s }
  1:12: upstreams: expected a list of upstreams, got a mapping (did you mean "upstream"?)
# nodes by name in place of their list
| upstreams: { a: "http://a/v1" }
  1:12: upstreams: expected a list of upstreams, got a mapping
# addresses in place of upstreams
| upstreams: ["http://a/v1"]
  1:13: upstreams[0]: expected a mapping of keys (name, url), got an address
# an address in place of the list of upstreams
| upstreams: "http://a/v1"
  1:12: upstreams: expected a list of upstreams, got an address
# a key with a slip in place of a required one
| upstreams: [{ name: a, ulr: "http://a/v1" }]
  1:24: upstreams[0].ulr: unknown key (did you mean "url"?)
# an upstream without its required keys
| upstreams:
|   - tier: full
  2:5: upstreams[0].name: is required
  2:5: upstreams[0].url: is required
# a sequence that is never closed
| upstreams: [
  2:1: not valid YAML: flow sequence in block collection must be sufficiently indented and end with a ]
# two upstreams of one name
| upstreams:
|   - { name: a, url: "http://a/v1" }
|   - { name: a, url: "http://b/v1" }
  3:13: upstreams[1].name: the name "a" is already taken by upstreams[0]
# credentials of a node that are none, without a word of what they are
| upstreams:
|   - name: a
|     url: "http://a/v1"
|     headers: { Host: hush-1, X-Key: "hush\\n2", x-key: hush-3, "a b": hush-4, X-Number: 5 }
  4:16: upstreams[0].headers.Host: is no header for a credential: the gateway writes it itself
  4:37: upstreams[0].headers.X-Key: must be visible ASCII characters, such as "Bearer \${NODE_KEY}"
  4:48: upstreams[0].headers.x-key: the header is given twice
  4:63: upstreams[0].headers["a b"]: expected the name of a header such as "Authorization", got "a b"
  4:88: upstreams[0].headers.X-Number: must be visible ASCII characters, such as "Bearer \${NODE_KEY}"
# a collector of traces that is none, without a word of its credentials
| upstreams: [{ name: a, url: "http://a/v1" }]
| tracing:
|   endpoint: "http://me:hush@collector:4318"
|   headers: { Content-Type: hush-1, "X-Key": "hush\\n2" }
|   share: 2
  3:13: tracing.endpoint: must not carry credentials
  4:14: tracing.headers.Content-Type: is no header for a credential: the gateway writes it itself
  4:45: tracing.headers.X-Key: must be visible ASCII characters, such as "Bearer \${NODE_KEY}"
  5:10: tracing.share: expected a share from 0 to 1, got 2
# the whole address of a collector of traces
| upstreams: [{ name: a, url: "http://a/v1" }]
| tracing: { endpoint: "http://a:4318/v1/traces" }
  2:22: tracing.endpoint: must end before /v1/traces, which is appended
# everything at once
| listen: { hots: x, port: 9090 }
| upstreams:
|   - name: full a
|     url: \${NOPE}
|     tierr: archival
|   - { name: b, url: "http://b/v1", tier: archive }
| upstream:
|   timeout: 20s
  1:11: listen.hots: unknown key (did you mean "host"?)
  1:26: listen.port: listen.port and operations.port are both 9090
  3:11: upstreams[0].name: expected a letter, then at most 62 letters, digits or any of "._-", got "full a"
  4:10: upstreams[0].url: the environment variable NOPE is not set
  5:5: upstreams[0].tierr: unknown key (did you mean "tier"?)
  6:42: upstreams[1].tier: expected "full" or "archival", got "archive" (did you mean "archival"?)
  8:12: upstream.timeout: upstream.timeout (20s) is longer than upstream.deadline (10s)
`;

for (const entry of files.split('\n# ').slice(1)) {
  const [claim, ...lines] = entry.trimEnd().split('\n');
  const startingWith = (mark: string) =>
    lines.filter((line) => line.startsWith(mark)).map((line) => line.slice(mark.length));
  test(`wrong: ${claim}`, (t) => {
    const text = startingWith('| ').map((line) => `${line}\n`);
    const problems = startingWith('  ').map((line) => `F:${line}`);
    assert.deepEqual(problemsOf(t, text.join('')), problems);
  });
}

test('a missing file is a problem', () => {
  assert.throws(() => loadConfig({ file: 'no/such.yaml' }), {
    message: 'cannot read no/such.yaml: there is no such file',
  });
});

// Values: durations, sizes and addresses.

test('a duration is a whole number and a unit', () => {
  const table = { '0ms': 0, '200ms': 200, '5s': 5_000, '2m': 120_000, '3h': 10_800_000, '7d': 604_800_000 };
  for (const [text, ms] of Object.entries(table)) assert.equal(findDurationMs(text), ms, text);
});

test('a size is a whole number and a unit', () => {
  const table = { '0B': 0, '64KiB': 65_536, '256MiB': 268_435_456, '2GiB': 2_147_483_648, '1TiB': 1_099_511_627_776 };
  for (const [text, bytes] of Object.entries(table)) assert.equal(findSizeBytes(text), bytes, text);
});

test('other texts are neither', () => {
  for (const text of ['', '5', '5 s', 's', '-5s', '1.5s', '5S', '5sec', '0x5s', '5s\n', 5, null, undefined, ['5s']]) {
    assert.equal(findDurationMs(text), undefined, String(text));
  }
  for (const text of ['', '5', '5 MiB', '5MB', '5mib', '-5MiB', '1.5GiB', '5M', '9999999999TiB', 5, null]) {
    assert.equal(findSizeBytes(text), undefined, String(text));
  }
});

test('the functions for checked text refuse unchecked text', () => {
  assert.throws(() => durationMs('5'), RangeError);
  assert.throws(() => sizeBytes('5'), RangeError);
});

const fleet = (url: string): string => `upstreams: [{ name: a, url: ${JSON.stringify(url)} }]\n`;

test('valid base addresses are accepted, with or without a trailing slash', (t) => {
  const table = {
    'http://10.0.0.1:8080/v1': 'http://10.0.0.1:8080/v1',
    'http://10.0.0.1:8080/v1/': 'http://10.0.0.1:8080/v1',
    'https://node.example/a/key/v1': 'https://node.example/a/key/v1',
    'http://[::1]:8081/v1': 'http://[::1]:8081/v1',
    'http://node.example': 'http://node.example/',
    'http://node.example/': 'http://node.example/',
  };
  for (const [url, href] of Object.entries(table)) {
    assert.equal(loadText(t, fleet(url)).config.upstreams[0]?.url, href, url);
  }
});

test('others are refused with the reason, without a quote: they may contain a password', (t) => {
  const table = {
    'ftp://node/v1': 'expected a base address such as "http://10.0.0.1:8080/v1", got another address',
    '10.0.0.1:8080/v1': 'expected a base address such as "http://10.0.0.1:8080/v1", got "10.0.0.1:8080/v1"',
    'http:/node/v1': 'expected a base address such as "http://10.0.0.1:8080/v1", got "http:/node/v1"',
    'http://me:secret@node/v1': 'must not carry credentials',
    'http://secret@node/v1': 'must not carry credentials',
    'http://node/v1?': 'must end with its path: no "?" and no "#"',
    'http://node/v1?key=1': 'must end with its path: no "?" and no "#"',
    'http://node/v1#archival': 'must end with its path: no "?" and no "#"',
    'http://node:99999/v1': 'is not a valid address',
    'http://no de/v1': 'is not a valid address',
    'http://node\\v1': 'is not a valid address',
  };
  for (const [url, problem] of Object.entries(table)) {
    assert.deepEqual(problemsOf(t, fleet(url)), [`F:1:29: upstreams[0].url: ${problem}`], url);
  }
});

test("the gateway's own address is no upstream", (t) => {
  const problem = "is the gateway's own address: listen.port is 8080, too (give the gateway another port)";
  for (const url of ['http://127.0.0.1:8080/v1', 'http://localhost:8080', 'http://[::1]:8080/v1']) {
    assert.deepEqual(problemsOf(t, fleet(url)), [`F:1:29: upstreams[0].url: ${problem}`], url);
  }
  for (const url of ['http://127.0.0.1:8081/v1', 'http://10.0.0.1:8080/v1']) {
    assert.deepEqual(problemsOf(t, fleet(url)), [], url);
  }
  const elsewhere = 'listen: { host: 10.0.0.2 }\n';
  assert.deepEqual(problemsOf(t, fleet('http://127.0.0.1:8080/v1') + elsewhere), []);
});

test('an upstream with discover: dns has a host name', (t) => {
  const problemsAt = (url: string) => problemsOf(t, `upstreams: [{ name: a, discover: dns, url: "${url}" }]\n`);
  const problem = 'F:1:34: upstreams[0].discover: needs a host name in url, not an address';
  assert.deepEqual(['http://10.0.0.1:8081/v1', 'http://[fd00::1]:8081/v1'].map(problemsAt), [[problem], [problem]]);
  assert.deepEqual(problemsAt('https://nodes.ledger.svc:8081/v1'), []);
});

test('two names for one address are warned about', (t) => {
  const { warnings } = loadText(t, 'upstreams: [{ name: a, url: "http://n/v1" }, { name: b, url: "http://n/v1/" }]\n');

  assert.deepEqual(warnings, ['upstreams a and b have the same address: they are one node']);
});
