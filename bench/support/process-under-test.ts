/** Server processes: started on one core, measured by the kernel's own account of their threads, stopped. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface ServerProcess {
  readonly name: string;
  /** What the process printed as its address. */
  readonly url: string;
  /** Processor time of all its threads so far, and of its workers', in microseconds. */
  cpuMicros(): number;
  /** Resident memory of the process itself. */
  residentBytes(): number;
  stop(): void;
}

/** A gateway prints its nodes' addresses too; its own stands behind this word. Other servers print theirs alone. */
const ownAddress = /(?:^|Clients: +)(http:\/\/127\.0\.0\.1:\d+\S*)/;

const children = new Set<ChildProcess>();
let folder: string | undefined;

process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** Starts `node ARGS` on core `cpu`, or on a list of them; resolves with the address that the process prints as its own. */
export function startServer(name: string, args: readonly string[], cpu: number | string): Promise<ServerProcess> {
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
    children.add(child);
  });
}

export interface BenchedGateway {
  readonly name: string;
  readonly nodeUrl: string;
  /** A core, or several: `0,1`. */
  readonly cpu: number | string;
  /** Further sections of its config file. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** The real binary on a config file of its own, in front of one node. */
export function startGateway({ name, nodeUrl, cpu, config = {} }: BenchedGateway): Promise<ServerProcess> {
  folder ??= mkdtempSync(join(tmpdir(), 'ledgergate-bench-'));
  const file = join(folder, `${children.size}.yaml`);
  const all = {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { host: '127.0.0.1', port: 0 },
    upstreams: [{ name: 'node', url: nodeUrl }],
    ...config,
  };
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(all));
  return startServer(name, ['bin/ledgergate.js', 'serve', '--config', file], cpu);
}

/** A moving sample node, as the upstream of gateways. */
export function startNode(cpu: number): Promise<ServerProcess> {
  return startServer('sample node', ['bench/support/node-server.ts'], cpu);
}

function account(name: string, url: string, child: ChildProcess): ServerProcess {
  const { pid } = child;
  if (pid === undefined) throw new Error(`${name} has no process`);
  return {
    name,
    url,
    cpuMicros: () => nanosOf(pid) / 1000,
    residentBytes: () => 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]),
    stop: () => void child.kill('SIGKILL'),
  };
}

/** Of the process and the processes it has started. */
function nanosOf(pid: number): number {
  let nanos = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    nanos += threadNanos(pid, thread);
    const started = readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean);
    for (const child of started) nanos += nanosOf(Number(child));
  }
  return nanos;
}

function threadNanos(pid: number, thread: string): number {
  return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
}

/** Throws with what to install when a program that every benchmark needs is missing. */
export function requirePrograms(): void {
  if (!hasProgram('wrk') || !hasProgram('taskset')) {
    throw new Error('wrk and taskset are needed: apt-get install wrk util-linux');
  }
}

function hasProgram(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
}
