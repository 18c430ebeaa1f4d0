/** Server processes: started on one core, measured by the kernel's own account of their threads, stopped. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../test/support/free-port.ts';
import { newFolder } from './run-folder.ts';

export interface ServerProcess {
  readonly name: string;
  readonly pid: number;
  /** Its address. */
  readonly url: string;
  /** Processor time so far of all its threads and of the processes it has started, in microseconds. */
  cpuMicros(): number;
  /** Resident memory in MiB; shared pages count for each process. */
  residentMiB(): number;
  stop(): void;
}

/** A gateway prints its nodes' addresses too; its own stands behind this word. Other servers print theirs alone. */
const ownAddress = /(?:^|Clients: +)(https?:\/\/127\.0\.0\.1:\d+\S*)/;
/** Debian has servers where not everybody looks; and what is to be measured is not to be watched. */
const environment = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin`, NODE_V8_COVERAGE: undefined };
const startMs = 30_000;

const children = new Set<ChildProcess>();

process.once('exit', () => {
  for (const child of children) kill(child);
});
// They are not ended by the terminal, because each leads a group of its own.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

/** Starts `node ARGS` on core `cpu`, or on a list of them; resolves with the address that the process prints as its own. */
export function startServer(
  name: string,
  args: readonly string[],
  cpu: number | string,
  node = process.execPath,
): Promise<ServerProcess> {
  const { child, printed } = launch(node, args, cpu);
  return new Promise((resolve, reject) => {
    const onData = (): void => {
      const url = ownAddress.exec(printed())?.[1];
      if (url !== undefined) resolve(account(name, url, child));
    };
    child.stdout?.on('data', onData);
    child.stderr?.on('data', onData);
    child.on('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened:\n${printed()}`)));
    child.on('error', reject);
  });
}

export interface Program {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cpu: number | string;
  /** The address in its config. */
  readonly port: number;
  /** Default: http. */
  readonly scheme?: 'http' | 'https';
}

/** A program that does not report readiness: resolves when its port takes connections. */
export async function startProgram(program: Program): Promise<ServerProcess> {
  const { name, command, args, cpu, port, scheme = 'http' } = program;
  const { child, printed } = launch(command, args, cpu);
  for (const endMs = performance.now() + startMs; !(await listens(port)); await sleep(2)) {
    if (child.exitCode === null && performance.now() < endMs) continue;
    kill(child);
    throw new Error(`${name} does not listen:\n${printed()}`);
  }
  return account(name, `${scheme}://127.0.0.1:${port}`, child);
}

/** An empty Redis that writes nothing to the disk. */
export async function startRedis(cpu: number): Promise<ServerProcess> {
  const port = await freePort();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', newFolder('redis')];
  return startProgram({ name: 'redis-server', command: 'redis-server', args, cpu, port });
}

function launch(command: string, args: readonly string[], cpu: number | string) {
  const child = spawn('taskset', ['-c', String(cpu), command, ...args], {
    // A group of its own, so that what it has started ends with it.
    detached: true,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  let text = '';
  const onData = (chunk: Buffer): void => void (text = (text + chunk.toString()).slice(-20_000));
  child.stdout.on('data', onData);
  child.stderr.on('data', onData);
  return { child, printed: () => text };
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const tell = (is: boolean) => () => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', tell(true)).once('error', tell(false));
  });
}

function kill(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}

function account(name: string, url: string, child: ChildProcess): ServerProcess {
  const { pid } = child;
  if (pid === undefined) throw new Error(`${name} has no process`);
  const sumOf = (of: (pid: number) => number): number => treeOf(pid).reduce((sum, one) => sum + of(one), 0);
  return {
    name,
    pid,
    url,
    cpuMicros: () => sumOf(nanosOf) / 1000,
    residentMiB: () => sumOf(residentKiBOf) / 1024,
    stop: () => kill(child),
  };
}

/** The process and the processes it has started. */
function treeOf(pid: number): number[] {
  const started = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  return [pid, ...started.flatMap(treeOf)];
}

function nanosOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  return threads.reduce(
    (sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
    0,
  );
}

function residentKiBOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
}

/** Throws with what to install when a program is missing without which there is nothing to measure. */
export function requirePrograms(...names: readonly (keyof typeof packages)[]): void {
  const missing = (['taskset', 'wrk', ...names] as const).filter((name) => !hasProgram(name));
  if (missing.length === 0) return;
  const install = missing.map((name) => packages[name]).join(' ');
  throw new Error(`${missing.join(', ')} ${missing.length > 1 ? 'are' : 'is'} needed: apt-get install ${install}`);
}

/** Their places on Debian. */
export const packages = {
  taskset: 'util-linux',
  wrk: 'wrk',
  h2load: 'nghttp2-client',
  openssl: 'openssl',
  nginx: 'nginx-light',
  varnishd: 'varnish',
  haproxy: 'haproxy',
  'redis-server': 'redis-server',
} as const;

export function hasProgram(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`], { env: environment }).status === 0;
}
