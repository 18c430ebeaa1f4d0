/** A primary watched by a sentinel, and a cluster of three, on loopback. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { RedisTargetConfig } from '../../src/config/config.ts';
import { until } from './eventually.ts';
import { freePort } from './free-port.ts';
import { redisServer, RedisServer, type RedisTls, tlsLines } from './redis-server.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface Watched {
  readonly target: RedisTargetConfig;
  readonly primary: RedisServer;
  readonly second: RedisServer;
  readonly sentinel: RedisServer;
}

/** A primary, its replica, and one sentinel that calls the primary dead after half a second. `tls`: of all of them. */
export async function watchedServers(t: TestContext, tls?: RedisTls): Promise<Watched> {
  const args = ['--repl-diskless-sync-delay', '0', ...(tls === undefined ? [] : ['--tls-replication', 'yes'])];
  const [primary, second] = [await redisServer(t, args, tls), await redisServer(t, args, tls)];
  await second.run((client) => client.replicaof('127.0.0.1', primary.tlsPort ?? primary.port));
  const folder = temporaryFolder(t);
  const file = join(folder, 'sentinel.conf');
  const lines = [
    `monitor mymaster 127.0.0.1 ${primary.tlsPort ?? primary.port} 1`,
    'down-after-milliseconds mymaster 500',
    'failover-timeout mymaster 5000',
  ];
  writeFileSync(file, lines.map((line) => `sentinel ${line}\n`).join(''));
  const port = await freePort();
  const tlsPort = tls && (await freePort());
  const secure = tlsPort && `${tlsLines(tls, tlsPort).join('\n')}\ntls-replication yes\n`;
  writeFileSync(file, `bind 127.0.0.1\nport ${port}\ndir ${folder}\n${secure ?? ''}`, { flag: 'a' });
  const sentinel = new RedisServer(port, [file, '--sentinel'], tlsPort);
  t.after(() => sentinel.kill());
  await sentinel.start();
  // A sentinel learns of replicas from the primary every ten seconds; without one there is nobody to fail over to.
  await until(async () => {
    const replicas = await sentinel.run((client) => client.call('SENTINEL', 'REPLICAS', 'mymaster'));
    const isLinked = (await second.run((client) => client.info('replication'))).includes('master_link_status:up');
    return isLinked && (replicas as unknown[]).length === 1;
  });
  return { target: { kind: 'sentinel', name: 'mymaster', urls: [sentinel.url] }, primary, second, sentinel };
}

const slotCount = 16_384;

export interface TestCluster {
  readonly target: RedisTargetConfig;
  readonly servers: readonly RedisServer[];
  /** The server that holds the slot now. */
  ownerOf(slot: number): Promise<RedisServer>;
  /** Moves a slot with everything in it, key by key, `each` after every step. */
  move(slot: number, to: RedisServer, each?: () => Promise<unknown>): Promise<void>;
}

/** Three primaries. One that is away takes only its own slots with it, as caches should be set up. */
export async function redisCluster(t: TestContext, tls?: RedisTls): Promise<TestCluster> {
  const base = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-require-full-coverage', 'no'];
  const args = [...base, ...(tls === undefined ? [] : ['--tls-cluster', 'yes'])];
  const servers = await Promise.all([1, 2, 3].map(() => redisServer(t, args, tls)));
  const share = Math.ceil(slotCount / servers.length);
  for (const [index, server] of servers.entries()) {
    const [first, last] = [index * share, Math.min(slotCount, (index + 1) * share) - 1];
    await server.run(async (client) => {
      await client.cluster('SET-CONFIG-EPOCH', index + 1);
      await client.call('CLUSTER', 'ADDSLOTSRANGE', first, last);
    });
  }
  // Who knows another server takes no epoch any more, so nobody meets before all have theirs.
  const [first] = servers;
  await first?.run(async (client) => {
    for (const { port, tlsPort = port } of servers) await client.cluster('MEET', '127.0.0.1', tlsPort);
  });
  for (const server of servers) {
    await until(async () => {
      const info = await server.run((client) => client.cluster('INFO'));
      const facts = ['cluster_state:ok', `cluster_slots_assigned:${slotCount}`, 'cluster_known_nodes:3'];
      return facts.every((fact) => info.includes(fact));
    });
  }
  const ownerOf = async (slot: number): Promise<RedisServer> => {
    const ranges = await servers[0]!.run((client) => client.cluster('SLOTS'));
    const owner = ranges.find(([first, last]) => first <= slot && slot <= last)?.[2];
    return servers.find(({ port }) => port === owner?.[1])!;
  };
  return {
    target: { kind: 'cluster', urls: [servers[0]!.url] },
    servers,
    ownerOf,
    async move(slot, to, each = async () => {}) {
      const from = await ownerOf(slot);
      const [fromId, toId] = [await idOf(from), await idOf(to)];
      await to.run((client) => client.cluster('SETSLOT', slot, 'IMPORTING', fromId));
      await from.run((client) => client.cluster('SETSLOT', slot, 'MIGRATING', toId));
      await each();
      for (const key of await from.run((client) => client.cluster('GETKEYSINSLOT', slot, 1_000))) {
        await from.run((client) => client.migrate('127.0.0.1', to.port, key, 0, 1_000));
        await each();
      }
      for (const server of [to, from]) await server.run((client) => client.cluster('SETSLOT', slot, 'NODE', toId));
      await each();
    },
  };
}

function idOf(server: RedisServer): Promise<string> {
  return server.run((client) => client.cluster('MYID'));
}
