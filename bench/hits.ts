/**
 * Cached hits beside a bare node:http server that answers the same bytes, in interleaved rounds of one run.
 *
 *     npm run bench:hits -- [--starts N] [--rounds N] [--seconds S] [--connections N] [--warm-up S] [--workers N]
 *
 * With `--workers N` a gateway of N workers takes part as well, on both cores, so that it shares one with wrk.
 *
 * Server on core 0, wrk on core 1. Ratios of one round are what counts: CPU time per request hardly moves when other
 * work shares the machine, requests per second do.
 */
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { benchOptions } from './support/options.ts';
import { requirePrograms, startGateway, startNode, startServer } from './support/process-under-test.ts';
import { cpu, cpuToFirst, p99, printStandings, rate } from './support/report.ts';

const options = benchOptions();
const pathOf = (struct: string): string =>
  `/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::${struct}?ledger_version=1000`;
const requests = [
  { title: '400 B', path: pathOf('Padded400') },
  { title: '60 kB', path: pathOf('Padded60000') },
];

requirePrograms();
const node = await startNode(loadCpu);
const standings = await runContest({
  options,
  requests,
  async start() {
    const gateway = await startGateway({ name: 'ledgergate', nodeUrl: node.url, cpu: serverCpu });
    const { workers } = options;
    const several = { name: `ledgergate, ${workers} workers`, nodeUrl: node.url, cpu: `${serverCpu},${loadCpu}` };
    const paths = requests.map(({ path }) => path);
    const { origin } = new URL(gateway.url);
    const bare = await startServer('node:http', ['bench/support/bare-server.ts', origin, ...paths], serverCpu);
    return workers === 1 ? [bare, gateway] : [bare, gateway, await startGateway({ ...several, config: { workers } })];
  },
});
node.stop();

const columns = { 'req/s': rate, 'CPU us/request': cpu, 'CPU ratio to node:http': cpuToFirst, 'p99 ms': p99 };
for (const [{ title }, servers] of standings) printStandings(title, servers, { options, columns });
