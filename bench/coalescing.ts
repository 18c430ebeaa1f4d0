/** Callers who all ask for one cold key at once, of a node that takes 50 ms: how often it is asked, and who waits. */
import { setTimeout as sleep } from 'node:timers/promises';
import { askAtOnce, type Burst } from './support/burst.ts';
import type { NodeCounts } from './support/capacity-node.ts';
import { inTurns, loadCpu, serverCpu } from './support/contest.ts';
import { medianOf, spreadOf } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { startServer, type ServerProcess } from './support/process-under-test.ts';
import { haproxy, nginx, startCaches, varnish } from './support/reference-caches.ts';
import { table } from './support/report.ts';

const callers = 500;
const serviceMs = 50;

interface Round extends Burst {
  readonly upstreamReads: number;
}

async function startSlowNode(): Promise<ServerProcess> {
  const node = await startServer('slow node', ['bench/support/capacity-node.ts'], loadCpu);
  const settings = { places: 2 * callers, serviceMs, times: 'equal' };
  await fetch(new URL('/control', node.url), { method: 'POST', body: JSON.stringify(settings) });
  return node;
}

export const coalescing: Part = {
  name: 'coalescing',
  heading: 'One cold key, many callers',
  async run(flags: Flags) {
    const { rounds } = optionsOf(flags, { rounds: 7 });
    const node = await startSlowNode();
    const upstream = { nodeUrl: node.url, cpu: serverCpu };
    const servers = [
      ...(await startCaches([nginx, varnish, haproxy], upstream)),
      await startGateway({ ...upstream, name: 'ledgergate', fastPath: true }),
    ];
    const reads = async (): Promise<number> =>
      ((await (await fetch(new URL('/control', node.url))).json()) as NodeCounts).reads;
    let version = 500_000_000;
    const measure = async ({ url }: ServerProcess): Promise<Round> => {
      version += 1;
      const before = await reads();
      const path = `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
      const burst = await askAtOnce(url, path, callers);
      await sleep(serviceMs);
      return { ...burst, upstreamReads: (await reads()) - before };
    };
    // The first two measure the compiler more than the server.
    for (const server of servers) for (let turn = 0; turn < 2; turn += 1) await measure(server);
    const done = await inTurns(servers, rounds, measure);
    for (const server of [...servers, node]) server.stop();

    const rows = [...done].map(([{ name }, measured]) => [
      name,
      spreadOf(measured, ({ upstreamReads }) => upstreamReads, 0),
      medianOf(measured, ({ p50Ms }) => p50Ms, 1),
      spreadOf(measured, ({ p99Ms }) => p99Ms, 1),
      medianOf(measured, ({ longestMs }) => longestMs, 1),
    ]);
    const text = `${callers} callers, each on a connection of its own, read one key that no request has read; the node takes ${serviceMs} ms. ${rounds} rounds with a key each, interleaved: median (least-most). nginx with \`proxy_cache_lock\`, which looks again every 500 ms.

${table(['server', 'reads of the node', 'p50 ms', 'p99 ms', 'longest ms'], rows)}`;
    return text;
  },
};
