/** Bounds of staleness by plan, function and route, for clients on every way into the gateway. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Agent, request as send } from 'undici';
import type { Config } from '../../../src/config/config.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, testGateway, type Reply } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { submission } from '../../support/submission.ts';
import { authority } from '../../support/tls.ts';

const hour = 3_600_000;
const name = '0x1::ledgergate_sample::version';
const viewOf = (called: string): string => JSON.stringify({ function: called, type_arguments: [], arguments: [] });
const item = '{"key_type":"u64","value_type":"u64","key":"7"}';
/** A parameter that the gateway does not know: the read is passed. */
const unknown = '?x=1';
const gzip = { 'content-encoding': 'gzip' };

type Override = Config['latest']['overrides'][number];
/** A function or a module, or a route. */
type Match = `${string}::${string}` | NonNullable<Override['route']>;

const views = ['0x1::ledgergate_sample::*', 'view'] as const;

/** Reads without a version, by the functions and routes of the overrides that match each. */
const reads: readonly {
  readonly of: readonly Match[];
  readonly path: string;
  readonly body?: string | Buffer;
  readonly headers?: Record<string, string>;
}[] = [
  // The three that one view may match differ from each other in a digit of their own.
  { of: views, path: '/view', body: viewOf('0x0001::ledgergate_sample::echo') },
  { of: ['resource'], path: probe },
  { of: [name, ...views], path: '/view', body: viewOf(name) },
  { of: ['module'], path: '/accounts/0x1/module/coin' },
  { of: ['view'], path: '/view', body: gzipSync(viewOf(name)), headers: gzip },
  { of: ['account'], path: '/accounts/0x1' },
  { of: ['account'], path: `/accounts/0x1${unknown}` },
  { of: ['balance'], path: '/accounts/0x5a000001/balance/0x1::aptos_coin::AptosCoin' },
  { of: ['resources'], path: '/accounts/0x1/resources' },
  { of: ['modules'], path: '/accounts/0x1/modules?limit=5' },
  { of: ['table_item'], path: '/tables/0x5a000001/item', body: item },
  {
    of: ['raw_table_item'],
    path: '/tables/0x5a000001/raw_item',
    body: '{"key":"0x07"}',
    headers: { accept: 'application/x-bcs' },
  },
  { of: ['transactions'], path: '/transactions' },
  { of: ['account_transactions'], path: '/accounts/0x5a000001/transactions' },
  { of: ['transaction_summaries'], path: '/accounts/0x5a000001/transaction_summaries' },
  { of: ['ledger_info'], path: '' },
];
const matches = [...new Set(reads.flatMap(({ of }) => of))];
const isOfView = (match: Match): match is `${string}::${string}` => match.includes('::');

function override(of: Omit<Override, 'maxStalenessMs'>, maxStalenessMs = hour): Override {
  return { ...of, maxStalenessMs };
}

/** The version of the state in an answer, by its header, its body or the request of the node. */
function versionOf({ headers, text }: Reply, node: FakeNode, readsBefore: number): string | undefined {
  const served = headers['ledgergate-served-version'] ?? /"ledger_version":"(\d+)"/.exec(text)?.[1];
  if (served !== undefined) return served;
  // A short share is held as long as its state is shared.
  if (node.reads === readsBefore) return '900';
  return /ledger_version=(\d+)/.exec(node.lastRead?.url ?? '')?.[1] ?? String(node.clock.head);
}

// Numbered from 1, any two overrides differ in a binary digit: in one of these tests one is there without the other.
for (let digit = 1; digit <= matches.length; digit *= 2) {
  const given = matches.filter((_, index) => ((index + 1) & digit) !== 0);
  test(`of these overrides each bounds the reads that it matches, and no others: ${given.join(', ')}`, async (t) => {
    const overrides = given.map((match) => override(isOfView(match) ? { view: match } : { route: match }));
    const config = { latest: { maxStalenessMs: 0, maxClientStalenessMs: hour, overrides } };
    const { node, gateway } = await nodeAndGateway(t, { config });
    const read = ({ path, body, headers = {} }: (typeof reads)[number]) =>
      body === undefined ? gateway.get(path, headers) : gateway.post(path, body, headers);
    for (const one of reads) await read(one);
    node.clock.advance(50n);

    const isMatched = ({ of }: (typeof reads)[number]) => given.some((match) => of.includes(match));
    // The older state first: after a newer one the client gets no older one.
    for (const one of [...reads.filter(isMatched), ...reads.filter((one) => !isMatched(one))]) {
      const before = node.reads;
      const version = versionOf(await read(one), node, before);
      assert.equal(version, isMatched(one) ? '900' : '950', `${one.path} ${one.of.join()}`);
    }
  });
}

/** Node and gateway with keys of three plans; `get` has a connection of its own. */
async function withPlans(t: TestContext, latest: Partial<Config['latest']>, plans: Readonly<Record<string, number>>) {
  const node = await fakeNode(t, { head: 900n });
  const keys = Object.keys(plans).map((plan) => testKey(plan, { plan }));
  const access = accessConfig({
    keys: { file: keysFile(t, keys).path, redis: false },
    plans: {
      none: planConfig(),
      ...Object.fromEntries(
        Object.entries(plans).map(([plan, maxStalenessMs]) => [plan, planConfig({ maxStalenessMs })]),
      ),
    },
    anonymous: 'none',
  });
  const gateway = await testGateway(t, { full: [node], access, config: { latest } });
  const served = async (
    plan: string,
    path = probe,
    headers: Record<string, string> = {},
  ): Promise<string | undefined> => {
    const key = keys.find(({ entry }) => entry['name'] === plan);
    const sent = key === undefined ? headers : { authorization: `Bearer ${key.text}`, ...headers };
    const reply = await gateway.get(path, sent);
    assert.equal(reply.status, 200, reply.text);
    return reply.headers['ledgergate-served-version'];
  };
  return { node, gateway, served };
}

test('the smaller bound of plan and override holds, in place of the default; a header precedes both', async (t) => {
  const latest = { maxStalenessMs: 0, maxClientStalenessMs: hour, overrides: [override({ route: 'module' })] };
  const { node, served } = await withPlans(t, latest, { long: hour, exact: 0, demanding: hour, patient: 0 });
  const [module, zero] = ['/accounts/0x1/module/coin', { 'ledgergate-max-staleness': '0' }];
  // The older state first: after a newer one the client gets no older one.
  const asked = ['long', 'none', 'exact'].flatMap((plan) => [[plan, module] as const, [plan, probe] as const]);
  for (const [plan, path] of asked) await served(plan, path);
  node.clock.advance(50n);

  const found: unknown[] = [];
  for (const [plan, path] of asked) found.push(await served(plan, path));
  const patient = await served('patient', probe, { 'ledgergate-max-staleness': '1m' });
  const demanding = [await served('demanding'), await served('demanding', probe, zero), await served('demanding')];

  assert.deepEqual(found, ['900', '900', '900', '950', '950', '950']);
  assert.deepEqual([patient, ...demanding], ['900', '900', '950', '950']);
});

test('a reload replaces the bounds of plans and overrides, also of reads that are known', async (t) => {
  const { node, gateway, served } = await withPlans(t, { maxStalenessMs: hour }, { a: hour, b: hour, c: hour });
  const reload = async (planMs: number, overrides: Config['latest']['overrides']): Promise<void> => {
    const { access, latest, ...config } = gateway.reloads.config;
    assert.ok(access);
    const plans = Object.fromEntries(
      Object.keys(access.plans).map((name) => [name, planConfig({ maxStalenessMs: planMs })]),
    );
    await gateway.reloads.take({ ...config, access: { ...access, plans }, latest: { ...latest, overrides } });
    assert.equal(gateway.reloads.status?.result, 'applied');
  };
  for (const plan of ['a', 'b', 'c']) assert.equal(await served(plan), '900');
  node.clock.advance(50n);

  const before = await served('a');
  await reload(hour, [override({ route: 'resource' }, 0)]);
  const overridden = await served('a');
  await reload(hour - 1, [override({ route: 'module' }, 0)]);
  const restored = await served('b');
  await reload(0, []);
  const exact = await served('c');

  assert.deepEqual([before, overridden, restored, exact], ['900', '950', '900', '950']);
});

test('a client that has its transaction reads it on other connections, also where an override has a longer bound', async (t) => {
  const config = { latest: { maxStalenessMs: 20, overrides: [override({ route: 'resource' })] } };
  const { node, gateway } = await nodeAndGateway(t, { config });
  const at = async (localAddress: string, path: string): Promise<unknown> => {
    const agent = new Agent({ connections: 1, localAddress });
    const { headers, body } = await send(gateway.url + path, { dispatcher: agent });
    await body.dump();
    await agent.close();
    return headers['ledgergate-served-version'];
  };
  const served = async () => (await gateway.get(probe)).headers['ledgergate-served-version'];
  assert.equal(await served(), '900');
  const { hash } = JSON.parse((await gateway.post('/transactions', submission())).text) as { hash: string };
  node.clock.advance(50n);
  node.mempool.commitAll(940n);

  // The state of the default has passed the transaction, for a client that reads under both bounds.
  while ((await at('127.0.0.2', '/accounts/0x1/module/coin')) === '900') continue;
  const before = await served();
  assert.match((await gateway.get(`/transactions/by_hash/${hash}`)).text, /"type":"user_transaction"/);

  const others = [await at('127.0.0.2', probe), await at('127.0.0.3', probe)];
  assert.deepEqual([before, await served(), ...others], ['900', '950', '950', '900']);
});

for (const by of ['forwarded address', 'key'] as const) {
  test(`on a proxy's pooled connection a strict bound of one client leaves the others theirs: by ${by}`, async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const keys = ['a', 'b'].map((name) => testKey(name));
    const access = accessConfig({
      keys: { file: keysFile(t, keys).path, redis: false },
      anonymous: 'free',
      trustedProxies: ['127.0.0.0/8'],
    });
    const latest = { maxStalenessMs: 20, overrides: [override({ route: 'resource' })] };
    const gateway = await testGateway(t, { full: [node], access, config: { latest } });
    const agent = new Agent({ connections: 1 });
    t.after(() => agent.destroy());
    const served = async (client: 0 | 1, path: string): Promise<unknown> => {
      const sign =
        by === 'key'
          ? { authorization: `Bearer ${keys[client]!.text}` }
          : { 'x-forwarded-for': `198.51.100.${client}` };
      const { headers, body } = await send(gateway.url + path, { dispatcher: agent, headers: sign });
      await body.dump();
      return headers['ledgergate-served-version'];
    };
    const strict = '/accounts/0x1/module/coin';
    assert.equal(await served(0, probe), '900');
    node.clock.advance(50n);
    while ((await served(0, strict)) === '900') continue;

    const found = [await served(1, probe), await served(0, probe), await served(1, probe), await served(0, probe)];

    assert.deepEqual(found, ['900', '950', '900', '950']);
  });
}

/** Clients with a bound each: by plan, override or header. */
const clients: readonly { plan: string; path: string; body?: string; header?: string; boundMs: number }[] = [
  { plan: 'none', path: probe, boundMs: 200 },
  { plan: 'slow', path: probe, boundMs: 1_200 },
  { plan: 'slow2', path: '/accounts/0x1/module/coin', boundMs: 600 },
  { plan: 'none2', path: '/accounts/0x1/module/coin', boundMs: 600 },
  { plan: 'none3', path: '/view', body: viewOf(name), boundMs: 400 },
  { plan: 'none4', path: `/accounts/0x1${unknown}`, boundMs: 600 },
  { plan: 'none5', path: '/accounts/0x5a000001', boundMs: 600 },
  { plan: 'fast', path: '/accounts/0x1/module/coin', boundMs: 60 },
  { plan: 'fast2', path: probe, header: '1s', boundMs: 1_000 },
  { plan: 'slow3', path: probe, header: '100ms', boundMs: 100 },
  { plan: 'slow4', path: probe, header: '1ms', boundMs: 20 },
  { plan: 'none6', path: '', boundMs: 200 },
  { plan: 'slow5', path: '', boundMs: 1_200 },
];

/** Longer than the longest bound. */
const runMs = 1_600;

for (const way of ['fast path', 'server', 'HTTP/2'] as const) {
  test(`on a moving ledger each client gets states within its bound, and shares them: ${way}`, async (t) => {
    const node = await fakeNode(t, { head: 1_000n, keepRequests: 1 });
    const keys = clients.map(({ plan }) => testKey(plan, { plan: plan.replace(/\d/, '') }));
    const access = accessConfig({
      keys: { file: keysFile(t, keys).path, redis: false },
      plans: {
        none: planConfig(),
        slow: planConfig({ maxStalenessMs: 1_200 }),
        fast: planConfig({ maxStalenessMs: 60 }),
      },
    });
    const ca = way === 'HTTP/2' ? authority(t) : undefined;
    const overrides = [
      override({ view: '0x1::ledgergate_sample::*' }, 400),
      override({ route: 'module' }, 600),
      override({ route: 'account' }, 600),
    ];
    const gateway = await testGateway(t, {
      full: [node],
      access,
      config: {
        latest: { maxStalenessMs: 200, minClientStalenessMs: 20, maxClientStalenessMs: 1_000, overrides },
        listen: { fastPath: way !== 'server', ...(ca === undefined ? {} : { tls: ca.certify('gateway') }) },
      },
    });
    const heads: { readonly atMs: number; readonly head: bigint }[] = [];
    const tick = (): void => {
      node.clock.advance(1n);
      heads.push({ atMs: performance.now(), head: node.clock.head });
    };
    tick();
    const ticking = setInterval(tick, 5);
    t.after(() => clearInterval(ticking));
    const headAt = (ms: number): bigint => heads.findLast(({ atMs }) => atMs <= ms)?.head ?? 0n;
    const startMs = performance.now();
    const results = await Promise.all(
      clients.map(async ({ path, body, header, boundMs }, index) => {
        const agent = new Agent({ connections: 1, allowH2: way === 'HTTP/2', connect: { ca: ca?.ca } });
        t.after(() => agent.destroy());
        const authorization = `Bearer ${keys[index]!.text}`;
        const headers = {
          authorization,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(header === undefined ? {} : { 'ledgergate-max-staleness': header }),
        };
        const method = body === undefined ? 'GET' : 'POST';
        const versions = new Set<bigint>();
        let newest = 0n;
        for (let sentMs = performance.now(); sentMs < startMs + runMs; sentMs = performance.now()) {
          const reply = await send(gateway.url + path, { dispatcher: agent, method, body: body ?? null, headers });
          const text = await reply.body.text();
          assert.equal(reply.statusCode, 200, text);
          const version = BigInt(String(reply.headers['ledgergate-served-version']));
          const least = headAt(sentMs - boundMs);
          assert.ok(version >= least, `${path} by ${boundMs} ms: ${version}, ${least} was the head so long ago`);
          assert.ok(version >= newest, `${path} by ${boundMs} ms: ${version} after ${newest}`);
          newest = version;
          versions.add(version);
          await sleep(15);
        }
        return { boundMs, path, header, states: versions.size };
      }),
    );
    const ranMs = performance.now() - startMs;

    t.diagnostic(results.map(({ boundMs, path, states }) => `${path} ${boundMs} ms: ${states} states`).join(', '));
    for (const { boundMs, path, states, header } of results) {
      // A header's bound has no state of its own: it takes the one of the next smaller bound.
      const usual = header === undefined ? boundMs : boundMs >= 1_000 ? 600 : boundMs >= 60 ? 60 : 5;
      assert.ok(states <= ranMs / (usual * 0.7) + 3, `${path} by ${boundMs} ms: ${states} states in ${ranMs} ms`);
    }
  });
}
