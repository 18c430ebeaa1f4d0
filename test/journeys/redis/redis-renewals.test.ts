/** User, password and certificates of Redis that are renewed under load, in its three topologies, with TLS. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Crowd } from '../../support/crowd.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { noRedis, redisServer, type RedisServer, type RedisTls } from '../../support/redis-server.ts';
import { redisCluster, watchedServers } from '../../support/redis-topology.ts';
import { putFile, temporaryFolder } from '../../support/temporary-folder.ts';
import { authority, type Authority, replaceFiles } from '../../support/tls.ts';
import { metric } from '../../support/workers.ts';

const head = 10_000_000n;
const applied = (toward = 'cache.redis') => `ledgergate_renewals_total{toward="${toward}",result="applied"}`;
const refused = (toward = 'cache.redis') => `ledgergate_renewals_total{toward="${toward}",result="refused"}`;
const pending = (toward = 'cache.redis') => `ledgergate_renewal_pending{toward="${toward}"}`;

interface Topology {
  /** The servers that hold the user, sentinels among them. */
  readonly servers: readonly RedisServer[];
  /** The section of the config, with this part of each address ahead of the host. */
  section(user: string): object;
}

const topologies: Readonly<Record<string, (t: TestContext, tls: RedisTls) => Promise<Topology>>> = {
  async single(t, tls) {
    const server = await redisServer(t, [], tls);
    return { servers: [server], section: (user) => ({ url: `rediss://${user}@127.0.0.1:${server.tlsPort}/0` }) };
  },
  async sentinel(t, tls) {
    const { primary, second, sentinel } = await watchedServers(t, tls);
    const nodes = (user: string) => [`rediss://${user}@127.0.0.1:${sentinel.tlsPort}`];
    return {
      servers: [primary, second, sentinel],
      section: (user) => ({ sentinel: { name: 'mymaster', nodes: nodes(user) } }),
    };
  },
  async cluster(t, tls) {
    const { servers } = await redisCluster(t, tls);
    const addresses = (user: string) => servers.map(({ tlsPort }) => `rediss://${user}@127.0.0.1:${tlsPort}`);
    return { servers, section: (user) => ({ cluster: addresses(user) }) };
  },
};

interface World extends Topology {
  readonly ca: Authority;
  readonly gateway: GatewayProcess;
  readonly crowd: Crowd;
  /** Replaces a file of the config: `user`, `password` or `ca`. */
  readonly put: (name: string, text: string) => void;
  /** Runs a command at each server. */
  readonly everywhere: (...command: readonly string[]) => Promise<void>;
  readonly shown: { readonly cert: string; readonly key: string };
}

/** A gateway that refuses what it cannot count in Redis: a lost command would be a lost request. */
async function world(t: TestContext, topology: string, workers = 1): Promise<World> {
  const ca = authority(t);
  const shown = ca.certify('gateway');
  const made = await topologies[topology]!(t, { served: ca.certify('redis'), clientCa: ca.file });
  const folder = temporaryFolder(t);
  const put = (name: string, text: string): void => putFile(join(folder, name), text);
  const everywhere = async (...[name = '', ...args]: readonly string[]): Promise<void> => {
    for (const server of made.servers) await server.run((client) => client.call(name, ...args));
  };
  put('user', 'one\n');
  put('password', 'secret-one\n');
  put('ca', ca.ca);
  await everywhere('ACL', 'SETUSER', 'one', 'on', '>secret-one', '~*', '&*', '+@all');
  const node = await fakeNode(t, { head, keepRequests: 1 });
  const user = `\${file:${join(folder, 'user')}}:\${file:${join(folder, 'password')}}`;
  const tls = { ca: join(folder, 'ca'), cert: shown.cert, key: shown.key };
  const config = {
    workers,
    cache: { redis: { ...made.section(user), tls, timeout: '3s' } },
    access: {
      anonymous: 'free',
      plans: { free: { requests: 1_000_000, window: '1m' } },
      whenRedisIsDown: 'refuse',
    },
  };
  const gateway = await gatewayProcess(t, { full: [node], config });
  await until(async () => (await metric(gateway, 'ledgergate_redis_up')) === 1);
  const crowd = new Crowd(t, { url: gateway.url, clients: 8, from: 1_000_000 });
  await crowd.answer(50);
  return { ...made, ca, gateway, crowd, put, everywhere, shown };
}

async function judge(t: TestContext, { crowd, gateway }: World): Promise<void> {
  await crowd.end();
  t.diagnostic(`${crowd.answered} requests, ${crowd.failed.length} failed`);
  assert.deepEqual(crowd.failed, []);
  assert.equal(await metric(gateway, 'ledgergate_redis_up'), 1);
  assert.doesNotMatch(gateway.err(), /secret-/);
}

/** Names of the users that the gateway's connections to a server have. */
async function usersAt(server: RedisServer): Promise<readonly string[]> {
  const list = await server.run((client) => client.client('LIST'));
  const ours = String(list)
    .split('\n')
    .filter((line) => line.includes('name=ledgergate'));
  return ours.map((line) => / user=(\S+)/.exec(line)?.[1] ?? '');
}

/** The other topologies are a long run. */
const isLong = process.env['LEDGERGATE_RENEWAL_ROUNDS'] !== undefined;

for (const topology of Object.keys(topologies)) {
  const skip = noRedis || (isLong || topology === 'single' ? false : 'a long run, by LEDGERGATE_RENEWAL_ROUNDS');

  test(
    `${topology}: password, user, authority and client certificate change under load: 0 failed`,
    { skip },
    async (t) => {
      const workers = topology === 'single' ? 2 : 1;
      const here = await world(t, topology, workers);
      const { gateway, crowd, put, everywhere, servers, ca, shown } = here;
      const [server] = servers;
      let changes = 0;
      const untilApplied = async (): Promise<void> => {
        changes += workers;
        await until(async () => (await metric(gateway, applied())) === changes);
      };

      // Redis does not know the new password yet: open connections stay, and the trial goes on.
      put('password', 'secret-two\n');
      await until(async () => (await metric(gateway, pending())) === 1);
      await until(() => gateway.err().includes('a trial at Redis fails: WRONGPASS'));
      await crowd.answer(50);
      await everywhere('ACL', 'SETUSER', 'one', '>secret-two');
      await untilApplied();
      await everywhere('ACL', 'SETUSER', 'one', '<secret-one');
      assert.equal(await metric(gateway, pending()), 0);
      assert.equal(await metric(gateway, refused()), workers);
      await crowd.answer(50);

      // Another user: that of before is deleted, which ends every connection that still has it.
      await everywhere('ACL', 'SETUSER', 'two', 'on', '>secret-two', '~*', '&*', '+@all');
      put('user', 'two\n');
      await untilApplied();
      for (const each of servers) await until(async () => (await usersAt(each)).every((name) => name === 'two'));
      await everywhere('ACL', 'DELUSER', 'one');
      await crowd.answer(50);

      const next = authority(t);
      const served = next.certify('redis');
      put('ca', `${ca.ca}${next.ca}`);
      await untilApplied();
      // A sentinel reads its files at its start alone: there the client certificate changes.
      if (topology !== 'sentinel') {
        // Servers trust both authorities, and show a certificate of the new one.
        writeFileSync(ca.file, `${ca.ca}${next.ca}`);
        const files = ['tls-cert-file', served.cert, 'tls-key-file', served.key, 'tls-ca-cert-file', ca.file];
        await everywhere('CONFIG', 'SET', ...files);
        await crowd.answer(50);
        put('ca', next.ca);
        await untilApplied();
      }
      replaceFiles({ ...shown, ciphers: [] }, (topology === 'sentinel' ? ca : next).certify('renewed'));
      await untilApplied();
      await crowd.answer(50);
      const before = (await metric(gateway, refused())) ?? 0;
      put('ca', 'no certificate');
      await until(async () => (await metric(gateway, refused())) === before + workers);
      await crowd.answer(50);

      await judge(t, here);
      // Connections that are made anew have it all, the one of messages among them.
      await everywhere('CLIENT', 'KILL', 'USER', 'two');
      await until(
        async () => (await metric(gateway, 'ledgergate_redis_up')) === 1 && (await usersAt(server!)).length > 1,
      );
      assert.deepEqual([...new Set(await usersAt(server!))], ['two']);
      assert.match(gateway.err(), /tls\.ca: holds no certificates in PEM form/);
    },
  );
}

test('a Redis of access has a user of its own, renewed under load: 0 failed', { skip: noRedis }, async (t) => {
  const [server, node] = [await redisServer(t), await fakeNode(t, { head, keepRequests: 1 })];
  const file = join(temporaryFolder(t), 'password');
  writeFileSync(file, 'secret-one');
  const setUser = (...rules: readonly string[]) =>
    server.run((client) => client.call('ACL', 'SETUSER', 'one', 'on', '~*', '&*', '+@all', ...rules));
  await setUser('>secret-one');
  const access = {
    redis: { url: `redis://one:\${file:${file}}@127.0.0.1:${server.port}`, timeout: '3s' },
    anonymous: 'free',
    plans: { free: { requests: 1_000_000, window: '1m' } },
    whenRedisIsDown: 'refuse',
  };
  const gateway = await gatewayProcess(t, { full: [node], config: { access } });
  const crowd = new Crowd(t, { url: gateway.url, clients: 8, from: 1_000_000 });
  await crowd.answer(50);
  await setUser('>secret-two');
  writeFileSync(file, 'secret-two');
  await until(async () => (await metric(gateway, applied('access.redis'))) === 1);
  await setUser('<secret-one');
  await crowd.answer(50);
  await crowd.end();
  assert.deepEqual(crowd.failed, []);
  assert.equal(await metric(gateway, applied()), undefined);
});
