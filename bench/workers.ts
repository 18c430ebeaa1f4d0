/**
 * Two workers beside one: cached hits a second, with the load generator on the same two cores, as a small machine has
 * it. Both gateways may use both cores; in interleaved rounds of one run.
 *
 *     npm run bench:workers -- [--starts N] [--rounds N] [--seconds S] [--connections N] [--warm-up S]
 */
import { loadCpu, runContest } from './support/contest.ts';
import { benchOptions } from './support/options.ts';
import { requirePrograms, startGateway, startNode } from './support/process-under-test.ts';
import { p50, p99, printStandings, rate } from './support/report.ts';

const options = benchOptions({ starts: 2 });
const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000';

requirePrograms();
const node = await startNode(loadCpu);
const standings = await runContest({
  options,
  requests: [{ title: '400 B', path }],
  async start() {
    const gateway = { nodeUrl: node.url, cpu: '0,1' };
    return [
      await startGateway({ ...gateway, name: 'one process' }),
      await startGateway({ ...gateway, name: 'two workers', config: { workers: 2 } }),
    ];
  },
});
node.stop();

const columns = { 'req/s': rate, 'p50 ms': p50, 'p99 ms': p99 };
for (const [{ title }, servers] of standings) printStandings(title, servers, { options, columns });
