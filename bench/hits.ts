/**
 * Cached hits: the complete gateway, with and without `listen.fastPath`, beside nginx, Varnish, HAProxy and a bare
 * node:http server that answers the same bytes. No read may reach the node meanwhile.
 */
import { findTool } from '../scripts/tools.ts';
import { askAll } from './support/ask-all.ts';
import { readPath, startCheapNode, type BodyBytes, type CheapNode } from './support/cheap-node.ts';
import { loadCpu, requireHits, runContest, serverCpu, type Request } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { pathsOf } from './support/load.ts';
import { isAsked, optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms, startServer, type ServerProcess } from './support/process-under-test.ts';
import { eitherNginx, haproxy, nginx, nginxSendfile, startCaches, varnish } from './support/reference-caches.ts';
import { cpu, cpuBeside, howTaken, p99, rate, standingsTable } from './support/report.ts';

interface HitRequest extends Request {
  readonly keys: number;
}

/** Of 60 kB so many are a sixteenth of a gigabyte. */
const many: Readonly<Record<BodyBytes, number>> = { 400: 10_000, 4_000: 10_000, 60_000: 1_000 };
const sizes: Readonly<Record<BodyBytes, string>> = { 400: '400 B', 4_000: '4 kB', 60_000: '60 kB' };

function requestOf(bytes: BodyBytes, keys: number, connections: number): HitRequest {
  const shown = keys === 1 ? 'one key' : `${keys.toLocaleString('en')} keys`;
  const title = `${sizes[bytes]}, ${shown}, ${connections} ${connections === 1 ? 'connection' : 'connections'}`;
  return { title, keys, connections, path: readPath(bytes, '2400000000'), order: { kind: 'random', of: keys } };
}

const requests: readonly HitRequest[] = [
  ...[1, many[400]].flatMap((keys) => [64, 512, 1].map((connections) => requestOf(400, keys, connections))),
  ...([4_000, 60_000] as const).flatMap((bytes) => [
    requestOf(bytes, 1, 64),
    requestOf(bytes, many[bytes], 64),
    requestOf(bytes, many[bytes], 512),
  ]),
];

const [own, plain, own24] = ['ledgergate', 'ledgergate, fastPath: false', 'ledgergate, Node 24'];

async function start(node: CheapNode, asked: readonly HitRequest[]): Promise<readonly ServerProcess[]> {
  const [nodeUrl = ''] = node.urls;
  const caches = await startCaches([nginx, nginxSendfile, varnish, haproxy], { nodeUrl, cpu: serverCpu });
  const config = { cache: { memory: { maxBytes: '1GiB' } } };
  const gateway = { nodeUrl, cpu: serverCpu, config };
  const fronted = await startGateway({ ...gateway, name: own, fastPath: true });
  const gateways = [fronted, await startGateway({ ...gateway, name: plain, fastPath: false })];
  const older = findTool('node-24');
  if (older === undefined) process.stderr.write('\n!!! LEFT OUT: Node 24 (npm run tools)\n\n');
  else gateways.push(await startGateway({ ...gateway, name: own24, fastPath: true, node: older }));
  const loads = new Map(asked.map(({ path, keys }) => [path, keys]));
  for (const { path, keys } of asked) loads.set(path, Math.max(keys, loads.get(path) ?? 0));
  const bareArgs = [...loads].flatMap(([path, keys]) => [path, String(keys)]);
  const { origin } = new URL(fronted.url);
  const bare = await startServer('node:http', ['bench/support/bare-server.ts', origin, ...bareArgs], serverCpu);
  return [...caches, bare, ...gateways];
}

export const hits: Part = {
  name: 'hits',
  heading: 'Cached hits',
  async run(flags: Flags) {
    requirePrograms('nginx');
    const options = optionsOf(flags, { starts: 2, rounds: 3 });
    const asked = requests.filter(({ title }) => isAsked(flags, title));
    const node = await startCheapNode({ cpu: loadCpu });
    const standings = await runContest({
      options,
      requests: asked,
      start: () => start(node, asked),
      prepare: ({ name, url }, request) => (name === 'node:http' ? Promise.resolve() : askAll(url, pathsOf(request))),
      reads: () => node.reads(),
    });
    node.server.stop();
    requireHits(standings);
    const columns = {
      'req/s': rate,
      'CPU µs/request': cpu,
      '× nginx': cpuBeside(...eitherNginx),
      '× Varnish': cpuBeside('Varnish'),
      '× HAProxy': cpuBeside('HAProxy'),
      '× node:http': cpuBeside('node:http'),
      'p99 ms': p99,
    };
    const text = `The complete gateway (the built package, Node ${process.versions.node} by default: canonical keys, live ledger headers, metrics, log level info), with \`listen.fastPath\` and without it; nginx \`proxy_cache\` with \`open_file_cache\`, without sendfile and with it; Varnish with malloc; HAProxy's cache; a bare \`node:http\` server that writes the gateway's bytes from memory. One core each. ${howTaken(options)}. "× nginx" is nginx's processor time per request, by the cheaper of its two, divided by the row's: how many times the hits one core answers. No read reached the node while it was measured, which the run checks.

${standingsTable(standings, columns)}`;
    return text;
  },
};
