/**
 * Watches of resources that change: reads of the node, the delay from a change to its event, the memory of a watcher, and
 * how long a hit of another client takes beside them.
 *
 *     node bench/push-watches.ts [WATCHERS [RESOURCES [CHANGING [SECONDS]]]]      by default 10000, 100, 10 and 30
 *
 * Gateway on core 0; watchers and node, each in a process of its own, on core 1.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { loadCpu, serverCpu } from './support/contest.ts';
import { quantiles } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { startServer, type ServerProcess } from './support/process-under-test.ts';
import { table } from './support/report.ts';
import { requireFiles, scriptOf, startScript } from './support/start-crowd.ts';
import type { WatchCounts } from './support/watch-crowd.ts';

const [count = 10_000, resources = 100, changing = 10, seconds = 30] = process.argv.slice(2).map(Number);
const hitPath = '/v1/accounts/0x5a999999/resource/0x1::bench::Watched?ledger_version=5';

/** Hits of another client. */
interface Hits {
  readonly ms: number[];
  /** Processor time of the gateway meanwhile: a busy machine does not lengthen it. */
  readonly cpuMs: number[];
}

/** One hit each 10 ms while `goesOn`. */
async function hitsWhile(gateway: ServerProcess, goesOn: () => boolean): Promise<Hits> {
  const agent = new Agent({ connections: 1 });
  const hits: Hits = { ms: [], cpuMs: [] };
  while (goesOn()) {
    const cpuMicros = gateway.cpuMicros();
    const startedMs = performance.now();
    const { statusCode, body } = await request(new URL(hitPath, gateway.url), { dispatcher: agent });
    await body.dump();
    if (statusCode !== 200) throw new Error(`a hit is answered ${statusCode}`);
    hits.ms.push(performance.now() - startedMs);
    hits.cpuMs.push((gateway.cpuMicros() - cpuMicros) / 1_000);
    await sleep(10);
  }
  await agent.destroy();
  return hits;
}

function within(ms: number): () => boolean {
  const endMs = performance.now() + ms;
  return () => performance.now() < endMs;
}

function textOf({ ms, cpuMs }: Hits): string {
  return `${quantiles(ms)}; processor time of the gateway meanwhile ${quantiles(cpuMs)}`;
}

async function readsOf(node: ServerProcess): Promise<number> {
  const { body } = await request(new URL('/control', node.url));
  return ((await body.json()) as { reads: number }).reads;
}

requireFiles(count);
const node = await startServer('changing node', [scriptOf('changing-node'), String(changing)], loadCpu);
const config = { listen: { host: '127.0.0.1', port: 0, maxConnections: count + 100 }, streams: { max: count } };
const gateway = await startGateway({ name: 'ledgergate', nodeUrl: node.url, cpu: serverCpu, config });
// The memory of the compiler and the collector is not the watchers'.
await hitsWhile(gateway, within(10_000));
const alone = await hitsWhile(gateway, within(10_000));
const beforeMiB = gateway.residentMiB();

const crowd = startScript('watch-crowd', [count, resources, gateway.url, seconds]);
const startedMs = performance.now();
await once(crowd.lines, 'line', { signal: AbortSignal.timeout(300_000) });
const openedS = (performance.now() - startedMs) / 1_000;
await sleep(2_000);
const [readsBefore, cpuBefore] = [await readsOf(node), gateway.cpuMicros()];
let mostMiB = 0;
const goesOn = within(seconds * 1_000);
const beside = await hitsWhile(gateway, () => {
  mostMiB = Math.max(mostMiB, gateway.residentMiB());
  return goesOn();
});
const reads = ((await readsOf(node)) - readsBefore) / seconds;
const cpuMs = (gateway.cpuMicros() - cpuBefore) / 1_000 / seconds;
await crowd.ended;
const { delaysMs, ended } = JSON.parse(crowd.last()) as WatchCounts;
if (ended > 0) throw new Error(`${ended} streams have ended`);
gateway.stop();
node.stop();

process.stdout
  .write(`\n${count} watchers of ${resources} resources, of which ${changing} change each second; ${seconds} s

${table(
  ['figure', 'value'],
  [
    ['streams opened a second', (count / openedS).toFixed(0)],
    ['reads of the node a second', reads.toFixed(1)],
    ['events a second', (delaysMs.length / seconds).toFixed(0)],
    ['from a change to its event, p50 / p99 / longest, ms', quantiles(delaysMs)],
    ['processor time of the gateway, ms a second', cpuMs.toFixed(0)],
    ['RSS without and with, MB', [beforeMiB, mostMiB].map((mib) => ((mib * 2 ** 20) / 1e6).toFixed(0)).join(' / ')],
    ['RSS a watcher, kB', (((mostMiB - beforeMiB) * 2 ** 20) / count / 1e3).toFixed(1)],
    ['another client\u2019s hit without them, p50 / p99 / longest, ms', textOf(alone)],
    ['beside them', textOf(beside)],
  ],
)}`);
