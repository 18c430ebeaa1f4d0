/** A client of hits in a thread of its own: its times are not those of nodes and crowds in the test's thread. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { Agent, request as send, type Dispatcher } from 'undici';
import { until } from './eventually.ts';

export interface QuietClientOptions {
  /** Of the gateway. */
  readonly pid: number;
  /** Of the gateway, with the base path. */
  readonly url: string;
  /** PEM text; absent without TLS. */
  readonly ca?: string;
  /** How many hits it asks for. */
  readonly count: number;
  /** A path that the gateway has in memory, or reads into it first. */
  readonly hit: string;
}

export interface Asked {
  /** Of each hit, by the clock. */
  readonly hitsMs: readonly number[];
  /** The same by what the gateway's thread computed meanwhile: a busy machine adds nothing to it. */
  readonly hitsCpuMs: readonly number[];
  /** Statuses of hits. */
  readonly hits: ReadonlySet<number>;
  /** Answers to view bodies of 20 kB that are no JSON. */
  readonly posts: ReadonlySet<string>;
}

/** Asks for hits one after the other, and sends a body of 20 kB beside every twentieth. */
export async function askQuietly(options: QuietClientOptions): Promise<Asked> {
  const worker = new Worker(new URL(import.meta.url), { workerData: options });
  const [asked] = (await once(worker, 'message')) as [Asked];
  await worker.terminate();
  return asked;
}

/** What the process's first thread has computed so far, in ms. */
function cpuMsOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

async function ask({ pid, url, ca, count, hit }: QuietClientOptions): Promise<Asked> {
  const dispatcher = new Agent({ connections: 2, ...(ca === undefined ? {} : { connect: { ca } }) });
  const told = async (method: Dispatcher.HttpMethod, path: string, body: string | null = null) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await send(url + path, { dispatcher, method, headers, body });
    return { status: answer.statusCode, text: await answer.body.text() };
  };
  // A starved machine sheds what a node is needed for.
  await until(async () => (await told('GET', hit)).status === 200);
  // Loading and compiling, here and there, are no part of the times.
  for (let warm = 0; warm < 20; warm += 1) await told('GET', hit);
  const [hitsMs, hitsCpuMs, hits, posts] = [[] as number[], [] as number[], new Set<number>(), new Set<string>()];
  while (hitsMs.length < count) {
    const [startedMs, startedCpuMs] = [performance.now(), cpuMsOf(pid)];
    hits.add((await told('GET', hit)).status);
    hitsMs.push(performance.now() - startedMs);
    hitsCpuMs.push(cpuMsOf(pid) - startedCpuMs);
    if (hitsMs.length % 20 === 1) posts.add((await told('POST', '/view?ledger_version=5', ' '.repeat(20_000))).text);
  }
  return { hitsMs, hitsCpuMs, hits, posts };
}

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has no origin
if (!isMainThread) parentPort?.postMessage(await ask(workerData as QuietClientOptions));
