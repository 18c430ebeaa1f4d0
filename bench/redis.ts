/**
 * What Redis gives and what it can cost: the same reads through a gateway without Redis, with one that is well, and
 * with one that hangs (stopped by a signal), in interleaved rounds of one run.
 *
 *     npm run bench:redis -- [--starts N] [--rounds N] [--seconds S] [--connections N] [--warm-up S]
 *
 * One hot key is in memory everywhere. Of 20,000 keys by turns memory holds a part only (1 MiB), so that nearly each
 * read is one of Redis or, without it, of the node. Gateways on core 0; wrk, the sample node and Redis on core 1.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { benchOptions } from './support/options.ts';
import { requirePrograms, startGateway, startNode } from './support/process-under-test.ts';
import { cpu, p50, p99, printStandings, rate } from './support/report.ts';

const options = benchOptions({ starts: 2, connections: 16 });
const padded = '/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000';
const ports = { well: 17_001, hung: 17_002 } as const;

async function startRedis(port: number): Promise<ChildProcess> {
  const child = spawn('taskset', ['-c', String(loadCpu), 'redis-server', '--port', String(port), '--save', '']);
  process.once('exit', () => child.kill('SIGKILL'));
  for await (const chunk of child.stdout) if (/ready to accept/i.test(String(chunk))) return child;
  throw new Error(`redis-server ended: is port ${port} taken?`);
}

requirePrograms();
const node = await startNode(loadCpu);
const well = await startRedis(ports.well);
const hung = await startRedis(ports.hung);
const standings = await runContest({
  options,
  requests: [
    { title: 'one hot key, 400 B', path: `/v1/accounts/0x5a000001${padded}` },
    { title: '20,000 keys by turns, 400 B', path: `/v1/accounts/%A${padded}`, byTurns: true },
  ],
  async start() {
    hung.kill('SIGCONT');
    const gateway = { nodeUrl: node.url, cpu: serverCpu };
    const memory = { maxBytes: '1MiB' };
    const redis = (port: number) => ({ cache: { memory, redis: { url: `redis://127.0.0.1:${port}` } } });
    const gateways = [
      await startGateway({ ...gateway, name: 'no Redis', config: { cache: { memory } } }),
      await startGateway({ ...gateway, name: 'Redis', config: redis(ports.well) }),
      await startGateway({ ...gateway, name: 'Redis, hung', config: redis(ports.hung) }),
    ];
    hung.kill('SIGSTOP');
    return gateways;
  },
});
node.stop();
hung.kill('SIGKILL');
well.kill('SIGKILL');

const columns = { 'req/s': rate, 'CPU us/request': cpu, 'p50 ms': p50, 'p99 ms': p99 };
for (const [{ title }, servers] of standings) printStandings(title, servers, { options, columns });
