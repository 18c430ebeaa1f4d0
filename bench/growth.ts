/** How the cost of a request grows with what there is: entries in memory, upstreams, the length of type tags. */
import { askAll } from './support/ask-all.ts';
import { newVersionsPath, readPath, startCheapNode, type CheapNode } from './support/cheap-node.ts';
import { loadCpu, runContest, serverCpu, type Request, type Standing } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { accountAt, pathsOf } from './support/load.ts';
import { optionsOf, type BenchOptions, type Flags, type Part } from './support/options.ts';
import { requirePrograms } from './support/process-under-test.ts';
import { cpu, howTaken, p50, p99, rate, standingsTable } from './support/report.ts';

const columns = { 'req/s': rate, 'CPU µs/request': cpu, 'p50 ms': p50, 'p99 ms': p99 };
const hit = { path: readPath(400, '2400000000') };
const oneHit = { path: hit.path.replace('%A', accountAt(1)) };

type Standings = ReadonlyMap<Request, readonly Standing[]>;

/** Hits spread over so many entries. */
function withEntries(options: BenchOptions, node: CheapNode, counts: readonly number[]): Promise<Standings> {
  const config = { cache: { memory: { maxBytes: '4GiB' } } };
  return runContest<Request>({
    // Filling is most of the time.
    options: { ...options, starts: 1 },
    requests: counts.map((of) => ({
      ...hit,
      title: `hits, ${of.toLocaleString('en')} entries`,
      order: { kind: 'random', of },
    })),
    start: async () => [
      await startGateway({
        name: 'ledgergate',
        nodeUrl: node.urls.slice(0, 1),
        cpu: serverCpu,
        config,
        fastPath: true,
      }),
    ],
    prepare: ({ url }, request) => askAll(url, pathsOf(request)),
  });
}

/** Hits and misses with so many nodes to choose from. */
function withUpstreams(options: BenchOptions, node: CheapNode, counts: readonly number[]): Promise<Standings> {
  return runContest<Request>({
    options,
    requests: [
      { ...oneHit, title: 'hits, one key' },
      { title: 'misses', order: { kind: 'new' }, path: newVersionsPath(400, accountAt(1)) },
    ],
    start: () =>
      Promise.all(
        counts.map((count) => {
          const name = `${count} ${count === 1 ? 'upstream' : 'upstreams'}`;
          return startGateway({ name, nodeUrl: node.urls.slice(0, count), cpu: serverCpu, fastPath: true });
        }),
      ),
  });
}

/** Hits whose type tag has so many bytes. */
function withTags(options: BenchOptions, node: CheapNode, lengths: readonly number[]): Promise<Standings> {
  return runContest<Request>({
    options,
    requests: lengths.map((bytes) => ({
      title: `hits, one key, type tag of ${bytes.toLocaleString('en')} B`,
      path: readPath(400, '2400000000', tagOf(bytes)).replace('%A', accountAt(1)),
    })),
    start: async () => [
      await startGateway({ name: 'ledgergate', nodeUrl: node.urls.slice(0, 1), cpu: serverCpu, fastPath: true }),
    ],
  });
}

/** A struct tag of that length, with type arguments where it takes some. */
function tagOf(bytes: number): string {
  const bare = '0x1::ab::Body400';
  if (bytes === bare.length) return bare;
  const one = '0x1::ab::T';
  const left = bytes - bare.length - '<>'.length;
  const args = Array.from({ length: Math.floor((left + 1) / (one.length + 1)) }, () => one);
  const missing = left - (args.length * (one.length + 1) - 1);
  return `${bare}<${args.join(',')}${'T'.repeat(missing)}>`;
}

export const growth: Part = {
  name: 'growth',
  heading: 'How cost grows',
  async run(flags: Flags) {
    requirePrograms('nginx');
    const options = optionsOf(flags, { starts: 2, rounds: 3 });
    const node = await startCheapNode({ cpu: loadCpu, count: 50 });
    const counts = flags.isQuick ? [1_000, 10_000] : [1_000, 10_000, 100_000, 1_000_000];
    const entries = await withEntries(options, node, counts);
    const upstreams = await withUpstreams(options, node, [1, 10, 50]);
    const tags = await withTags(options, node, [16, 256, 4_096]);
    node.server.stop();
    const text = `${options.connections} connections, 400 B, ${howTaken(options)}. Entries are of one account each, asked for at random; beyond some 12,000 targets are parsed anew, because those that are remembered are bounded by their bytes. All upstreams are on one core with the load.

${[entries, upstreams, tags].map((one) => standingsTable(one, columns)).join('\n')}`;
    return text;
  },
};
