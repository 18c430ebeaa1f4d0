/**
 * How long hits take at a fixed rate that all servers can keep: 10,000 a second over 64 connections.
 *
 * By h2load, not by support/open-loop.ts: a client in JavaScript takes more processor time for a request than any of these
 * servers, and its own pauses would be most of what p99 shows. h2load takes the time from when a request was sent, and
 * sends one as soon as the last of its connection was answered when it is late; each connection has 6.4 ms for a request.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askAll } from './support/ask-all.ts';
import { readPath, startCheapNode } from './support/cheap-node.ts';
import { inTurns, loadCpu, serverCpu } from './support/contest.ts';
import { medianOf, quantile, spread, spreadOf } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { pathsOf, runProgram } from './support/load.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms, type ServerProcess } from './support/process-under-test.ts';
import { haproxy, nginx, startCaches, varnish } from './support/reference-caches.ts';
import { howTaken, table } from './support/report.ts';
import { newFolder } from './support/run-folder.ts';

const perSecond = 10_000;
const connections = 64;
const paths = pathsOf({ path: readPath(400, '2400000000'), order: { kind: 'turns', of: 2_000 } });
const headers = ['accept: application/json', 'user-agent: ledger-ts-sdk/2.1.0', 'x-node-client: ledger-ts-sdk/2.1.0'];

interface Timed {
  readonly perSecond: number;
  readonly cpuMicrosPerRequest: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
}

async function measure(server: ServerProcess, seconds: number): Promise<Timed> {
  const folder = newFolder('h2load');
  const [log, list] = [join(folder, 'log'), join(folder, 'urls')];
  writeFileSync(list, paths.map((path) => `${new URL(server.url).origin}${path}\n`).join(''));
  const each = `--rps=${(perSecond / connections).toFixed(3)}`;
  const before = server.cpuMicros();
  const how = `-c ${loadCpu} h2load --h1 -t1 -c${connections} -D${seconds} --warm-up-time=1`.split(' ');
  const files = [`--log-file=${log}`, `--input-file=${list}`];
  await runProgram('taskset', [...how, each, ...files, ...headers.flatMap((header) => ['-H', header])]);
  const used = server.cpuMicros() - before;
  // When it began, the status, and the microseconds it took.
  const lines = readFileSync(log, 'latin1')
    .trim()
    .split('\n')
    .map((line) => line.split('\t'));
  rmSync(folder, { recursive: true });
  const bad = lines.filter(([, status]) => status !== '200').length;
  if (bad > 0) throw new Error(`${server.name}: ${bad} answers were not 200`);
  const tookMs = lines.map(([, , micros]) => Number(micros) / 1000);
  return {
    perSecond: tookMs.length / seconds,
    // It is asked in the second of warming up as well.
    cpuMicrosPerRequest: used / ((tookMs.length / seconds) * (seconds + 1)),
    p50Ms: quantile(tookMs, 0.5),
    p99Ms: quantile(tookMs, 0.99),
    p999Ms: quantile(tookMs, 0.999),
  };
}

export const fixedRate: Part = {
  name: 'rate',
  heading: 'Hits at a fixed rate',
  async run(flags: Flags) {
    requirePrograms('nginx', 'h2load');
    const options = optionsOf(flags, { starts: 1, seconds: 4 });
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const gateway = { nodeUrl, cpu: serverCpu };
    const servers = [
      ...(await startCaches([nginx, varnish, haproxy], gateway)),
      await startGateway({ ...gateway, name: 'ledgergate', fastPath: true }),
      await startGateway({ ...gateway, name: 'ledgergate, fastPath: false', fastPath: false }),
    ];
    for (const server of servers) {
      await askAll(server.url, paths);
      await measure(server, options.warmUp);
    }
    const timed = await inTurns(servers, options.rounds, (server) => measure(server, options.seconds));
    for (const server of [...servers, node.server]) server.stop();

    const [first] = servers;
    const besideFirst = (own: readonly Timed[]): readonly number[] =>
      own.map(({ p99Ms }, round) => p99Ms / (timed.get(first as ServerProcess)?.[round]?.p99Ms ?? Number.NaN));
    const rows = [...timed].map(([{ name }, rounds]) => [
      name,
      medianOf(rounds, (round) => round.perSecond, 0),
      medianOf(rounds, (round) => round.p50Ms, 2),
      spreadOf(rounds, (round) => round.p99Ms, 2),
      spread(besideFirst(rounds), 2),
      medianOf(rounds, (round) => round.p999Ms, 2),
      medianOf(rounds, (round) => round.cpuMicrosPerRequest, 1),
    ]);
    const heads = ['server', 'req/s', 'p50 ms', 'p99 ms', "p99 to nginx's", 'p99.9 ms', 'CPU µs/request'];
    const text = `400 B, ${paths.length.toLocaleString('en')} keys, ${perSecond.toLocaleString('en')} requests a second over ${connections} connections, by h2load, which sends in bursts: times are not those of a request alone. ${howTaken(options)}.

${table(heads, rows)}`;
    return text;
  },
};
