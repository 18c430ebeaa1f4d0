/** Secrets and certificates toward nodes that are renewed while gateways serve: real processes, files and TLS. */
import assert from 'node:assert/strict';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { Crowd } from '../../support/crowd.ts';
import { collector } from '../../support/collector.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type ConfigSections, type GatewayProcess } from '../../support/gateway-process.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { putFile, temporaryFolder } from '../../support/temporary-folder.ts';
import { authority, replaceFiles } from '../../support/tls.ts';
import { tlsFront } from '../../support/tls-front.ts';
import { submission } from '../../support/submission.ts';
import { fetchReply, probeAt, testGateway } from '../../support/gateway.ts';
import { metric } from '../../support/workers.ts';

const head = 10_000_000n;
const pending = (name: string): string => `ledgergate_renewal_pending{toward="${name}"}`;
const applied = (name: string): string => `ledgergate_renewals_total{toward="${name}",result="applied"}`;
const refused = (name: string): string => `ledgergate_renewals_total{toward="${name}",result="refused"}`;

async function crowdOf(t: TestContext, { url }: GatewayProcess): Promise<Crowd> {
  const crowd = new Crowd(t, { url, clients: 8, from: 1_000_000 });
  await crowd.answer(50);
  return crowd;
}

/** Ends the load; no request of it has failed. */
async function judge(t: TestContext, crowd: Crowd): Promise<void> {
  await crowd.end();
  t.diagnostic(`${crowd.answered} requests, ${crowd.failed.length} failed`);
  assert.deepEqual(crowd.failed, []);
}

/** Refuses requests without one of the keys, as a provider's gateway does. */
function demand(node: FakeNode, keys: ReadonlySet<string>): void {
  const isRefused = (key: unknown): boolean => typeof key !== 'string' || !keys.has(key);
  const answer = { kind: 'answer', status: 401, body: '{"message":"no key"}' } as const;
  node.faults.add(answer, { when: ({ headers }) => isRefused(headers['x-api-key']) });
}

const workers = 2;
const node = await fakeNode({ after }, { head, keepRequests: 50 });
const keys = new Set(['key-one']);
demand(node, keys);
const keyFile = join(temporaryFolder({ after }), 'key');
putFile(keyFile, 'key-one\n');
const keyed = { 'X-Api-Key': `\${file:${keyFile}}` };
/** For the tests that use it one after the other, each with an upstream of its own. */
const gateway = await gatewayProcess(
  { after },
  { full: [], config: { workers, upstreams: [{ name: 'a', url: node.url, headers: keyed }] } },
);

/** Puts one upstream in the place of all others; resolves when both workers use it. */
async function use(upstream: ConfigSections & { readonly name: string }): Promise<void> {
  gateway.reconfigure({ workers, upstreams: [upstream] });
  gateway.hangUp();
  await until(async () => (await metric(gateway, `ledgergate_upstream_usable{upstream="${upstream.name}"}`)) === 1);
}

const untilPending = (name: string, value: number) =>
  until(async () => (await metric(gateway, pending(name))) === value);

test("a node's key rotates under load, 2 workers: 0 failed, and the node stays the same", async (t) => {
  const crowd = await crowdOf(t, gateway);

  // The provider's side of the rotation is late: the node refuses the new key, and is asked with the old one.
  putFile(keyFile, 'key-two\n');
  await untilPending('a', 1);
  const status = (await fetchReply(`${gateway.operationsUrl}/status.json`, { method: 'GET' })).text;
  assert.match(status, /not in use toward a: a trial at the node fails: credentials refused/);
  await crowd.answer(50);
  keys.add('key-two');
  await until(async () => (await metric(gateway, applied('a'))) === workers);
  assert.equal(await metric(gateway, pending('a')), 0);
  keys.delete('key-one');
  await crowd.answer(50);
  // In time: the new key is in force at once.
  keys.add('key-three');
  putFile(keyFile, 'key-three\n');
  await until(async () => (await metric(gateway, applied('a'))) === 2 * workers);
  keys.delete('key-two');
  await crowd.answer(50);

  await judge(t, crowd);
  assert.equal(await metric(gateway, 'ledgergate_upstream_requests_total{upstream="a",status="4xx"}'), 0);
  assert.equal(await metric(gateway, refused('a')), workers);
  assert.equal(node.log.received.at(-1)?.headers['x-api-key'], 'key-three');
  assert.equal(gateway.err().includes('key-t'), false);
  assert.doesNotMatch(gateway.err(), /nodes of the fleet changed/);
});

test('a secret that disappears refuses the config, counted, and reads go on', async (t) => {
  const crowd = await crowdOf(t, gateway);
  const successful = 'ledgergate_config_last_reload_successful';

  renameSync(keyFile, `${keyFile}.away`);
  await until(async () => (await metric(gateway, successful)) === 0);
  await crowd.answer(50);
  keys.add('key-four');
  putFile(keyFile, 'key-four');
  await until(async () => (await metric(gateway, successful)) === 1);
  await until(async () => (await metric(gateway, applied('a'))) === 3 * workers);

  await judge(t, crowd);
  assert.match(gateway.err(), new RegExp(`cannot read ${keyFile}: there is no such file`));
  assert.doesNotMatch(gateway.err(), /key-(?:three|four)/);
});

test('an authority is renewed under load, 2 workers: 0 failed', async (t) => {
  const node = await fakeNode(t, { head, keepRequests: 1 });
  const [first, second, foreign] = [authority(t), authority(t), authority(t)];
  const served = { first: first.certify('first'), second: second.certify('second') };
  const front = await tlsFront(t, node, served.first);
  const file = join(temporaryFolder(t), 'ca.pem');
  putFile(file, first.ca);
  await use({ name: 'b', url: front.url('localhost'), tls: { ca: file } });
  const crowd = await crowdOf(t, gateway);
  // A submission is sent over a connection of its own, which shows whether new ones work.
  const submit = async (): Promise<number> => {
    const headers = { 'content-type': 'application/json' };
    return (await fetchReply(`${gateway.url}/transactions`, { method: 'POST', headers, body: submission() })).status;
  };
  const untilApplied = (count: number) => until(async () => (await metric(gateway, applied('b'))) === count * workers);

  assert.equal(await submit(), 202);
  putFile(file, `${first.ca}${second.ca}`);
  await untilApplied(1);
  front.change(served.second);
  assert.equal(await submit(), 202);
  await crowd.answer(50);
  putFile(file, second.ca);
  await untilApplied(2);
  assert.equal(await submit(), 202);
  await crowd.answer(50);

  // A file that is none, and one of another authority: those before stay in use.
  for (const [count, text] of [
    [1, 'no certificate'],
    [2, foreign.ca],
  ] as const) {
    putFile(file, text);
    await until(async () => (await metric(gateway, refused('b'))) === count * workers);
    assert.equal(await metric(gateway, pending('b')), 1);
    assert.equal(await submit(), 202);
    await crowd.answer(50);
  }
  putFile(file, second.ca);
  await untilApplied(3);
  assert.equal(await metric(gateway, pending('b')), 0);

  await judge(t, crowd);
  assert.match(gateway.err(), /holds no certificates in PEM form/);
  assert.match(gateway.err(), /a trial at the node fails: TLS/);
});

test('files that come back as they were, and other files of the config, end the refusal of those before', async (t) => {
  const ca = authority(t);
  const front = await tlsFront(t, await fakeNode(t, { head }), ca.certify('node'));
  const folder = temporaryFolder(t);
  const [file, other] = [join(folder, 'ca.pem'), join(folder, 'other.pem')];
  putFile(file, ca.ca);
  await use({ name: 'c', url: front.url(), tls: { ca: file } });

  renameSync(file, `${file}.away`);
  await untilPending('c', 1);
  renameSync(`${file}.away`, file);
  await untilPending('c', 0);

  putFile(file, 'no certificate');
  await untilPending('c', 1);
  putFile(other, ca.ca);
  await use({ name: 'c', url: front.url(), tls: { ca: other } });
  await untilPending('c', 0);
});

test('a worker that starts without a file of TLS has its contents of before, and reports that until it is back', async (t) => {
  const ca = authority(t);
  const front = await tlsFront(t, await fakeNode(t, { head }), ca.certify('node'));
  const file = join(temporaryFolder(t), 'ca.pem');
  putFile(file, ca.ca);
  await use({ name: 'd', url: front.url(), tls: { ca: file } });

  renameSync(file, `${file}.away`);
  const [victim] = gateway.workers();
  assert.ok(victim !== undefined);
  process.kill(victim, 'SIGKILL');
  await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === 1);
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
  await untilPending('d', 1);
  for (const version of [5, 6, 7, 8]) {
    assert.equal((await fetchReply(gateway.url + probeAt(version), { method: 'GET' })).status, 200);
  }
  assert.ok(!gateway.workers().includes(victim));
  assert.match(gateway.err(), /"why":"tls\.ca: cannot read \S+ there is no such file"/);
  renameSync(`${file}.away`, file);
  await untilPending('d', 0);
  assert.equal(await metric(gateway, 'ledgergate_worker_restarts_total'), 1);
});

test('a node of another authority is not asked, and the files are taken when they are right', async (t) => {
  const node = await fakeNode(t, { head });
  const [ca, foreign] = [authority(t), authority(t)];
  const front = await tlsFront(t, node, ca.certify('node'));
  const full = [{ url: front.url(), tls: { ca: foreign.file } }];
  const alone = await testGateway(t, { full, config: { upstream: { probeIntervalMs: 200 } } });
  assert.equal((await alone.get(probeAt(5))).status, 503);
  assert.equal(node.log.received.length, 0);
  assert.ok(front.failed > 0);
  writeFileSync(foreign.file, readFileSync(ca.file));
  await until(async () => (await alone.metric('ledgergate_upstream_usable{upstream="full-0"}')) === 1);
});

/** A long run: rounds, each of which renews the key, the authority and both certificates of a connection. */
const rounds = Number(process.env['LEDGERGATE_RENEWAL_ROUNDS'] ?? 0);
const skip = rounds > 0 ? false : 'a long run, by LEDGERGATE_RENEWAL_ROUNDS';

test(
  'a client certificate is replaced before its end under load: 0 failed, past its end as well',
  { skip },
  async (t) => {
    const node = await fakeNode(t, { head, keepRequests: 1 });
    const ca = authority(t);
    const endMs = Math.ceil(Date.now() / 1_000) * 1_000 + 8_000;
    const shown = ca.certifyUntil('short', new Date(endMs));
    const front = await tlsFront(t, node, ca.certify('node'), ca.ca);
    const tls = { ca: ca.file, cert: shown.cert, key: shown.key, serverName: 'localhost' };
    const gateway = await gatewayProcess(t, {
      full: [],
      config: { upstreams: [{ name: 'a', url: front.url(), tls }] },
    });
    const expiry = 'ledgergate_client_certificate_expiry_timestamp_seconds{toward="a",file="cert"}';
    const crowd = await crowdOf(t, gateway);
    assert.equal(await metric(gateway, expiry), endMs / 1_000);
    assert.match(gateway.err(), /upstreams\[0\]\.tls\.cert expires at .*, in less than 1 day\(s\)/);

    replaceFiles(shown, ca.certify('long'));
    await until(async () => (await metric(gateway, applied('a'))) === 1);
    await until(() => Date.now() > endMs + 500, 50);
    await crowd.answer(100);

    await judge(t, crowd);
    assert.deepEqual([...front.shown], ['short', 'long']);
    assert.deepEqual([...front.asked], ['localhost']);
    assert.ok(((await metric(gateway, expiry)) ?? 0) > endMs / 1_000);
  },
);

test(
  'a client certificate that ended takes its node out, and a new one brings it back: 0 failed',
  { skip },
  async (t) => {
    const [node, other] = [await fakeNode(t, { head, keepRequests: 1 }), await fakeNode(t, { head, keepRequests: 1 })];
    const ca = authority(t);
    const endMs = Math.ceil(Date.now() / 1_000) * 1_000 + 6_000;
    const shown = ca.certifyUntil('short', new Date(endMs));
    const front = await tlsFront(t, node, ca.certify('node'), ca.ca);
    const tls = { ca: ca.file, cert: shown.cert, key: shown.key };
    const upstreams = [
      { name: 'a', url: front.url(), tls },
      { name: 'b', url: other.url },
    ];
    const config = { upstreams, upstream: { probeInterval: '200ms' } };
    const gateway = await gatewayProcess(t, { full: [], config });
    const crowd = await crowdOf(t, gateway);
    const usable = 'ledgergate_upstream_usable{upstream="a"}';
    const headers = { 'content-type': 'application/json' };
    const failures = (): number => front.failed;

    await until(() => Date.now() > endMs, 50);
    // New connections to it fail, and submissions go to the other one.
    await until(async () => {
      const sent = { method: 'POST', headers, body: submission() } as const;
      assert.equal((await fetchReply(`${gateway.url}/transactions`, sent)).status, 202);
      return failures() > 0;
    }, 50);
    await crowd.answer(100);
    replaceFiles(shown, ca.certify('long'));
    await until(async () => (await metric(gateway, applied('a'))) === 1);
    await until(async () => (await metric(gateway, usable)) === 1);
    await crowd.answer(100);

    await judge(t, crowd);
    assert.deepEqual([...front.shown], ['short', 'long']);
  },
);

test(`key, authority and certificates are renewed ${rounds} times under load: 0 failed`, { skip }, async (t) => {
  const node = await fakeNode(t, { head, keepRequests: 1 });
  const folder = temporaryFolder(t);
  const keys = new Set(['key-0']);
  demand(node, keys);
  let ca = authority(t);
  const shown = ca.certify('gateway-0');
  const front = await tlsFront(t, node, ca.certify('node-0'), ca.ca);
  const [trusted, key] = [join(folder, 'ca'), join(folder, 'key')];
  putFile(trusted, ca.ca);
  putFile(key, 'key-0');
  const tls = { ca: trusted, cert: shown.cert, key: shown.key };
  const headers = { 'X-Api-Key': `\${file:${key}}` };
  const upstreams = [{ name: 'a', url: front.url(), headers, tls }];
  const gateway = await gatewayProcess(t, { full: [], config: { workers: 2, upstreams } });
  const crowds = [
    await crowdOf(t, gateway),
    new Crowd(t, { url: gateway.url, clients: 6, from: 5_000_000, restMs: 20, shortLived: true }),
  ];
  let count = 0;
  const untilApplied = async (): Promise<void> => {
    count += 2;
    await until(async () => (await metric(gateway, applied('a'))) === count);
    await Promise.all(crowds.map((crowd) => crowd.answer(20)));
  };
  for (let round = 1; round <= rounds; round += 1) {
    keys.add(`key-${round}`);
    putFile(key, `key-${round}`);
    await untilApplied();
    keys.delete(`key-${round - 1}`);
    const next = authority(t);
    putFile(trusted, ca.ca + next.ca);
    await untilApplied();
    // The node trusts both for as long as the gateway shows a certificate of the one before.
    front.change(next.certify(`node-${round}`), ca.ca + next.ca);
    replaceFiles(shown, next.certify(`gateway-${round}`));
    await untilApplied();
    putFile(trusted, next.ca);
    await untilApplied();
    front.change(next.certify(`node-${round}`), next.ca);
    ca = next;
  }
  for (const crowd of crowds) await judge(t, crowd);
  assert.equal(front.shown.has(`gateway-${rounds}`), true);
  assert.equal(await metric(gateway, refused('a')), undefined);
});

/** Long enough for the token of the operations port. */
function secretOf(name: string, version: number): string {
  return `hush-${name}-${version}-0123456789`;
}

test(
  'secrets of files are renewed without a restart, and in no log, metric, status, trace or error, whatever becomes of them',
  { skip: noRedis },
  async (t) => {
    const [node, traces, redis] = [await fakeNode(t, { head }), await collector(t), await redisServer(t)];
    const folder = temporaryFolder(t);
    const names = ['node', 'redis', 'collector', 'token'] as const;
    const write = (version: number): void => {
      for (const name of names) putFile(join(folder, name), `${secretOf(name, version)}\n`);
    };
    write(1);
    const keys = new Set([secretOf('node', 1)]);
    demand(node, keys);
    await redis.run((client) => client.acl('SETUSER', 'one', 'on', `>${secretOf('redis', 1)}`, '~*', '&*', '+@all'));
    const at = (name: (typeof names)[number]): string => `\${file:${join(folder, name)}}`;
    const gateway = await gatewayProcess(t, {
      full: [],
      config: {
        log: { level: 'trace', access: { share: 1 } },
        upstreams: [{ name: 'a', url: node.url, headers: { 'X-Api-Key': at('node') } }],
        cache: { redis: { url: `redis://one:${at('redis')}@127.0.0.1:${redis.port}` } },
        tracing: { endpoint: traces.url, share: 1, headers: { 'X-Api-Key': at('collector') } },
        operations: { host: '127.0.0.1', port: 0, token: at('token') },
        access: { anonymous: 'free', plans: { free: {} } },
      },
    });
    const read = () =>
      fetchReply(`${gateway.url}/accounts/0x1?ledger_version=${5 + Math.floor(Math.random() * 1e6)}`, {
        method: 'GET',
      });
    assert.equal((await read()).status, 200);
    await until(() => traces.headers['x-api-key'] === secretOf('collector', 1));
    // Neither node nor Redis knows the second ones, and the third cannot be read.
    write(2);
    await until(async () => (await metric(gateway, pending('a'))) === 1);
    await until(async () => (await metric(gateway, pending('cache.redis'))) === 1);
    await until(
      async () => (await read()).status === 200 && traces.headers['x-api-key'] === secretOf('collector', 2),
      50,
    );
    assert.ok(((await metric(gateway, 'ledgergate_config_reloads_total{result="applied"}')) ?? 0) >= 1);
    const texts = [(await read()).text];
    for (const name of names) putFile(join(folder, name), `${secretOf(name, 3)}\n`.repeat(3_000));
    await until(async () => (await metric(gateway, 'ledgergate_config_last_reload_successful')) === 0);
    keys.delete(secretOf('node', 1));
    texts.push((await read()).text);
    for (const path of ['/metrics', '/readyz', '/status.json', '/status'])
      texts.push((await fetchReply(gateway.operationsUrl + path, { method: 'GET' })).text);
    await until(() => traces.spans.length > 0);
    texts.push(JSON.stringify(traces.spans), gateway.err(), (await redis.run((client) => client.keys('*'))).join());

    for (const text of texts) assert.doesNotMatch(text, /hush-/);
    assert.match(gateway.err(), /has more than 64 KiB/);
  },
);
