/**
 * Clients that wait for commits, ten on each transaction: calls of the node for their waits, and the time from a commit to
 * its answers, with the follower and without it, beside another checkout with `--against`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { Mempool } from '../src/sample/mempool.ts';
import { ManualClock } from '../test/support/manual-clock.ts';
import { createSampleNode, type SampleNode } from '../test/support/sample-node.ts';
import { submission } from '../test/support/submission.ts';
import { serverCpu } from './support/contest.ts';
import { quantile } from './support/figures.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { table } from './support/report.ts';

const hashes = 500;
const waitersEach = 10;
const addresses = 50;
/** As the ledger of docs/scaling.md has them. */
const blockMs = 40;
const versionsEach = 8n;
/** Transactions are committed so long after their submission, in ms. */
const pending = { least: 100, most: 1_900 };

interface Run {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly checkout?: string;
}

/** The ledger of one run: blocks commit the transactions that are due. */
class Ledger {
  readonly node: SampleNode<ManualClock>;
  /** By hash, in ms of `performance.now()`. */
  readonly committedMs = new Map<string, number>();
  readonly #due = new Map<string, number>();
  readonly #blocks: NodeJS.Timeout;

  constructor(node: SampleNode<ManualClock>) {
    this.node = node;
    this.#blocks = setInterval(() => this.#commit(), blockMs);
  }

  static async start(): Promise<Ledger> {
    const clock = new ManualClock({ head: 1_000_000n, oldest: 0n });
    return new Ledger(
      await createSampleNode({ clock, mempool: new Mempool({ pendingForMs: Infinity }), keepRequests: 1 }),
    );
  }

  async submit(sequenceNumber: number): Promise<string> {
    const headers = { 'content-type': 'application/json' };
    const body = submission({ sequenceNumber });
    const reply = await send(`${this.node.url}/transactions`, { method: 'POST', headers, body });
    const { hash } = (await reply.body.json()) as { hash: string };
    const { least, most } = pending;
    this.#due.set(hash, performance.now() + least + Math.random() * (most - least));
    return hash;
  }

  close(): Promise<void> {
    clearInterval(this.#blocks);
    return this.node.close();
  }

  #commit(): void {
    const { clock, mempool } = this.node;
    const nowMs = performance.now();
    const due = [...this.#due].filter(([, atMs]) => atMs <= nowMs).map(([hash]) => hash);
    const next = mempool.commitEach(clock.head + 1n, due);
    const end = clock.head + versionsEach;
    clock.head = next - 1n > end ? next - 1n : end;
    for (const hash of due) {
      this.#due.delete(hash);
      this.committedMs.set(hash, nowMs);
    }
  }
}

/** What the clients of one round have got. */
interface Round {
  readonly delaysMs: number[];
  pendingAnswers: number;
  failures: number;
}

/** Waits until the commit, as clients do. */
async function waitFor(url: string, dispatcher: Agent, hash: string, ledger: Ledger, round: Round): Promise<void> {
  for (;;) {
    const reply = await send(`${url}/transactions/wait_by_hash/${hash}`, { dispatcher });
    const text = await reply.body.text();
    if (reply.statusCode === 200 && !text.includes('"pending_transaction"')) {
      round.delaysMs.push(performance.now() - (ledger.committedMs.get(hash) ?? NaN));
      return;
    }
    if (reply.statusCode === 200) round.pendingAnswers += 1;
    else {
      round.failures += 1;
      await sleep(500 + Math.random() * 1_000);
    }
  }
}

/** A row of the table. */
async function measure({ name, config, checkout }: Run, rounds: number): Promise<string[]> {
  const ledger = await Ledger.start();
  const { node } = ledger;
  const server = await startGateway({
    name,
    nodeUrl: node.url,
    cpu: serverCpu,
    config: { upstream: { audit: 0 }, ...config },
    ...(checkout !== undefined && { checkout }),
  });
  const agents = Array.from(
    { length: addresses },
    (_, index) =>
      new Agent({
        connections: (hashes * waitersEach) / addresses,
        pipelining: 1,
        localAddress: `127.0.1.${index + 1}`,
      }),
  );
  const round: Round = { delaysMs: [], pendingAnswers: 0, failures: 0 };
  const figures = () => (['byHash', 'waitByHash', 'transactions'] as const).map((route) => node.requestsTo(route));
  let before: readonly number[] = [];
  let cpuBefore = 0;
  // The first round opens the connections, and the follower begins in it.
  for (let index = 0; index <= rounds; index += 1) {
    if (index === 1) {
      before = figures();
      cpuBefore = server.cpuMicros();
      Object.assign(round, { pendingAnswers: 0, failures: 0 });
      round.delaysMs.length = 0;
    }
    const submitted = await Promise.all(Array.from({ length: hashes }, (_, at) => ledger.submit(index * hashes + at)));
    await Promise.all(
      submitted.flatMap((hash, at) =>
        Array.from({ length: waitersEach }, (_, one) =>
          waitFor(server.url, agents[(at * waitersEach + one) % addresses] as Agent, hash, ledger, round),
        ),
      ),
    );
  }
  const [byHash = 0, waitByHash = 0, pages = 0] = figures().map((figure, index) => figure - (before[index] ?? 0));
  const cpu = server.cpuMicros() - cpuBefore;
  await Promise.all(agents.map((agent) => agent.destroy()));
  server.stop();
  await ledger.close();
  const each = rounds * hashes;
  return [
    name,
    (byHash / each).toFixed(2),
    (waitByHash / each).toFixed(2),
    (pages / rounds).toFixed(0),
    quantile(round.delaysMs, 0.5).toFixed(0),
    quantile(round.delaysMs, 0.99).toFixed(0),
    quantile(round.delaysMs, 1).toFixed(0),
    String(Math.round(round.pendingAnswers / rounds)),
    String(round.failures),
    (cpu / (each * waitersEach)).toFixed(0),
  ];
}

export const pushWaits: Part = {
  name: 'push-waits',
  heading: 'Waits for commits',
  async run(flags: Flags) {
    const { rounds } = optionsOf(flags, { rounds: 3 });
    const { against } = flags.mix;
    const runs: readonly Run[] = [
      ...(against === undefined ? [] : [{ name: 'before', config: {}, checkout: against }]),
      { name: 'follow: off', config: { follow: { mode: 'off' } } },
      { name: 'follow: auto', config: {} },
    ];
    const rows: string[][] = [];
    for (const run of runs) rows.push(await measure(run, rounds));
    return `${hashes * waitersEach} clients of ${addresses} addresses wait for ${hashes} transactions, ${waitersEach} for each, on a connection each, and ask again while it is pending. A block each ${blockMs} ms commits the transactions that are due, ${pending.least} to ${pending.most} ms after their submission. ${rounds} rounds behind one that opens connections and starts the follower. Calls of the node are for each transaction; pages are the follower's in a round; ms are from the commit to the answer at the client; pending answers are those of a round; processor time of the gateway is for each wait until its commit.

${table(['gateway', 'by_hash', 'wait_by_hash', 'pages', 'p50 ms', 'p99 ms', 'longest ms', 'pending answers', 'failures', 'µs a wait'], rows)}`;
  },
};
