/**
 * Reads of nodes for resources that many clients poll on a moving ledger, while writers submit and read their effects:
 * by `latest.floor`, beside another checkout with `--against`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { Mempool } from '../src/sample/mempool.ts';
import { ManualClock } from '../test/support/manual-clock.ts';
import { createSampleNode } from '../test/support/sample-node.ts';
import { submission } from '../test/support/submission.ts';
import { serverCpu } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { table } from './support/report.ts';

const pollers = 200;
const resources = [1, 2, 3].map((index) => `/accounts/0x5a00000${index}/resource/0x1::ledgergate_sample::Probe`);
/** Of another route than the polled ones, so that the node counts those alone. */
const effect = '/accounts/0x1/module/coin';
/** As many blocks as the ledger of docs/scaling.md has. */
const blockMs = 40;

/** What the clients of one run have got. */
interface Counts {
  polls: number;
  effects: number;
  /** Reads below an earlier one of their client, or below its write. */
  wrong: number;
}

/** A client at an address of its own, on one connection. */
class Client {
  readonly #url: string;
  readonly #agent: Agent;
  #seen = 0n;

  constructor(url: string, index: number) {
    this.#url = url;
    this.#agent = new Agent({ connections: 1, localAddress: `127.0.${1 + (index >> 7)}.${1 + (index & 127)}` });
  }

  async ask(path: string, body?: string) {
    const method = body === undefined ? 'GET' : 'POST';
    const headers = { 'content-type': 'application/json' };
    const reply = await send(this.#url + path, { dispatcher: this.#agent, method, headers, body: body ?? null });
    return { text: await reply.body.text(), served: reply.headers['ledgergate-served-version'] };
  }

  /** Reads without a version; returns whether the state is as new as all that the client knows. */
  async read(path: string, least = 0n): Promise<boolean> {
    const version = BigInt(String((await this.ask(path)).served));
    const isRight = version >= this.#seen && version >= least;
    if (version > this.#seen) this.#seen = version;
    return isRight;
  }

  async poll(counts: Counts, signal: AbortSignal): Promise<void> {
    await sleep(Math.random() * 1_000);
    while (!signal.aborted) {
      for (const path of resources) {
        if (!(await this.read(path))) counts.wrong += 1;
        counts.polls += 1;
      }
      await sleep(1_000);
    }
  }

  /** Ten times a second. */
  async write(sender: string, counts: Counts, signal: AbortSignal): Promise<void> {
    for (let sequenceNumber = 0; !signal.aborted; sequenceNumber += 1) {
      const nextMs = performance.now() + 100;
      const submitted = await this.ask('/transactions', submission({ sender, sequenceNumber }));
      const { hash } = JSON.parse(submitted.text) as { hash: string };
      let version: string | undefined;
      while (version === undefined && !signal.aborted) {
        await sleep(20);
        version = /"version":"(\d+)"/.exec((await this.ask(`/transactions/by_hash/${hash}`)).text)?.[1];
      }
      if (!(await this.read(effect, BigInt(version ?? 0)))) counts.wrong += 1;
      counts.effects += 1;
      await sleep(Math.max(0, nextMs - performance.now()));
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

interface Run {
  readonly name: string;
  readonly writers: number;
  readonly latest: Readonly<Record<string, unknown>>;
  readonly checkout?: string;
}

/** A row of the table: figures a second. */
async function measure({ name, writers, latest, checkout }: Run, warmUp: number, seconds: number): Promise<string[]> {
  const clock = new ManualClock({ head: 1_000_000n, oldest: 0n });
  const node = await createSampleNode({ clock, mempool: new Mempool({ pendingForMs: Infinity }), keepRequests: 1 });
  const server = await startGateway({
    name,
    nodeUrl: node.url,
    cpu: serverCpu,
    config: { latest: { maxStaleness: '1s', ...latest }, upstream: { audit: 0 } },
    ...(checkout !== undefined && { checkout }),
  });
  const blocks = setInterval(() => {
    clock.advance(8n);
    node.mempool.commitAll(clock.head);
  }, blockMs);
  const over = new AbortController();
  const counts: Counts = { polls: 0, effects: 0, wrong: 0 };
  const clients = Array.from({ length: pollers + writers }, (_, index) => new Client(server.url, index));
  const lives = clients.map((client, index) =>
    index < pollers
      ? client.poll(counts, over.signal)
      : client.write(`0x${(index + 16).toString(16)}`, counts, over.signal),
  );
  const figures = () => [
    node.requestsTo('resource') / resources.length,
    node.requestsTo('ledgerInfo'),
    counts.polls,
    counts.effects,
  ];
  await sleep(warmUp * 1_000);
  const [before, startMs] = [figures(), performance.now()];
  await sleep(seconds * 1_000);
  const elapsed = (performance.now() - startMs) / 1_000;
  const rates = figures().map((figure, index) => (figure - (before[index] ?? 0)) / elapsed);
  over.abort();
  await Promise.all(lives);
  clearInterval(blocks);
  await Promise.all(clients.map((client) => client.close()));
  server.stop();
  await node.close();
  const [reads = NaN, looks = NaN, ...others] = rates;
  return [
    name,
    String(writers),
    reads.toFixed(2),
    looks.toFixed(1),
    ...others.map((one) => one.toFixed(0)),
    String(counts.wrong),
  ];
}

export const polls: Part = {
  name: 'polls',
  heading: 'Polls while clients write',
  async run(flags: Flags) {
    const { seconds, warmUp } = optionsOf(flags, { seconds: 30, warmUp: 3 });
    const { against } = flags.mix;
    const setups: readonly Omit<Run, 'writers'>[] = [
      ...(against === undefined ? [] : [{ name: 'before', latest: {}, checkout: against }]),
      { name: 'latest.floor: gateway', latest: { floor: 'gateway' } },
      { name: 'latest.floor: client', latest: { floor: 'client' } },
    ];
    const rows: string[][] = [];
    for (const writers of [1, 30])
      for (const setup of setups) rows.push(await measure({ ...setup, writers }, warmUp, seconds));
    return `${pollers} clients poll ${resources.length} resources once a second, at an address each, with \`latest.maxStaleness: 1s\` and a block each ${blockMs} ms, while writers submit, look up their transaction until it is committed, and read its effect, each on a connection of its own. ${seconds} s each. Reads of a polled resource at the node, looks, polls and effects are a second; wrong is every read that is older than one before it of its client, or than its write.

${table(['gateway', 'writers', 'reads of a resource', 'looks', 'polls', 'effects', 'wrong'], rows)}`;
  },
};
