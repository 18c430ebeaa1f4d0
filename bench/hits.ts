/**
 * Cached hits beside a bare node:http server that answers the same bytes, in interleaved rounds of one run.
 *
 *     npm run bench:hits -- [--rounds N] [--seconds S] [--connections N]
 *
 * Server on core 0, wrk on core 1. Ratios of one run are what counts: CPU time per request hardly moves when other
 * work shares the machine, requests per second do.
 */
import { parseArgs } from 'node:util';
import { measure, median, type Measured } from './support/load.ts';
import { hasProgram, startServer, type ServerProcess } from './support/process-under-test.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    connections: { type: 'string', default: '64' },
  },
});
/** Until the compiler has settled: a cold server costs half as much again per request. */
const warmUpSeconds = 6;
const rounds = Number(values.rounds);
const load = { connections: Number(values.connections), seconds: Number(values.seconds) };
const sizes = { '400 B': 'Padded400', '60 kB': 'Padded60000' } as const;
const [serverCpu, loadCpu] = [0, 1];

if (!hasProgram('wrk') || !hasProgram('taskset'))
  throw new Error('wrk and taskset are needed: apt-get install wrk util-linux');
const paths = Object.fromEntries(
  Object.entries(sizes).map(([size, struct]) => [
    size,
    `/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::${struct}?ledger_version=1000`,
  ]),
);
const node = await startServer('sample node', ['bench/support/node-server.ts'], loadCpu);
const gateway = await startServer(
  'ledgergate',
  [
    'bin/ledgergate.js',
    'serve',
    '--upstream',
    node.url,
    '--host',
    '127.0.0.1',
    '--port',
    '0',
    '--operations-port',
    '0',
  ],
  serverCpu,
);
const origin = new URL(gateway.url).origin;
const bare = await startServer(
  'node:http',
  ['bench/support/bare-server.ts', origin, ...Object.values(paths)],
  serverCpu,
);

for (const [size, path] of Object.entries(paths)) {
  const body = Buffer.from(await (await fetch(origin + path)).arrayBuffer());
  const results = new Map<ServerProcess, Measured[]>([
    [bare, []],
    [gateway, []],
  ]);
  for (const server of results.keys()) await measure(server, { ...load, seconds: warmUpSeconds, path }, loadCpu);
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? [bare, gateway] : [gateway, bare];
    for (const server of order) results.get(server)?.push(await measure(server, { ...load, path }, loadCpu));
  }
  print(size, body.length, results);
}
for (const server of [gateway, bare, node]) server.stop();

function print(size: string, bytes: number, results: ReadonlyMap<ServerProcess, readonly Measured[]>): void {
  const floor = median((results.get(bare) ?? []).map((round) => round.cpuMicrosPerRequest));
  process.stdout.write(`\n${size} (${bytes} bytes), ${load.connections} connections, medians of ${rounds} rounds\n`);
  process.stdout.write(
    `| server | req/s | CPU us/request (min-max) | CPU ratio to node:http | p99 ms |\n|---|--:|--:|--:|--:|\n`,
  );
  for (const [server, measured] of results) {
    const cpu = measured.map((round) => round.cpuMicrosPerRequest);
    const cells = [
      server.name,
      Math.round(median(measured.map((round) => round.requestsPerSecond))),
      `${median(cpu).toFixed(1)} (${Math.min(...cpu).toFixed(1)}-${Math.max(...cpu).toFixed(1)})`,
      (median(cpu) / floor).toFixed(2),
      median(measured.map((round) => round.p99Ms)).toFixed(2),
    ];
    process.stdout.write(`| ${cells.join(' | ')} |\n`);
  }
}
