/**
 * What pinning costs and saves a reader of "latest": the same read through a gateway that pins within 200 ms and
 * through one that sends each to a node (`latest.maxStaleness: 0ms`), in interleaved rounds of one run.
 *
 *     npm run bench:latest -- [--rounds N] [--seconds S] [--connections N]
 *
 * Gateways on core 0, wrk and the sample node on core 1.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measure, median, type Measured } from './support/load.ts';
import { startServer, type ServerProcess } from './support/process-under-test.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '4' },
  },
});
const rounds = Number(values.rounds);
const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400';
const load = { connections: Number(values.connections), seconds: Number(values.seconds), path };

const folder = mkdtempSync(join(tmpdir(), 'bench-latest-'));
process.once('exit', () => rmSync(folder, { recursive: true }));
const node = await startServer('sample node', ['bench/support/node-server.ts'], 1);
const pinning = await startGateway('pinned, 200ms', '200ms');
const asking = await startGateway('each to a node, 0ms', '0ms');
const results = new Map<ServerProcess, Measured[]>([
  [asking, []],
  [pinning, []],
]);
for (const server of results.keys()) await measure(server, load, 1);
for (let round = 0; round < rounds; round += 1) {
  const order = round % 2 === 0 ? [asking, pinning] : [pinning, asking];
  for (const server of order) results.get(server)?.push(await measure(server, load, 1));
}
process.stdout.write(`\n400 B at latest, ${load.connections} connections, medians of ${rounds} rounds\n`);
process.stdout.write('| gateway | req/s | CPU us/request | p50 ms | p99 ms |\n|---|--:|--:|--:|--:|\n');
for (const [server, measured] of results) {
  const of = (pick: (round: Measured) => number, digits: number): string => median(measured.map(pick)).toFixed(digits);
  const cells = [of((m) => m.requestsPerSecond, 0), of((m) => m.cpuMicrosPerRequest, 1)];
  process.stdout.write(`| ${[server.name, ...cells, of((m) => m.p50Ms, 2), of((m) => m.p99Ms, 2)].join(' | ')} |\n`);
}
for (const server of [pinning, asking, node]) server.stop();

function startGateway(name: string, maxStaleness: string): Promise<ServerProcess> {
  const file = join(folder, `${maxStaleness}.yaml`);
  writeFileSync(file, `upstreams: [{ name: node, url: "${node.url}" }]\nlatest: { maxStaleness: ${maxStaleness} }\n`);
  const args = ['bin/ledgergate.js', 'serve', '--config', file, '--host', '127.0.0.1', '--port', '0'];
  return startServer(name, [...args, '--operations-port', '0'], 0);
}
