/** Closed-loop load by wrk on the other core, with the server's processor time taken around it. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { ServerProcess } from './process-under-test.ts';

/** Numbers that replace a mark in a path, in the form of load.lua. */
export type Order =
  | { readonly kind: 'turns' | 'random'; readonly of: number }
  /** Never the same twice in a run. */
  | { readonly kind: 'new' };

export interface Load {
  readonly connections: number;
  readonly seconds: number;
  /** With `%A` in the place of an account, or `%V` in that of nine digits of a version. */
  readonly path: string;
  readonly order?: Order;
  /** JSON to POST; without it, GET. */
  readonly body?: string;
}

export interface Measured {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly cpuMicrosPerRequest: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Reads that came to nodes meanwhile, where they are counted. */
  readonly upstreamReads?: number;
}

const script = fileURLToPath(new URL('load.lua', import.meta.url));
/** More than any server here answers in a second. */
const mostPerSecond = 100_000;
/** Of nine digits. */
const mostVersions = 1e9;
let nextNew = 0;

/** The account of that number, as wrk asks for it. */
export function accountAt(index: number): string {
  return `0x5a${index.toString(16).padStart(62, '0')}`;
}

/** The paths of a load whose numbers end. */
export function pathsOf({ path, order }: Pick<Load, 'path' | 'order'>): readonly string[] {
  if (order === undefined) return [path];
  if (order.kind === 'new') throw new Error(`no end of ${path}`);
  return Array.from({ length: order.of }, (_, index) => path.replace('%A', accountAt(index)));
}

/** Throws when an answer was none, or an error. */
export async function measure(server: ServerProcess, load: Load, cpu: number): Promise<Measured> {
  const { connections, seconds, path, order = { kind: 'turns', of: 1 }, body } = load;
  const [kind, from, count] = numbersOf(order, seconds);
  const args = [kind, String(from), String(count), path, ...(body === undefined ? [] : [body])];
  return measureScript(server, { connections, seconds, script, args }, cpu);
}

/** A run of wrk with a script that writes a line `RESULT {json}` as load.lua does. */
export interface ScriptRun extends Pick<Load, 'connections' | 'seconds'> {
  /** File of the script. */
  readonly script: string;
  /** Arguments of the script. */
  readonly args: readonly string[];
}

/** Throws when an answer was none, or an error. */
export async function measureScript(
  server: ServerProcess,
  { connections, seconds, script, args }: ScriptRun,
  cpu: number,
): Promise<Measured> {
  const wrk = ['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', '-s', script];
  const before = server.cpuMicros();
  const text = await runProgram('taskset', ['-c', String(cpu), ...wrk, new URL(server.url).origin, '--', ...args]);
  const used = server.cpuMicros() - before;
  const told = JSON.parse(/RESULT (.*)/.exec(text)?.[1] ?? 'null') as Told | null;
  if (told === null || told.requests === 0 || told.bad > 0)
    throw new Error(`${server.name}: ${args.join(' ').slice(0, 200)}\n${text}`);
  return {
    requests: told.requests,
    requestsPerSecond: told.requests / (told.micros / 1e6),
    cpuMicrosPerRequest: used / told.requests,
    p50Ms: told.p50 / 1000,
    p99Ms: told.p99 / 1000,
  };
}

/** Input of the script about the order. */
function numbersOf(order: Order, seconds: number): readonly [kind: string, from: number, count: number] {
  // A run that begins where the last one began reads entries that a small memory still has.
  if (order.kind !== 'new') return [order.kind, Math.floor(Math.random() * order.of), order.of];
  const from = nextNew;
  nextNew += mostPerSecond * seconds;
  if (nextNew > mostVersions) throw new Error('no versions are left that were not asked for');
  return ['turns', from, mostVersions];
}

/** The line that the script writes. */
interface Told {
  readonly requests: number;
  readonly micros: number;
  readonly p50: number;
  readonly p99: number;
  readonly bad: number;
}

/** The program's output; rejects when it fails. */
export function runProgram(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    child.stdout.on('data', (chunk) => (text += String(chunk)));
    child.stderr.on('data', (chunk) => (text += String(chunk)));
    child.on('error', reject);
    child.on('close', (code) => (code === 0 ? resolve(text) : reject(new Error(`${command}: ${text}`))));
  });
}
