/**
 * Two workers beside one process: cached hits a second, with the load generator on the same two cores, as a small machine
 * has it, and what a scrape of `/metrics` costs, for which workers are asked for theirs.
 */
import { loadCpu, runContest } from './support/contest.ts';
import { spread } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { measure } from './support/load.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import type { ServerProcess } from './support/process-under-test.ts';
import { cpu, howTaken, p50, p99, rate, standingsTable, table } from './support/report.ts';
import { freePort } from '../test/support/free-port.ts';
import { startSampleNode } from './support/sample-node.ts';

const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000';
const sizes: readonly (readonly [name: string, workers: number])[] = [
  ['one process', 1],
  ['two workers', 2],
];
const scrapes = 40;

function start(nodeUrl: string, [name, workers]: (typeof sizes)[number], operationsPort = 0): Promise<ServerProcess> {
  const config = { workers, operations: { host: '127.0.0.1', port: operationsPort } };
  return startGateway({ name, nodeUrl, cpu: '0,1', config, fastPath: true });
}

/** Rows of the table of scrapes. */
async function measureScrapes(nodeUrl: string): Promise<readonly (readonly string[])[]> {
  const rows: (readonly string[])[] = [];
  for (const size of sizes) {
    const port = await freePort();
    const server = await start(nodeUrl, size, port);
    // So that series are there that only traffic makes.
    await measure(server, { connections: 16, seconds: 1, path }, loadCpu);
    const took: number[] = [];
    let bytes = 0;
    const scrape = async (): Promise<void> => {
      const startMs = performance.now();
      bytes = (await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()).length;
      took.push(performance.now() - startMs);
    };
    for (let warm = 0; warm < scrapes; warm += 1) await scrape();
    took.length = 0;
    const before = server.cpuMicros();
    for (let count = 0; count < scrapes; count += 1) await scrape();
    const cpuMs = (server.cpuMicros() - before) / 1000 / scrapes;
    rows.push([size[0], (bytes / 1000).toFixed(0), spread(took, 1), cpuMs.toFixed(1)]);
    server.stop();
  }
  return rows;
}

export const workers: Part = {
  name: 'workers',
  heading: 'Workers',
  async run(flags: Flags) {
    const options = optionsOf(flags, { starts: 2 });
    const node = await startSampleNode(loadCpu);
    const standings = await runContest({
      options,
      requests: [{ title: '400 B', path }],
      start: () => Promise.all(sizes.map((size) => start(node.url, size))),
    });
    const rows = await measureScrapes(node.url);
    node.stop();
    const [[one, two] = []] = standings.values();
    const ratios = (two?.measured ?? []).map(
      ({ requestsPerSecond }, round) => requestsPerSecond / (one?.measured[round]?.requestsPerSecond ?? Number.NaN),
    );
    const text = `Cached hits of 400 B, ${options.connections} connections, ${howTaken(options)}; the gateway may use both cores, wrk runs on one of them. Two workers answer ${spread(ratios, 2)} times what one process does, load generator included.

${standingsTable(standings, { 'req/s': rate, 'CPU µs/request': cpu, 'p50 ms': p50, 'p99 ms': p99 })}
A scrape of \`/metrics\`, ${scrapes} one after the other, of a gateway that does nothing else; processor time of all its processes:

${table(['server', 'kB', 'ms', 'CPU ms'], rows)}`;
    return text;
  },
};
