import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { after, test, type TestContext } from 'node:test';
import { configFile } from '../../config/config-file.ts';
import { nodeBalancer } from '../../support/balancer.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { freePort } from '../../support/free-port.ts';
import { signingKey, testIssuer } from '../../support/issuer.ts';
import { noRedis, redisServer, redisTest } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';
import { nodeVersions, withoutNode } from '../../support/runs.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { tlsFront } from '../../support/tls-front.ts';
import { authority } from '../../support/tls.ts';
import { call, start } from '../command-line.ts';

/** For tests that change nothing of it. */
const node = await fakeNode({ after });

/** A config of upstreams, one a line from line 2 on; what stands at column 20 is the address. */
function fleetFile(t: TestContext, urls: readonly string[], rest = ''): string {
  const lines = urls.map((url, index) => `  - { name: n${index}, url: "${url}" }`);
  return configFile(t, `upstreams:\n${lines.join('\n')}\n${rest}`);
}

/** An address on which nothing listens. */
const deadAddress = async (): Promise<string> => `http://127.0.0.1:${await freePort()}/v1`;

test('a fleet that is fine: a table with chain, window and lag, exit code 0; each node is asked eight times', async (t) => {
  const full = await fakeNode(t, { oldest: 500n, head: 890n });
  const archival = await fakeNode(t, { oldest: 0n, head: 900n });
  const file = fleetFile(t, [full.url, `${archival.url}/`]);

  const { code, out, err } = await call(['check', file]);

  assert.deepEqual({ code, err }, { code: 0, err: '' });
  const rows = out.split('\n').map((line) => line.split(/ {2,}/));
  assert.deepEqual(rows.slice(0, 3), [
    ['UPSTREAM', 'URL', 'TIER', 'DIALECT', 'CHAIN', 'OLDEST', 'HEAD', 'LAG', 'STATE'],
    ['n0', full.url, 'full', 'node', '1', '500', '890', '10', 'fine'],
    ['n1', `${archival.url}/`, 'full', 'node', '1', '0', '900', '0', 'fine'],
  ]);
  assert.equal(rows.at(-1)?.join(), `${file}: fine`);
  assert.deepEqual(
    full.log.received.map(({ method, url }) => `${method} ${url}`),
    Array<string>(8).fill('GET /v1'),
  );
});

test('what is wrong with an upstream is reported at its line, exit code 1', async (t) => {
  const good = await fakeNode(t, {});
  const aptos = await fakeNode(t, { dialect: 'aptos' });
  const foreign = await fakeNode(t, { chainId: 4 });
  const bare = await fakeNode(t, {});
  bare.faults.add({ kind: 'no ledger headers' });
  const starting = await fakeNode(t, {});
  starting.faults.add({ kind: 'unavailable' });
  const cut = await fakeNode(t, {});
  cut.faults.add({ kind: 'reset' });
  const silent = await fakeNode(t, {});
  silent.faults.add({ kind: 'hang' });
  const urls = [good, aptos, foreign, bare, starting, cut, silent].map(({ url }) => url);
  const rest = 'upstream: { timeout: 1s }\n';
  const file = fleetFile(t, [...urls, await deadAddress(), 'http://no-such-host.invalid/v1'], rest);

  const { code, out } = await call(['check', file]);

  const reported = out.split('\n').filter((line) => line.startsWith(`${file}:`));
  assert.equal(code, 1);
  assert.deepEqual(
    reported.map((line) => line.slice(file.length + 1)),
    [
      '3:22: upstreams[1].url: other dialect (it speaks aptos, the fleet node): all nodes of a fleet speak one dialect',
      '4:22: upstreams[2].url: other chain (it is of chain 4, the fleet of 1): the gateway sends it no requests',
      '5:22: upstreams[3].url: no ledger headers: is this the base address of a ledger node?',
      '6:22: upstreams[4].url: error status (status 503): does the node itself work?',
      '7:22: upstreams[5].url: connection cut: is the node, or a proxy before it, starting?',
      '8:22: upstreams[6].url: time-out (1000 ms): is the node overloaded, or does a firewall drop packets?',
      '9:22: upstreams[7].url: connection refused: does the node listen on this port?',
      reported.at(-2)?.slice(file.length + 1) ?? '',
      ' 8 problems',
    ],
  );
  // Resolvers differ in their refusals.
  assert.match(reported.at(-2) ?? '', /:10:22: upstreams\[8\]\.url: name not found /);
});

test('with a chainId nodes of any other chain are reported, whatever most of them are', async (t) => {
  const nodes = [await fakeNode(t, { chainId: 2 }), await fakeNode(t, { chainId: 2 }), await fakeNode(t, {})];
  const file = fleetFile(
    t,
    nodes.map(({ url }) => url),
    'chainId: mainnet\n',
  );

  const { code, out } = await call(['check', file]);
  const byFlag = await call(['check', file, '--chain-id', 'testnet']);

  assert.equal(code, 1);
  assert.deepEqual(
    out.split('\n').filter((line) => line.startsWith(file)),
    [2, 3]
      .map(
        (line) =>
          `${file}:${line}:22: upstreams[${line - 2}].url: other chain (it is of chain 2, the fleet of 1): the gateway sends it no requests`,
      )
      .concat(`${file}: 2 problems`),
  );
  assert.match(byFlag.out, /:4:22: upstreams\[2\]\.url: other chain \(it is of chain 1, the fleet of 2\)/);
});

test('--offline asks no node', async (t) => {
  const node = await fakeNode(t, {});
  const file = fleetFile(t, [node.url, await deadAddress()]);

  assert.deepEqual(await call(['check', file, '--offline']), { code: 0, out: `${file}: fine`, err: '' });
  assert.equal(node.requests, 0);
});

test('a wrong config is reported whole, no node is asked, exit code 2', async (t) => {
  const node = await fakeNode(t, {});
  const file = fleetFile(t, [node.url], 'dialekt: aptos\nupstream: { timeout: 5 }\n');

  const { code, out } = await call(['check', file]);

  assert.equal(code, 2);
  assert.deepEqual(out.split('\n'), [
    `${file}:3:1: dialekt: unknown key (did you mean "dialect"?)`,
    `${file}:4:22: upstream.timeout: expected a duration with a unit (ms, s, m, h, d), such as "5s" or "200ms", got 5`,
    `${file}: 2 problems`,
  ]);
  assert.equal(node.requests, 0);
});

test('--format json reports the same to programs', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });
  const dead = await deadAddress();
  const file = fleetFile(t, [node.url, dead], 'upstream: { maxAttempts: 1 }\n');

  const { code, out } = await call(['check', file, '--format', 'json']);

  const message = 'connection refused: does the node listen on this port?';
  const known = { dialect: 'node', chainId: 1, oldest: '500', head: '900', lag: '0' };
  const unknown = { dialect: null, chainId: null, oldest: null, head: null, lag: null };
  assert.equal(code, 1);
  assert.deepEqual(JSON.parse(out), {
    file,
    fine: false,
    problems: [{ file, line: 3, column: 22, path: 'upstreams[1].url', message }],
    warnings: ['upstream.maxAttempts is 1: a request that one upstream does not answer fails'],
    upstreams: [
      { name: 'n0', tier: 'full', url: node.url, reachable: true, ...known, reason: null, fault: null },
      {
        name: 'n1',
        tier: 'full',
        url: dead,
        reachable: false,
        ...unknown,
        reason: 'connection refused',
        fault: message,
      },
    ],
  });
});

test('an address from the environment is not printed', async (t) => {
  const { out } = await call(['check', fleetFile(t, ['${NODE}'])], { NODE: await deadAddress() });

  assert.match(out, /^n0 +\$\{NODE\} /m);
  assert.ok(!out.includes('127.0.0.1'), out);
});

test('several nodes behind one address are a problem, with the remedy', async (t) => {
  const nodes = [await fakeNode(t, { oldest: 500n, head: 900n }), await fakeNode(t, { oldest: 0n, head: 900n })];
  const { url } = await nodeBalancer(t, nodes);
  const file = fleetFile(t, [url]);

  const { code, out } = await call(['check', file]);

  assert.equal(code, 1);
  const message = 'several nodes answer at one address, with different ledgers: list each node, or set discover: dns';
  assert.ok(out.includes(`${file}:2:22: upstreams[0].url: ${message}`), out);
  assert.match(out, / several nodes\n/);
});

test('a name with discover: dns has a row for each of its addresses', async (t) => {
  const url = `http://localhost:${node.port}/v1`;
  const file = configFile(t, `upstreams:\n  - { name: nodes, url: "${url}", discover: dns }\n`);

  const { out } = await call(['check', file]);

  const row = out.split('\n').find((line) => line.includes(`${url} (127.0.0.1)`));
  assert.match(row ?? '', /^nodes-[0-9a-f]{6} .* fine$/);
});

// `check` on certificates: an expired one is served, and refused by every client.

test('keys of an issuer of tokens that cannot be used are a problem with their place, unusable ones a warning', async (t) => {
  const issuer = await testIssuer(t, [signingKey('short', 'RS256', 1_024)]);
  const jwt = `{ issuer: a, audience: b, jwks: "${issuer.url}" }`;
  const file = fleetFile(t, [node.url], `access:\n  jwt: ${jwt}\n  plans: { free: {} }\n`);
  const lines = async (...flags: string[]) => {
    const { code, out } = await call(['check', file, ...flags]);
    return [code, ...out.split('\n').filter((line) => line.includes('jwks'))];
  };
  const fault = 'the keys of the issuer cannot be used: no usable key for RS256, ES256, EdDSA';
  assert.deepEqual(await lines(), [1, `${file}:4:40: access.jwt.jwks: ${fault}`]);
  assert.deepEqual(await lines('--offline'), [0]);

  issuer.keys = [...issuer.keys, signingKey('fine').jwk];
  const warning = 'warning: access.jwt.jwks: 1 keys of the issuer are unusable, and are left out';
  assert.deepEqual(await lines(), [0, warning]);
});

test('an expired certificate is a problem with its place, and check exits with 1', async (t) => {
  const { cert, key } = authority(t).certify('gateway', 0);
  const tls = `listen:\n  tls:\n    cert: ${cert}\n    key: ${key}\n`;
  const file = configFile(t, `upstreams: [{ name: a, url: "http://127.0.0.1:1/v1" }]\n${tls}`);

  const { code, out } = await call(['check', '--offline', file]);

  assert.match(out, /ledgergate\.yaml:4:11: listen\.tls\.cert: expired at \d{4}-/);
  assert.equal(code, 1);
});

const fit = ['--maxmemory', '64mb', '--maxmemory-policy', 'volatile-lfu'];

/** A sound config; `cache.redis` starts at line 4, column 5. */
function redisFile(t: TestContext, redis: string): string {
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

test('a Redis that is away is reported at its key, exit code 1', { skip: noRedis }, async (t) => {
  const at = `127.0.0.1:${await freePort()}`;
  const why = `redis://:***@${at}/0 cannot be used: connection refused: does Redis listen on this port?`;
  const file = redisFile(t, `{ url: "redis://:hush@${at}/0" }`);
  assert.deepEqual(await said(file), { code: 1, lines: [`F:4:19: cache.redis.url: ${why}`, 'F: 1 problem'] });
  assert.deepEqual(await said(file, '--offline'), { code: 0, lines: ['F: fine'] });
  const { lines } = await said(twoRedisFile(t, (await redisServer(t, fit)).url, `redis://:hush@${at}/0`));
  assert.deepEqual(lines, [`F:6:17: access.redis.url: ${why}`, 'F: 1 problem']);
});

test(
  'what a Redis refuses is reported without the password, and one that hangs within a bound',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t, [...fit, '--requirepass', 'right']);
    const rules = ['on', '>secret', '~lg:*', '+@all', '-info'];
    const as = async (credentials: string) =>
      said(redisFile(t, `{ url: "${server.url.replace('//', `//${credentials}`)}" }`));
    await server.run((client) => client.call('ACL', 'SETUSER', 'limited', ...rules), { password: 'right' });
    for (const [credentials, code, line] of [
      [':wrong@', 1, /WRONGPASS/],
      ['', 1, /NOAUTH/],
      [':right@', 0, /^F: fine$/],
      ['limited:secret@', 0, /^warning: cache\.redis hides its memory limit/],
    ] as const) {
      const { code: ended, lines } = await as(credentials);
      assert.equal(ended, code);
      assert.match(lines[0] ?? '', line);
      assert.doesNotMatch(lines.join(), /wrong|right|secret/);
    }
    server.pause();
    const { code, lines } = await as(':right@');
    assert.equal(code, 1);
    assert.match(lines[0] ?? '', /^F:4:19: cache\.redis\.url: redis:\/\/\S+127\.0\.0\.1:\d+ cannot be used: time-out/);
  },
);

const [noLimit, evictsNothing] = [/has no memory limit/, /evicts nothing/];
const evictsAny = /may evict what must stay \(maxmemory-policy allkeys-lru\)/;
const ofLimits = (policy: string) => new RegExp(`may evict keys, limits and usage \\(maxmemory-policy ${policy}\\)`);

/** What a Redis holds, its memory and policy, and the warnings. */
const memories: readonly (readonly ['answers' | 'limits too', string, string, ...RegExp[]])[] = [
  ['answers', '0', 'noeviction', noLimit, evictsNothing],
  ['answers', '0', 'volatile-lfu', noLimit],
  ['answers', '64mb', 'volatile-lfu'],
  ['answers', '64mb', 'noeviction', evictsNothing],
  ['answers', '64mb', 'allkeys-lru', evictsAny],
  ['limits too', '64mb', 'noeviction'],
  ['limits too', '64mb', 'volatile-lfu', ofLimits('volatile-lfu')],
  ['limits too', '64mb', 'allkeys-lru', ofLimits('allkeys-lru')],
];

redisTest('memory settings that do not fit what a Redis holds are warnings, exit code 0', async (t, server) => {
  const access = 'access: { anonymous: free, plans: { free: { requests: 9 } } }';
  const files = {
    answers: redisFile(t, `{ url: "${server.url}" }`),
    'limits too': redisFile(t, `{ url: "${server.url}" }\n${access}`),
  };
  const advice = {
    answers: /volatile-lfu \(docs\/redis\.md\)$/,
    'limits too': /noeviction, or .*\(docs\/limits\.md\)$/,
  };
  for (const [held, maxmemory, policy, ...says] of memories) {
    await server.run((client) => client.config('SET', 'maxmemory', maxmemory, 'maxmemory-policy', policy));
    const { code, lines } = await said(files[held]);
    assert.deepEqual(
      [code, lines.length, lines.at(-1)],
      [0, says.length + 1, 'F: fine'],
      `${held} ${maxmemory} ${policy}`,
    );
    for (const [index, pattern] of says.entries()) {
      assert.match(lines[index] ?? '', /^warning: cache\.redis /);
      assert.match(lines[index] ?? '', advice[held]);
      assert.match(lines[index] ?? '', pattern);
    }
  }
});

const counting = ['--maxmemory', '64mb', '--maxmemory-policy', 'noeviction'];

/** A sound config; `access.redis` starts at line 6, column 10. */
function twoRedisFile(t: TestContext, cacheUrl: string, accessUrl: string): string {
  const access = `access:\n  redis: { url: "${accessUrl}" }\n  anonymous: free\n  plans: { free: { requests: 9 } }`;
  return redisFile(t, `{ url: "${cacheUrl}" }\n${access}`);
}

test('a Redis of limits alone needs noeviction, and the cache beside it does not', { skip: noRedis }, async (t) => {
  const [cache, access] = [await redisServer(t, fit), await redisServer(t, counting)];
  assert.deepEqual(await said(twoRedisFile(t, cache.url, access.url)), { code: 0, lines: ['F: fine'] });
  assert.deepEqual(
    [await access.run((client) => client.dbsize()), await cache.run((client) => client.dbsize())],
    [0, 0],
  );

  const { code, lines } = await said(twoRedisFile(t, access.url, cache.url));

  const [ofCache, ofAccess] = ['volatile-lfu (docs/redis.md)', 'noeviction (docs/limits.md)'];
  const set = 'set maxmemory and maxmemory-policy';
  assert.deepEqual(
    [code, ...lines],
    [
      0,
      `warning: cache.redis evicts nothing: once it is full nothing new is shared; ${set} ${ofCache}`,
      `warning: access.redis may evict keys, limits and usage (maxmemory-policy volatile-lfu); ${set} ${ofAccess}`,
      'F: fine',
    ],
  );

  const both = await said(twoRedisFile(t, access.url, access.url.replace('127.0.0.1', 'localhost')));
  const warning = 'warning: access.redis is the server of cache.redis: answers take the memory of limits';
  assert.deepEqual([both.code, ...both.lines], [0, warning, 'F: fine']);
});

test('a Redis that takes no writes is a warning by what it holds', { skip: noRedis }, async (t) => {
  const [primary, replica] = [await redisServer(t, fit), await redisServer(t, fit)];
  await replica.run((client) => client.replicaof('127.0.0.1', primary.port));
  const [ofCache, ofAccess] = [
    await said(redisFile(t, `{ url: "${replica.url}" }`)),
    await said(twoRedisFile(t, primary.url, replica.url)),
  ];
  assert.deepEqual([ofCache.code, ofAccess.code], [0, 0]);
  assert.match(ofCache.lines[0] ?? '', /^warning: cache\.redis takes no writes, so nothing is shared: READONLY/);
  assert.match(
    ofAccess.lines[0] ?? '',
    /^warning: access\.redis takes no writes, so limits are not counted in it: READONLY/,
  );
});

test('every server of a cluster is looked at', { skip: noRedis }, async (t) => {
  const { servers, target } = await redisCluster(t);
  assert.ok(target.kind === 'cluster');
  for (const server of servers) {
    await server.run((client) => client.config('SET', 'maxmemory', '64mb', 'maxmemory-policy', 'volatile-lfu'));
  }
  const file = redisFile(t, `{ cluster: ${JSON.stringify(target.urls)} }`);
  assert.deepEqual(await said(file), { code: 0, lines: ['F: fine'] });
  await servers[2]!.run((client) => client.config('SET', 'maxmemory-policy', 'allkeys-lru'));
  assert.match((await said(file)).lines[0] ?? '', /allkeys-lru/);
});

test(
  'nodes and Redis are asked with the files of TLS, and a refusal is reported at its key',
  { skip: noRedis },
  async (t) => {
    const ca = authority(t);
    const own = ca.certify('gateway');
    const front = await tlsFront(t, node, ca.certify('node'), ca.ca);
    const redis = await redisServer(t, fit, { served: ca.certify('redis'), clientCa: ca.file });
    const fileOf = (tls: string): string =>
      configFile(
        t,
        `upstreams:\n  - name: a\n    url: ${front.url()}\n    ${tls}\n` +
          `cache:\n  redis:\n    url: rediss://127.0.0.1:${redis.tlsPort}/0\n    ${tls}\n`,
      );
    const pair = `cert: ${own.cert}, key: ${own.key}`;

    const fine = await call(['check', fileOf(`tls: { ca: ${ca.file}, ${pair} }`)]);
    assert.equal(fine.code, 0, fine.out);

    const unsure = await call(['check', fileOf('')]);
    assert.equal(unsure.code, 1);
    assert.match(unsure.out, /:3:10: upstreams\[0\]\.url: TLS \(\w+\): is the certificate valid/);
    assert.match(unsure.out, /:7:10: cache\.redis\.url: rediss:\S+ cannot be used: TLS/);

    const broken = await call(['check', fileOf(`tls: { ca: ${own.key}, ${pair} }`)]);
    assert.equal(broken.code, 2);
    assert.match(broken.out, /:4:16: upstreams\[0\]\.tls\.ca: holds no certificates in PEM form/);
    assert.match(broken.out, /:8:16: cache\.redis\.tls\.ca: holds no certificates in PEM form/);

    const ended = ca.certify('ended', -1);
    const late = await call(['check', fileOf(`tls: { ca: ${ca.file}, cert: ${ended.cert}, key: ${ended.key} }`)]);
    assert.equal(late.code, 1);
    assert.match(late.out, /warning: upstreams\[0\]\.tls\.cert expired at \d{4}-/);
    assert.match(late.out, /warning: cache\.redis\.tls\.cert expired at \d{4}-/);
  },
);

const closed =
  'F:4:18: cache.store.path: its folder cannot be used: it is missing, or closed to this user\nF: 1 problem';
const stores: readonly (readonly [name: string, found: RegExp | string, code: number, maxBytes?: string])[] = [
  ['store', 'F: fine', 0],
  ['gone/store', closed, 1],
  ['file', /^F:4:18: cache\.store\.path: its folder cannot be used/, 1],
  ['.', /cache\.store\.maxBytes is more than the disk has free: 1000000\.0 GiB beside/, 0, '1000000GiB'],
];

for (const [name, found, code, maxBytes = '64MiB'] of stores) {
  test(`a store of ${maxBytes} at ${name}: exit code ${code}, and nothing is created`, async (t) => {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, 'file'), '');
    const store = `cache:\n  store: { path: "${join(folder, name)}", maxBytes: ${maxBytes} }\n`;
    const file = configFile(t, `upstreams:\n  - { name: n0, url: "${node.url}" }\n${store}`);

    const { code: ended, out } = await call(['check', file]);

    const text = out.slice(out.indexOf('\n\n') + 2).replaceAll(file, 'F');
    assert.equal(ended, code);
    if (typeof found === 'string') assert.equal(text, found);
    else assert.match(text, found);
    assert.deepEqual(readdirSync(folder), ['file']);
  });
}

const oneNode = 'upstreams:\n  - { name: n0, url: "http://127.0.0.1:9" }\n';
const withStore = `${oneNode}cache:\n  store: { path: store }\n`;
const oldest = nodeVersions.find(({ name }) => name === 'Node 22');
assert.ok(oldest !== undefined);

test(
  'check and start warn of an experimental SQLite where a store needs it',
  { skip: withoutNode(oldest) },
  async (t) => {
    const options = { node: oldest.node ?? '' };
    const [plain, stored] = [configFile(t, oneNode), configFile(t, withStore)];

    const without = await start(t, ['check', '--offline', plain], options).ended;
    const checked = await start(t, ['check', '--offline', stored], options).ended;
    const ports = ['--host', '127.0.0.1', '--port', '0', '--operations-port', '0'];
    const served = start(t, ['serve', '--config', stored, ...ports], options);

    assert.deepEqual(without, { code: 0, out: `${plain}: fine\n`, err: '' });
    assert.match(checked.out, /^warning: cache\.store: SQLite is experimental in Node 22\.\d+\.\d+: /);
    assert.equal(checked.code, 0);
    await served.line(/^warning: cache\.store: SQLite is experimental in Node 22\./);
  },
);

test('a store on a Node without SQLite is a problem of check and start; without a store it is none', async (t) => {
  const env = { NODE_OPTIONS: '--no-experimental-sqlite' };
  const [plain, stored] = [configFile(t, oneNode), configFile(t, withStore)];
  const problem = `${stored}:4:3: cache.store: needs SQLite, which this Node ${process.versions.node} lacks\n`;

  const without = await start(t, ['check', '--offline', plain], { env }).ended;
  const checked = await start(t, ['check', stored], { env }).ended;
  const served = await start(t, ['serve', '--config', stored], { env }).ended;

  assert.deepEqual(without, { code: 0, out: `${plain}: fine\n`, err: '' });
  assert.deepEqual(checked, { code: 2, out: `${problem}${stored}: 1 problem\n`, err: '' });
  assert.deepEqual(served, { code: 2, out: '', err: problem });
});
