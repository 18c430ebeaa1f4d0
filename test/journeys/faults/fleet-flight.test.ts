/** One upstream read per key across all gateways. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { request } from 'undici';
import { start } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import type { Reply } from '../../support/gateway.ts';
import { readProbe, replica, untilUp, type Replica } from '../../support/redis-replica.ts';
import { noRedis, redisServer, type RedisServer, redisTest } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7';
const isRead = ({ url }: { readonly url: string }): boolean => url.includes('/resource/') || url.includes('/view');

/** Gateways that use Redis already. They wait for it longer than a busy machine takes for 150 connections. */
async function replicas(t: TestContext, server: RedisServer, node: FakeNode, count: number): Promise<Replica[]> {
  const options = { nodes: [node], timeoutMs: 10_000 };
  const gateways = await Promise.all(Array.from({ length: count }, () => replica(t, server.url, options)));
  await Promise.all(gateways.map((gateway) => untilUp(gateway)));
  return gateways;
}

/** `count` clients at once, spread evenly over the gateways. */
function clients(gateways: readonly Replica[], count: number): Promise<Reply[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => readProbe(gateways[index % gateways.length]!, 7)));
}

async function turns(gateways: readonly Replica[], turn: string): Promise<number> {
  const counts = gateways.map((gateway) => gateway.metric(`ledgergate_redis_reads_total{turn="${turn}"}`));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

test('three gateways, 150 clients, one cold key, a slow node: one upstream read', { skip: noRedis }, async (t) => {
  const node = await fakeNode(t);
  const gateways = await replicas(t, await redisServer(t), node, 3);
  const stalls = watchStalls(t);
  node.faults.add({ kind: 'latency', ms: 200 }, { when: isRead });

  const replies = await clients(gateways, 150);

  assert.equal(new Set(replies.map(({ headers }) => headers['etag'])).size, 1);
  // A holder whose renewals come late is taken for dead.
  stalls.judge(node.requestsTo('resource') === 1, `${node.requestsTo('resource')} reads`);
  if (node.requestsTo('resource') > 1) return;
  assert.deepEqual([await turns(gateways, 'lead'), await turns(gateways, 'followed')], [1, 2]);
});

redisTest(
  'the gateway that reads is killed: one more upstream read, all clients of the others are answered',
  async (t, server) => {
    const node = await fakeNode(t);
    const others = await replicas(t, server, node, 2);
    const doomed = await process(t, server, node);
    const stalls = watchStalls(t);
    node.faults.add({ kind: 'hang' }, { when: isRead, times: 1 });
    node.faults.add({ kind: 'latency', ms: 200 }, { when: isRead });

    const asked = node.log.next(isRead);
    const lost = fetch(doomed.url + path).catch(() => 'cut');
    await asked;
    const answered = clients(others, 100);
    // They wait for the other's read by now.
    await until(async () => (await come(others)) === 100);
    doomed.kill();

    const replies = await answered;
    assert.equal(await lost, 'cut');
    assert.equal(new Set(replies.map(({ headers }) => headers['etag'])).size, 1);
    // A holder whose renewals come late is taken for dead, like the one that was killed.
    const reads = node.requestsTo('resource');
    assert.ok(reads === 2 || (stalls.longestMs > 150 && reads === 3), `${reads} reads, ${stalls.longestMs} ms still`);
  },
);

/** Looks into memory: every client that has come counts one. What the first ones waited for, later ones may find. */
async function come(gateways: readonly Replica[]): Promise<number> {
  const looks = ['miss', 'hit'].map((outcome) => `ledgergate_cache_lookups_total{tier="memory",outcome="${outcome}"}`);
  const counts = await Promise.all(gateways.flatMap((gateway) => looks.map((sample) => gateway.metric(sample))));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** A gateway in a process of its own, which can be killed. */
async function process(t: TestContext, server: RedisServer, node: FakeNode) {
  const config = {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { port: 0 },
    upstreams: [{ name: 'full-0', url: node.url }],
    cache: { redis: { url: server.url, timeout: '10s' } },
  };
  const running = start(t, ['serve', '--config', configFile(t, JSON.stringify(config)), '--log-level', 'warn']);
  const [, url = ''] = await running.line(/^Clients: +(\S+) /);
  const [, operations = ''] = await running.line(/^Operations: +(\S+) /);
  await until(async () => /^ledgergate_redis_up 1$/m.test(await (await fetch(`${operations}/metrics`)).text()));
  return { url, kill: () => void running.process.kill('SIGKILL') };
}

const unkept = {
  'a view that fails': (gateway: Replica, version: number) =>
    gateway.post(
      `/view?ledger_version=${version}`,
      '{"function":"0x1::no_such::view","type_arguments":[],"arguments":[]}',
    ),
  'a resource above the head': (gateway: Replica, version: number) =>
    gateway.get(`/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${999_000 + version}`),
};

for (const [what, ask] of Object.entries(unkept)) {
  test(`${what} is not kept, and gateways do not wait for one another in turn`, { skip: noRedis }, async (t) => {
    const node = await fakeNode(t);
    const gateways = await replicas(t, await redisServer(t), node, 5);
    const stalls = watchStalls(t);
    // In turn they would take five times as long, and a pause of the machine is no turn.
    node.faults.add({ kind: 'latency', ms: 400 }, { when: isRead });
    const alone = await timed(() => ask(gateways[0]!, 6));
    const before = await turns(gateways, 'lead');

    const replies: Reply[] = [];
    const all = await timed(async () => replies.push(...(await Promise.all(gateways.map((one) => ask(one, 7))))));

    assert.equal(new Set(replies.map(({ text }) => text)).size, 1);
    assert.ok([400, 404].includes(replies[0]!.status), replies[0]!.text);
    // The first reads for all, finds that there is nothing to share, and then the others read at once.
    assert.equal((await turns(gateways, 'lead')) - before, 1);
    stalls.judge(all < 3.5 * alone, `${Math.round(all)} ms for five gateways, ${Math.round(alone)} for one`);
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

redisTest('a client that hangs up lets another gateway read', async (t, server) => {
  const node = await fakeNode(t);
  const [a, b] = (await replicas(t, server, node, 2)) as [Replica, Replica];
  const stalls = watchStalls(t);
  node.faults.add({ kind: 'hang' }, { when: isRead, times: 1 });
  const asked = node.log.next(isRead);
  const client = new AbortController();
  const gone = request(a.url + path, { signal: client.signal }).catch(() => 'gone');
  await asked;
  const leases = () => server.run((connection) => connection.keys('lg:*:!*'));
  assert.equal((await leases()).length, 1);

  const followed = readProbe(b, 7);
  const start = performance.now();
  client.abort();
  await followed;

  stalls.judge(performance.now() - start < 700, 'it did not wait for the lease to run out');
  assert.equal(await gone, 'gone');
  await until(async () => (await leases()).length === 0);
  assert.deepEqual([await turns([a], 'lead'), await turns([b], 'lead')], [1, 1]);
});
