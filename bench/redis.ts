/**
 * Gain and cost of Redis: the same reads through a gateway whose memory holds them all, through one whose
 * memory holds next to nothing, and through such ones with a Redis that is well and one that hangs (stopped by a signal).
 *
 * One hot key is in memory everywhere. Of 20,000 keys by turns a memory of 1 MiB holds a part only, so that nearly each
 * read is one of Redis or, without it, of the node.
 */
import { execFileSync } from 'node:child_process';
import { askAll } from './support/ask-all.ts';
import { readPath, startCheapNode } from './support/cheap-node.ts';
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { spreadOf } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { pathsOf } from './support/load.ts';
import { isAsked, optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms, startRedis, type ServerProcess } from './support/process-under-test.ts';
import { cpu, cpuAbove, howTaken, p50, p99, rate, readsPerRequest, standingsTable } from './support/report.ts';

const turns = { order: { kind: 'turns', of: 20_000 } } as const;
const requests = [
  { title: 'one hot key, 400 B', path: readPath(400, '2400000000').replace('%A', '0x5a') },
  { title: '20,000 keys by turns, 400 B', path: readPath(400, '2400000001'), ...turns },
  { title: '20,000 keys by turns, 4 kB', path: readPath(4_000, '2400000001'), ...turns },
];
const [inMemory, well, hung] = ['all in memory', 'Redis', 'Redis, hung'];

/** Time that ioredis takes alone, for a look-up of one command and of two: medians of the rounds. */
function clientMicros({ url }: ServerProcess, rounds: number, connections: number): readonly string[] {
  const args = ['bench/support/redis-client.ts', new URL(url).port, '4000', String(connections)];
  const taken = Array.from({ length: rounds }, () =>
    execFileSync('taskset', ['-c', String(serverCpu), process.execPath, ...args])
      .toString()
      .split(' ')
      .map(Number),
  );
  return [0, 1].map((index) => spreadOf(taken, (round) => round[index] ?? Number.NaN, 1));
}

export const redis: Part = {
  name: 'redis',
  heading: 'Redis',
  async run(flags: Flags) {
    requirePrograms('nginx', 'redis-server');
    const options = optionsOf(flags, { starts: 2, rounds: 3, connections: 32 });
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const servers = { well: await startRedis(loadCpu), hung: await startRedis(loadCpu) };
    const standings = await runContest({
      options,
      requests: requests.filter(({ title }) => isAsked(flags, title)),
      async start() {
        process.kill(servers.hung.pid, 'SIGCONT');
        const gateway = { nodeUrl, cpu: serverCpu, fastPath: true };
        const memory = { maxBytes: '1MiB' };
        const cacheOf = (redis: ServerProcess) => ({
          cache: { memory, redis: { url: redis.url.replace('http:', 'redis:') } },
        });
        const gateways = [
          await startGateway({ ...gateway, name: inMemory, config: { cache: { memory: { maxBytes: '1GiB' } } } }),
          await startGateway({ ...gateway, name: 'no Redis', config: { cache: { memory } } }),
          await startGateway({ ...gateway, name: well, config: cacheOf(servers.well) }),
          await startGateway({ ...gateway, name: hung, config: cacheOf(servers.hung) }),
        ];
        process.kill(servers.hung.pid, 'SIGSTOP');
        return gateways;
      },
      // A second time for what was not stored when too much was on its way to Redis.
      async prepare({ name, url }, request) {
        const times = { [inMemory]: 1, [well]: 2 }[name] ?? 0;
        for (let time = 0; time < times; time += 1) await askAll(url, pathsOf(request));
      },
      reads: () => node.reads(),
    });
    const [one, two] = clientMicros(servers.well, options.rounds, options.connections);
    for (const server of [node.server, servers.well, servers.hung]) server.stop();
    const columns = {
      'req/s': rate,
      'CPU µs/request': cpu,
      'above a hit in memory µs': cpuAbove(inMemory),
      'p50 ms': p50,
      'p99 ms': p99,
      'reads of the node each': readsPerRequest,
    };
    const text = `The same reads through a gateway whose memory holds them all, and through three with a memory of 1 MiB: without Redis, with one that is well, and with one that hangs (SIGSTOP). ${options.connections} connections, ${howTaken(options)}; gateway on core 0; load, node and Redis on core 1. A hung Redis adds nothing that can be seen beside the spread: after the first time-out nobody waits for it.

Of a hit in Redis the client's part: ioredis alone takes ${one} µs for a GET of 4 kB with ${options.connections} under way on this core, and ${two} µs for HGET and GET one after the other, as a hit needs them.

${standingsTable(standings, columns)}`;
    return text;
  },
};
