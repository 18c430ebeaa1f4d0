/**
 * What pinning costs and saves a reader of "latest": the same read through a gateway that pins within 200 ms and
 * through one that sends each to a node (`latest.maxStaleness: 0ms`), in interleaved rounds of one run.
 *
 *     npm run bench:latest -- [--starts N] [--rounds N] [--seconds S] [--connections N] [--warm-up S]
 *
 * Gateways on core 0, wrk and the sample node on core 1.
 */
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { benchOptions } from './support/options.ts';
import { requirePrograms, startGateway, startNode } from './support/process-under-test.ts';
import { cpu, p50, p99, printStandings, rate } from './support/report.ts';

const options = benchOptions({ connections: 4 });
const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400';

requirePrograms();
const node = await startNode(loadCpu);
const standings = await runContest({
  options,
  requests: [{ title: '400 B at latest', path }],
  async start() {
    const gateway = { nodeUrl: node.url, cpu: serverCpu };
    return [
      await startGateway({ ...gateway, name: 'each to a node, 0ms', config: { latest: { maxStaleness: '0ms' } } }),
      await startGateway({ ...gateway, name: 'pinned, 200ms', config: { latest: { maxStaleness: '200ms' } } }),
    ];
  },
});
node.stop();

const columns = { 'req/s': rate, 'CPU us/request': cpu, 'p50 ms': p50, 'p99 ms': p99 };
for (const [{ title }, servers] of standings) printStandings(title, servers, { options, columns });
