/**
 * Signing messages encoded by the gateway with a warm ABI, beside a bare node:http server around the same encoder and
 * beside the gateway handing the same request to a node on loopback, in interleaved rounds of one run.
 *
 *     npm run bench:encode -- [--rounds N] [--seconds S] [--connections N]
 *
 * Servers on core 0, wrk and the node on core 1. The proxied figure counts the gateway's own processor time, without
 * the node's. The standing proof runs as it does by default: one request of a hundred also goes to the node.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { encodeVectors } from '../src/sample/recorded.ts';
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
const path = '/v1/transactions/encode_submission';
/** Recorded requests; the second calls a module whose answer is 66 kB. */
const requests = { 'coin transfer': 'coin transfer', 'stake, 66 kB module': 'initialise a stake owner' } as const;
const [serverCpu, loadCpu] = [0, 1];

if (!hasProgram('wrk') || !hasProgram('taskset'))
  throw new Error('wrk and taskset are needed: apt-get install wrk util-linux');
const folder = mkdtempSync(join(tmpdir(), 'ledgergate-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true }));

const node = await startServer('sample node', ['bench/support/node-server.ts'], loadCpu);
const gateway = await startGateway('ledgergate', true);
const proxied = await startGateway('ledgergate, node encodes', false);
const bare = await startServer('node:http', ['bench/support/bare-encoder.ts', node.url, 'coin', 'stake'], serverCpu);
const servers = [bare, gateway, proxied];

for (const [title, name] of Object.entries(requests)) {
  const body = encodeVectors.find((vector) => vector.name === name && vector.chainId === 1)?.request ?? '';
  await checkAnswers(body);
  const results = new Map<ServerProcess, Measured[]>(servers.map((server) => [server, []]));
  for (const server of servers) await measure(server, { ...load, seconds: warmUpSeconds, path, body }, loadCpu);
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? servers : servers.toReversed();
    for (const server of order) results.get(server)?.push(await measure(server, { ...load, path, body }, loadCpu));
  }
  print(title, results);
}
for (const server of [...servers, node]) server.stop();

function startGateway(name: string, isEncoding: boolean): Promise<ServerProcess> {
  const file = join(folder, `${isEncoding ? 'local' : 'proxied'}.yaml`);
  // JSON is YAML.
  const config = {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { port: 0 },
    upstreams: [{ name: 'node', url: node.url }],
    encode: { enabled: isEncoding },
  };
  writeFileSync(file, JSON.stringify(config));
  return startServer(name, ['bin/ledgergate.js', 'serve', '--config', file], serverCpu);
}

/** Whoever answers other bytes is not worth measuring. */
async function checkAnswers(body: string): Promise<void> {
  const answers = new Set<string>();
  for (const server of servers) {
    const headers = { 'content-type': 'application/json' };
    answers.add(await (await fetch(new URL(path, server.url), { method: 'POST', headers, body })).text());
  }
  if (answers.size !== 1) throw new Error(`the servers do not agree: ${[...answers].join(' ')}`);
}

function print(title: string, results: ReadonlyMap<ServerProcess, readonly Measured[]>): void {
  const cpuOf = (server: ServerProcess): readonly number[] =>
    (results.get(server) ?? []).map((round) => round.cpuMicrosPerRequest);
  const floor = median(cpuOf(bare));
  process.stdout.write(`\n${title}, ${load.connections} connections, medians of ${rounds} rounds\n`);
  process.stdout.write(
    '| server | encodes/s | CPU us/request (min-max) | node:http to it, CPU | p99 ms |\n|---|--:|--:|--:|--:|\n',
  );
  for (const [server, measured] of results) {
    const cpu = cpuOf(server);
    const cells = [
      server.name,
      Math.round(median(measured.map((round) => round.requestsPerSecond))),
      `${median(cpu).toFixed(1)} (${Math.min(...cpu).toFixed(1)}-${Math.max(...cpu).toFixed(1)})`,
      (floor / median(cpu)).toFixed(2),
      median(measured.map((round) => round.p99Ms)).toFixed(2),
    ];
    process.stdout.write(`| ${cells.join(' | ')} |\n`);
  }
}
