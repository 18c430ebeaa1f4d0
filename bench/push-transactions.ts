/**
 * Streams of transactions while nodes die, one lags, and the gateway is killed: each reader compares each byte with the
 * node's, in order. Processor time of the gateway for an event of a stream, and the time from a commit to its reader.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { request as send } from 'undici';
import { syntheticTransaction } from '../src/sample/synthetic.ts';
import { freePort } from '../test/support/free-port.ts';
import { ManualClock } from '../test/support/manual-clock.ts';
import { createSampleNode, type SampleNode } from '../test/support/sample-node.ts';
import { serverCpu } from './support/contest.ts';
import { quantile } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { table } from './support/report.ts';
import { StreamCrowd, type Expected } from './support/stream-crowd.ts';

const start = 1_000_000;
const perSecond = 200;
const blockMs = 50;

/** Three nodes of one ledger, which goes on at its rate. */
class Ledger implements Expected {
  readonly nodes: readonly SampleNode<ManualClock>[];
  head = start;
  readonly #committed: number[] = [];
  readonly #frames: Buffer[] = [];
  readonly #blocks: NodeJS.Timeout;
  readonly #beganMs = performance.now();

  constructor(nodes: readonly SampleNode<ManualClock>[]) {
    this.nodes = nodes;
    this.#blocks = setInterval(() => this.#commit(), blockMs);
  }

  static async start(): Promise<Ledger> {
    const nodes = [1, 2, 3].map(() =>
      createSampleNode({ clock: new ManualClock({ head: BigInt(start), oldest: 0n }), keepRequests: 1 }),
    );
    return new Ledger(await Promise.all(nodes));
  }

  /** A timer that is late does not slow the ledger. */
  #commit(): void {
    const nowMs = performance.now();
    const head = start + Math.floor(((nowMs - this.#beganMs) * perSecond) / 1_000);
    while (this.head < head) {
      this.head += 1;
      this.#committed[this.head - start] = nowMs;
    }
    for (const { clock } of this.nodes) clock.head = BigInt(head);
  }

  frameOf(version: number): Buffer {
    return (this.#frames[version - start] ??= Buffer.from(
      `id: ${version}\nevent: transaction\ndata: ${this.#transaction(version)}\n\n`,
    ));
  }

  committedMs(version: number): number | undefined {
    return this.#committed[version - start];
  }

  #transaction(version: number): string {
    const [node] = this.nodes;
    return syntheticTransaction(BigInt(version), node?.clock.timestampUsecOf(BigInt(version)) ?? 0n);
  }

  /** Transactions whose bytes are not those of `by_version`. */
  async wrongFrames(every: number): Promise<number> {
    let wrong = 0;
    for (let version = start + 1; version < this.head; version += every) {
      const reply = await send(`${this.nodes[2]?.url}/transactions/by_version/${version}`);
      if ((await reply.body.text()) !== this.#transaction(version)) wrong += 1;
    }
    return wrong;
  }

  get pages(): number {
    return this.nodes.reduce((sum, node) => sum + node.requestsTo('transactions'), 0);
  }

  get calls(): number {
    return this.nodes.reduce((sum, { requests }) => sum + requests, 0);
  }

  async close(): Promise<void> {
    clearInterval(this.#blocks);
    await Promise.all(this.nodes.map((node) => node.close()));
  }
}

/** Faults at their shares of the run. */
function faultsOf({ nodes: [one, two, three] }: Ledger) {
  return [
    { at: 0.2, do: () => one && (one.fault = { kind: 'reset' }) },
    { at: 0.3, do: () => two && (two.fault = { kind: 'lag', versions: 500n }) },
    { at: 0.4, do: () => one && (one.fault = undefined) },
    { at: 0.45, do: () => three && (three.fault = { kind: 'hang' }) },
    { at: 0.55, do: () => three && (three.fault = undefined) },
    { at: 0.8, do: () => two && (two.fault = undefined) },
  ];
}

/** The gateway is killed at this share of the run. */
const killedAt = 0.6;

interface Run {
  readonly name: string;
  readonly streams: number;
  readonly hasFaults: boolean;
}

async function measure({ name, streams, hasFaults }: Run, seconds: number): Promise<string[]> {
  const ledger = await Ledger.start();
  const port = await freePort();
  const begin = () =>
    startGateway({
      name,
      nodeUrl: ledger.nodes.map(({ url }) => url),
      cpu: serverCpu,
      port,
      config: { upstream: { audit: 0 }, follow: { mode: 'always' } },
    });
  let server = await begin();
  await sleep(2_000);
  const crowd = new StreamCrowd(`${server.url}/transactions`, streams, ledger.head, ledger);
  const { figures } = crowd;
  crowd.connect();
  await sleep(3_000);
  const [events, pages, calls, startMs] = [figures.events, ledger.pages, ledger.calls, performance.now()];
  figures.delaysMs.length = 0;
  let startCpu = server.cpuMicros();
  let cpu = 0;
  const share = (): number => (performance.now() - startMs) / (seconds * 1_000);
  const faults = hasFaults ? faultsOf(ledger) : [];
  let wasKilled = !hasFaults;
  let restartMs = 0;
  let resident = 0;
  for (; share() < 1; await sleep(20)) {
    while ((faults[0]?.at ?? 1) <= share()) faults.shift()?.do();
    resident = Math.max(resident, server.residentMiB());
    if (wasKilled || share() < killedAt) continue;
    wasKilled = true;
    cpu += server.cpuMicros() - startCpu;
    server.stop();
    const killedMs = performance.now();
    server = await begin();
    restartMs = performance.now() - killedMs;
    startCpu = 0;
  }
  cpu += server.cpuMicros() - startCpu;
  const elapsed = (performance.now() - startMs) / 1_000;
  const got = figures.events - events;
  const rates = [ledger.pages - pages, ledger.calls - calls].map((count) => (count / elapsed).toFixed(1));
  // All that was committed comes, however late.
  const { head } = ledger;
  for (let rounds = 0; crowd.least <= head && rounds < 500 && figures.wrong === 0; rounds += 1) await sleep(20);
  const missing = Math.max(0, head + 1 - crowd.least);
  const wrong = figures.wrong + (await ledger.wrongFrames(97));
  const { delaysMs, resumed } = figures;
  crowd.close();
  server.stop();
  await ledger.close();
  process.stderr.write(`${name}: restart in ${restartMs.toFixed(0)} ms\n`);
  return [
    name,
    String(streams),
    got.toLocaleString('en'),
    String(resumed),
    String(wrong),
    String(missing),
    ...rates,
    streams === 0 ? '' : quantile(delaysMs, 0.5).toFixed(0),
    streams === 0 ? '' : quantile(delaysMs, 0.99).toFixed(0),
    ((cpu / 1e6 / elapsed) * 100).toFixed(1),
    got === 0 ? '' : (cpu / got).toFixed(2),
    resident.toFixed(0),
  ];
}

export const pushTransactions: Part = {
  name: 'push-transactions',
  heading: 'Streams of transactions',
  async run(flags: Flags) {
    const { seconds, connections } = optionsOf(flags, { seconds: 60, connections: 1_000 });
    const runs: readonly Run[] = [
      { name: 'no stream', streams: 0, hasFaults: false },
      { name: 'calm', streams: connections, hasFaults: false },
      { name: 'faults', streams: connections, hasFaults: true },
    ];
    const rows: string[][] = [];
    for (const run of runs) rows.push(await measure(run, seconds));
    return `A ledger of ${perSecond} transactions a second of some 0.8 kB at three nodes, followed always; each reader compares each byte with the node's and resumes by its last id. ${seconds} s each; with faults, one node resets connections from 20 % to 40 % of the time, another one lags 500 versions from 30 % to 80 %, the third hangs from 45 % to 55 %, and the gateway is killed at 60 % and started again. Wrong counts gaps, doubles and other bytes; missing are transactions that the last reader has not got 10 s after the end. Pages and calls are those of all nodes, a second; ms are from the commit to the reader, catching up after the restart included.

${table(['gateway', 'streams', 'events', 'resumed', 'wrong', 'missing', 'pages', 'calls', 'p50 ms', 'p99 ms', '% of a core', 'µs an event', 'MiB'], rows)}`;
  },
};
