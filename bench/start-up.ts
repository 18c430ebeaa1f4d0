/** From the start of the process to the first answer to a pinned read, with a node that is there. */
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { findTool } from '../scripts/tools.ts';
import { newVersionsPath, startCheapNode } from './support/cheap-node.ts';
import { inTurns, loadCpu, serverCpu } from './support/contest.ts';
import { medianOf, spreadOf } from './support/figures.ts';
import { gatewayCommand } from './support/gateway.ts';
import { accountAt } from './support/load.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms, startProgram, type ServerProcess } from './support/process-under-test.ts';
import { haproxy, installed, nginx, varnish } from './support/reference-caches.ts';
import { table } from './support/report.ts';
import { freePort } from '../test/support/free-port.ts';

const path = newVersionsPath(400, accountAt(1)).replace('%V', '400000000');
/** Longer than any of them takes. */
const giveUpMs = 30_000;

interface Started {
  readonly tookMs: number;
  readonly cpuMs: number;
  readonly residentMiB: number;
}

type Start = (port: number) => Promise<ServerProcess>;

function startsOf(nodeUrl: string): ReadonlyMap<string, Start> {
  const cpu = serverCpu;
  const nodeProgram = (args: readonly string[], port: number, command = process.execPath) =>
    startProgram({ name: args.join(' '), command, args, cpu, port });
  const proxy =
    (kind: string): Start =>
    (port) =>
      nodeProgram(['bench/support/plain-proxy.ts', kind, nodeUrl, String(port)], port);
  const gateway =
    (node?: string): Start =>
    (port) =>
      nodeProgram(gatewayCommand({ name: 'ledgergate', nodeUrl, cpu, port, fastPath: true }), port, node);
  const names = new Map([
    [nginx, 'nginx'],
    [varnish, 'Varnish'],
    [haproxy, 'HAProxy'],
  ]);
  const older = findTool('node-24');
  return new Map<string, Start>([
    ...installed([nginx, varnish, haproxy]).map((cache): [string, Start] => [
      names.get(cache) ?? '',
      (port) => cache({ nodeUrl, cpu, port }),
    ]),
    ['node:http', proxy('http')],
    ['fastify', proxy('fastify')],
    ['ledgergate', gateway()],
    ...(older === undefined ? [] : [['ledgergate, Node 24', gateway(older)] as const]),
  ]);
}

async function measure(start: Start): Promise<Started> {
  const port = await freePort();
  const startMs = performance.now();
  const server = await start(port);
  try {
    while (!(await isAnswered(new URL(path, server.url)))) {
      if (performance.now() - startMs > giveUpMs) throw new Error(`${server.name} does not answer`);
      await sleep(2);
    }
    const tookMs = performance.now() - startMs;
    return { tookMs, cpuMs: server.cpuMicros() / 1000, residentMiB: server.residentMiB() };
  } finally {
    server.stop();
  }
}

async function isAnswered(url: URL): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url, { reset: true });
    await body.dump();
    return statusCode === 200;
  } catch {
    return false;
  }
}

export const startUp: Part = {
  name: 'start-up',
  heading: 'Start',
  async run(flags: Flags) {
    requirePrograms('nginx');
    const { rounds } = optionsOf(flags, { rounds: 7 });
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const starts = startsOf(nodeUrl);
    // Builds the package, and reads the files of all from the disk.
    for (const start of starts.values()) await measure(start);
    const done = await inTurns([...starts], rounds, ([, start]) => measure(start));
    node.server.stop();
    const rows = [...done].map(([[name], started]) => [
      name,
      spreadOf(started, ({ tookMs }) => tookMs, 0),
      medianOf(started, ({ cpuMs }) => cpuMs, 0),
      medianOf(started, ({ residentMiB }) => residentMiB, 0),
    ]);
    const text = `From the start of the process to the first 200 to a pinned read, with a node that is there; the gateway is the built package, and has started before, so that what was compiled is there. \`node:http\` and Fastify hand on and keep nothing. Resident memory with shared pages, of all processes. ${rounds} rounds, interleaved: median (least-most).

${table(['server', 'ms to the first answer', 'CPU ms', 'resident MiB'], rows)}`;
    return text;
  },
};
