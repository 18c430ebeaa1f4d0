/**
 * A quiet client in a process of its own: `node bench/support/quiet-probe.ts URL SECONDS PID`. Asks for hits and misses at a
 * fixed rate from an address of its own, and writes their milliseconds as JSON.
 */
import { readFileSync } from 'node:fs';
import { request as requestPlain, Agent as PlainAgent } from 'node:http';
import { request as requestTls, Agent as TlsAgent } from 'node:https';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { hitPath, pathOf } from './hostile-patterns.ts';

export interface ProbeResult {
  readonly hitsMs: readonly number[];
  readonly missesMs: readonly number[];
  /** What the gateway's first thread computed meanwhile. */
  readonly hitsCpuMs: readonly number[];
  readonly missesCpuMs: readonly number[];
  /** Answers other than 200, and failed requests. */
  readonly failed: number;
  /** The longest delay of its own timer. */
  readonly ownLagMs: number;
}

interface Times {
  readonly ms: number[];
  readonly cpuMs: number[];
}

const [, , address = '', seconds = '5', pid = ''] = process.argv;
const url = new URL(address);
const isTls = url.protocol === 'https:';
const options = { keepAlive: true, maxSockets: 64, localAddress: '127.0.0.2', scheduling: 'lifo' } as const;
const agent = isTls ? new TlsAgent({ ...options, rejectUnauthorized: false }) : new PlainAgent(options);
const everyMs = 10;
/** Of accounts that no pattern asks for. */
let account = 900_000_000 + (Date.now() % 90_000_000);
let failed = 0;

function cpuMs(): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

async function ask(path: string, into: Times): Promise<void> {
  const startedCpuMs = cpuMs();
  const startedMs = performance.now();
  const ok = await new Promise<boolean>((resolve) => {
    (isTls ? requestTls : requestPlain)(new URL(path, url), { agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode === 200));
    })
      .on('error', () => resolve(false))
      .end();
  });
  into.ms.push(performance.now() - startedMs);
  into.cpuMs.push(cpuMs() - startedCpuMs);
  if (!ok) failed += 1;
}

const none = (): Times => ({ ms: [], cpuMs: [] });
const newPath = (): string => pathOf((account += 1));
const [warm, hits, misses] = [none(), none(), none()] as const;
for (let at = 0; at < 200; at += 1) await Promise.all([ask(hitPath, warm), ask(newPath(), warm)]);
process.stdout.write('ready\n');
await new Promise((resolve) => process.stdin.once('data', resolve));
failed = 0;
const pending: Promise<void>[] = [];
let ownLagMs = 0;
const startedMs = performance.now();
for (let at = 0; at * everyMs < Number(seconds) * 1000; at += 1) {
  const dueMs = startedMs + at * everyMs - performance.now();
  if (dueMs > 0) await sleep(dueMs);
  ownLagMs = Math.max(ownLagMs, performance.now() - startedMs - at * everyMs);
  pending.push(ask(hitPath, hits));
  if (at % 2 === 0) pending.push(ask(newPath(), misses));
}
await Promise.all(pending);
const result: ProbeResult = {
  hitsMs: hits.ms,
  missesMs: misses.ms,
  hitsCpuMs: hits.cpuMs,
  missesCpuMs: misses.cpuMs,
  failed,
  ownLagMs,
};
process.stdout.write(`${JSON.stringify(result)}\n`);
process.exit(0);
