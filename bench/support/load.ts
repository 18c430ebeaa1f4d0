/** Closed-loop load by wrk on the other core, with the server's processor time taken around it. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ServerProcess } from './process-under-test.ts';

export interface Load {
  readonly connections: number;
  readonly seconds: number;
  readonly path: string;
  /** JSON to POST; without it, GET. */
  readonly body?: string;
  /** 20,000 accounts are asked for by turns, each in the place of `%A` in the path. */
  readonly byTurns?: boolean;
}

export interface Measured {
  readonly requestsPerSecond: number;
  readonly cpuMicrosPerRequest: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const postScript = fileURLToPath(new URL('post.lua', import.meta.url));
const turnsScript = fileURLToPath(new URL('turns.lua', import.meta.url));

export async function measure(server: ServerProcess, load: Load, cpu: number): Promise<Measured> {
  const before = server.cpuMicros();
  const url = new URL(load.path, server.url).href;
  const wrk = `wrk -t1 -c${load.connections} -d${load.seconds}s --latency`.split(' ');
  const script = load.byTurns === true ? turnsScript : load.body === undefined ? undefined : postScript;
  const scripted = script === undefined ? [] : ['-s', script];
  const argument = load.byTurns === true ? load.path : (load.body ?? '');
  const text = await run('taskset', ['-c', String(cpu), ...wrk, ...scripted, url, '--', argument]);
  const used = server.cpuMicros() - before;
  const requests = Number(/(\d+) requests in/.exec(text)?.[1] ?? 0);
  const errors = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1];
  if (requests === 0 || errors !== undefined) throw new Error(`${server.name}: ${errors ?? 'no'} bad answers\n${text}`);
  return {
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
    cpuMicrosPerRequest: used / requests,
    p50Ms: milliseconds(/50%\s+([\d.]+)(us|ms|s)/.exec(text)),
    p99Ms: milliseconds(/99%\s+([\d.]+)(us|ms|s)/.exec(text)),
  };
}

function milliseconds(match: RegExpExecArray | null): number {
  const factor = { us: 0.001, ms: 1, s: 1000 }[match?.[2] ?? 'ms'] ?? 1;
  return Number(match?.[1]) * factor;
}

function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args);
    let text = '';
    child.stdout.on('data', (chunk) => (text += String(chunk)));
    child.stderr.on('data', (chunk) => (text += String(chunk)));
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve(text) : reject(new Error(`${command}: ${text}`))));
  });
}
