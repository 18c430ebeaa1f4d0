/**
 * Old reads: below the edge that the full node reports, which go to the archive at once, and below an edge that it does not
 * tell, which it refuses as pruned, so that the archive is asked in the same request. Beside reads that the full node holds.
 */
import { newVersionsPath, startCheapNode } from './support/cheap-node.ts';
import { loadCpu, runContest, serverCpu, type Request } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { accountAt } from './support/load.ts';
import { isAsked, optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms } from './support/process-under-test.ts';
import { cpu, cpuAbove, howTaken, p50, p50Above, p99, readsPerRequest, standingsTable } from './support/report.ts';

const [held, told, repaired] = ['held by the full node', 'below the edge it reports', 'refused by it, repaired'];
const requests: readonly Request[] = [1, 64].map((connections) => ({
  title: `400 B, ${connections} ${connections === 1 ? 'connection' : 'connections'}`,
  connections,
  order: { kind: 'new' },
  path: newVersionsPath(400, accountAt(connections), 1),
}));

export const pruned: Part = {
  name: 'pruned',
  heading: 'Reads that the full node has pruned',
  async run(flags: Flags) {
    requirePrograms('nginx');
    const options = optionsOf(flags, { starts: 2, rounds: 3 });
    const settings = { cpu: loadCpu };
    const nodes = [
      await startCheapNode({ ...settings, oldest: 1_000_000n }),
      await startCheapNode({ ...settings, oldest: 2_000_000_000n, refusesBelow2e9: true }),
      await startCheapNode({ ...settings, oldest: 1_000_000n, refusesBelow2e9: true }),
      await startCheapNode(settings),
    ] as const;
    const archive = nodes[3].urls[0];
    const standings = await runContest({
      options,
      requests: requests.filter(({ title }) => isAsked(flags, title)),
      start: () =>
        Promise.all(
          [held, told, repaired].map((name, index) => {
            const upstreams = [
              { name: 'full', url: nodes[index]?.urls[0] },
              { name: 'archive', url: archive, tier: 'archival' },
            ];
            return startGateway({ name, nodeUrl: [], cpu: serverCpu, config: { upstreams }, fastPath: true });
          }),
        ),
      reads: () => nodes.reduce((sum, node) => sum + node.reads(), 0),
    });
    for (const { server } of nodes) server.stop();
    const columns = {
      'p50 ms': p50,
      'p50 above a held read ms': p50Above(held),
      'p99 ms': p99,
      'CPU µs/request': cpu,
      'CPU above a held read µs': cpuAbove(held),
      'reads of nodes each': readsPerRequest,
    };
    const text = `Misses at versions that the full node has pruned, answered by the archive; both nodes are nginx that answers from its config. The full node of the third line tells an edge that is far below the true one, so that it is asked each time, and refuses. ${howTaken(options)}.

${standingsTable(standings, columns)}`;
    return text;
  },
};
