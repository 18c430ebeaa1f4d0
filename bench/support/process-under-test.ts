/** Server processes: started on one core, measured by the kernel's own account of their threads, stopped. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

export interface ServerProcess {
  readonly name: string;
  /** What the process printed as its address. */
  readonly url: string;
  /** Processor time of all its threads so far, in microseconds. */
  cpuMicros(): number;
  residentBytes(): number;
  stop(): void;
}

/** A gateway prints its nodes' addresses too; its own stands behind this word. Other servers print theirs alone. */
const ownAddress = /(?:^|Clients: +)(http:\/\/127\.0\.0\.1:\d+\S*)/;

/** Starts `node ARGS` on core `cpu`; resolves with the address that the process prints as its own. */
export function startServer(name: string, args: readonly string[], cpu: number): Promise<ServerProcess> {
  return new Promise((resolve, reject) => {
    const child = spawn('taskset', ['-c', String(cpu), process.execPath, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    const onData = (chunk: Buffer): void => {
      printed += chunk.toString();
      const url = ownAddress.exec(printed)?.[1];
      if (url !== undefined) resolve(account(name, url, child));
    };
    child.stdout.on('data', onData);
    child.stderr.on('data', onData);
    child.on('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened:\n${printed}`)));
    process.once('exit', () => child.kill('SIGKILL'));
  });
}

function account(name: string, url: string, child: ChildProcess): ServerProcess {
  const { pid } = child;
  if (pid === undefined) throw new Error(`${name} has no process`);
  return {
    name,
    url,
    cpuMicros: () => readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + threadNanos(pid, thread), 0) / 1000,
    residentBytes: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024,
    stop: () => child.kill('SIGKILL'),
  };
}

function threadNanos(pid: number, thread: string): number {
  return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
}

/** Whether a program is on the PATH. */
export function hasProgram(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
}
