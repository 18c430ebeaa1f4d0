/**
 * The cost of clients' connections: resident memory with none and with a crowd of them, for each kind of crowd in a
 * gateway of its own, and how long a hit of another client takes beside them.
 *
 *     npm run bench:connections -- [CONNECTIONS [SECONDS]]      by default 10000 and 20; a tenth of them ask ahead
 *
 * Gateway on core 0; the crowd, in a process of its own, and the sample node on core 1.
 */
import { request, Agent } from 'undici';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadCpu, serverCpu } from './support/contest.ts';
import { quantile } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import type { ServerProcess } from './support/process-under-test.ts';
import { startSampleNode } from './support/sample-node.ts';
import { requireFiles, startCrowd } from './support/start-crowd.ts';

const [count = 10_000, seconds = 20] = process.argv.slice(2).map(Number);

const small = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=500';
const large = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded60000?ledger_version=500';
const huge = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded2000000?ledger_version=PLACE';
const crowds: readonly (readonly [kind: string, what: string, path: string, count: number])[] = [
  ['idle', 'idle, after one hit', small, count],
  ['hits', 'a hit every 5 s each', small, count],
  ['slow heads', 'heads that never end', small, count],
  ['unread', '120 hits of 60 kB each asked for ahead, nothing read', large, count / 10],
  ['slow readers', 'one of 1,000 answers of 2 MB each, some 100 kB read every 5 s', huge, count / 2],
];

interface Measured {
  readonly before: number;
  readonly most: number;
  /** Milliseconds of hits while the crowd comes, and while it stands. */
  readonly coming: Waits;
  readonly standing: Waits;
}

interface Waits {
  readonly p50: number;
  readonly p99: number;
}

/** Resident memory before, while and after the crowd stood for so long; hits of another client meanwhile. */
async function measure(gateway: ServerProcess, kind: string, path: string, places: number): Promise<Measured> {
  // A crowd that takes much of the time is part of what is measured.
  const agent = new Agent({ connections: 1 });
  const crowdUrl = new URL(path, gateway.url).href;
  const url = new URL(small, gateway.url).href;
  const hit = async (): Promise<number> => {
    const startedMs = performance.now();
    const { statusCode, body } = await request(url, { dispatcher: agent });
    await body.dump();
    if (statusCode !== 200) throw new Error(`${url} is answered ${statusCode}`);
    return performance.now() - startedMs;
  };
  // The memory of the compiler and the collector is not the crowd's.
  for (let warm = 0; warm < 5_000; warm += 1) await hit();
  await sleep(1_000);
  const before = gateway.residentMiB() * 2 ** 20;
  let most = 0;
  const hitsWhile = async (goesOn: () => boolean): Promise<Waits> => {
    const waits: number[] = [];
    while (goesOn()) {
      waits.push(await hit());
      most = Math.max(most, gateway.residentMiB() * 2 ** 20);
      await sleep(10);
    }
    return { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99) };
  };
  let isComing = true;
  const starting = startCrowd({ kind, count: places, url: crowdUrl }).finally(() => (isComing = false));
  try {
    const coming = await hitsWhile(() => isComing);
    await starting;
    const endMs = performance.now() + seconds * 1_000;
    return { before, coming, standing: await hitsWhile(() => performance.now() < endMs), most };
  } finally {
    await (await starting).stop();
    await agent.destroy();
  }
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);

requireFiles(count);
const node = await startSampleNode(loadCpu);
process.stdout.write(`\n${count} connections, ${seconds} s\n\n`);
process.stdout.write(
  '| connections | what they do | RSS MB without | with, at most | kB each | another client\u2019s hit while they come, p50 / p99 ms | while they stand |\n',
);
process.stdout.write('|--:|---|--:|--:|--:|--:|--:|\n');
for (const [kind, what, path, places] of crowds) {
  const config = { listen: { host: '127.0.0.1', port: 0, maxConnections: count + 100 } };
  const gateway = await startGateway({ name: kind, nodeUrl: node.url, cpu: serverCpu, config });
  const { before, most, coming, standing } = await measure(gateway, kind, path, places);
  gateway.stop();
  const cells = [
    String(places),
    what,
    megabytes(before),
    megabytes(most),
    ((most - before) / places / 1e3).toFixed(1),
    `${coming.p50.toFixed(1)} / ${coming.p99.toFixed(1)}`,
    `${standing.p50.toFixed(1)} / ${standing.p99.toFixed(1)}`,
  ];
  process.stdout.write(`| ${cells.join(' | ')} |\n`);
}
node.stop();
