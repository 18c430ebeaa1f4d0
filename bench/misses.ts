/**
 * Misses: every request is for a version that no request has read, so that each goes to the node and is stored. Beside
 * the same through nginx, Varnish and HAProxy with their caches, through those that only hand on, and the node alone.
 */
import { newVersionsPath, startCheapNode } from './support/cheap-node.ts';
import { loadCpu, runContest, serverCpu, type Request } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { accountAt } from './support/load.ts';
import { isAsked, optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms, startServer } from './support/process-under-test.ts';
import { haproxy, nginx, startCaches, varnish } from './support/reference-caches.ts';
import {
  cpu,
  cpuBeside,
  howTaken,
  p50,
  p50Above,
  p99,
  rate,
  readsPerRequest,
  standingsTable,
} from './support/report.ts';

const load = { order: { kind: 'new' } } as const;
const requests: readonly Request[] = [
  { ...load, title: '400 B, 1 connection', connections: 1, path: newVersionsPath(400, accountAt(1)) },
  { ...load, title: '400 B, 64 connections', connections: 64, path: newVersionsPath(400, accountAt(2)) },
  { ...load, title: '60 kB, 64 connections', connections: 64, path: newVersionsPath(60_000, accountAt(3)) },
];
const passing = 'nginx, no cache';

export const misses: Part = {
  name: 'misses',
  heading: 'Misses',
  async run(flags: Flags) {
    requirePrograms('nginx');
    const options = optionsOf(flags, { starts: 2, rounds: 3 });
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const standings = await runContest({
      options,
      requests: requests.filter(({ title }) => isAsked(flags, title)),
      async start() {
        const upstream = { nodeUrl, cpu: serverCpu };
        const caches = await startCaches([nginx, varnish, haproxy], upstream);
        const passed = { ...(await nginx({ ...upstream, isCaching: false })), name: passing };
        const proxy = ['bench/support/plain-proxy.ts', 'http', nodeUrl, '0'];
        const gateway = { ...upstream, config: { cache: { memory: { maxBytes: '1GiB' } } } };
        const { against } = flags.mix;
        const others =
          against === undefined ? [] : [await startGateway({ ...gateway, name: 'the other', checkout: against })];
        return [
          // It serves all runs: it is not stopped with the others.
          { ...node.server, stop: () => undefined },
          ...caches,
          passed,
          await startServer('node:http, no cache', proxy, serverCpu),
          await startGateway({ ...gateway, name: 'ledgergate', fastPath: true }),
          await startGateway({ ...gateway, name: 'ledgergate, fastPath: false', fastPath: false }),
          ...others,
        ];
      },
      reads: () => node.reads(),
    });
    node.server.stop();
    const columns = {
      'req/s': rate,
      'CPU µs/request': cpu,
      '× nginx': cpuBeside('nginx'),
      '× Varnish': cpuBeside('Varnish'),
      'p50 ms': p50,
      'p50 above the node ms': p50Above(node.server.name),
      'p99 ms': p99,
      'reads of the node each': readsPerRequest,
    };
    const text = `Every request is for a version that was not asked for before, and every answer is stored. The node is nginx that answers from its config, on the core of the clients: its line is what a request costs without anything between, its processor time that of the node. ${howTaken(options)}. "× nginx": the processor time of nginx's caching miss divided by the row's.

${standingsTable(standings, columns)}`;
    return text;
  },
};
