/**
 * Cost and gain of pinning for a reader of "latest": the same read through a gateway that pins within 200 ms and
 * through one that sends each to a node (`latest.maxStaleness: 0ms`), beside a pinned read.
 */
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { cpu, cpuBeside, howTaken, p50, p99, rate, standingsTable } from './support/report.ts';
import { startSampleNode } from './support/sample-node.ts';

const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400';
const each = 'each to a node, 0ms';
const shared = 'pinned, 200ms';

export const latest: Part = {
  name: 'latest',
  heading: 'Reads of latest',
  async run(flags: Flags) {
    const options = optionsOf(flags);
    const node = await startSampleNode(loadCpu);
    const standings = await runContest({
      options,
      requests: [4, 64].map((connections) => ({ title: `400 B, ${connections} connections`, connections, path })),
      async start() {
        const gateway = { nodeUrl: node.url, cpu: serverCpu, fastPath: true };
        return [
          await startGateway({ ...gateway, name: each, config: { latest: { maxStaleness: '0ms' } } }),
          await startGateway({ ...gateway, name: shared, config: { latest: { maxStaleness: '200ms' } } }),
        ];
      },
    });
    node.stop();
    const columns = {
      'req/s': rate,
      'CPU µs/request': cpu,
      '× each to a node': cpuBeside(each),
      'p50 ms': p50,
      'p99 ms': p99,
    };
    const text = `The same unpinned read through a gateway that shares a version for 200 ms, and through one with \`latest.maxStaleness: 0ms\`, of a sample node whose ledger moves. ${howTaken(options)}. Pinning adds no latency at the median or at p99: it takes it away, because nearly all reads become hits.

${standingsTable(standings, columns)}`;
    return text;
  },
};
