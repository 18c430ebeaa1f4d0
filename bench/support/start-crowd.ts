/** Scripts as processes on the core of the load, a crowd of connections among them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { loadCpu } from './contest.ts';

export function scriptOf(name: string): string {
  return fileURLToPath(new URL(`${name}.ts`, import.meta.url));
}

interface ScriptSettings {
  /** 39 yields to everything else on the core, whatever this process has. */
  readonly niceness?: number;
  readonly env?: NodeJS.ProcessEnv;
}

/** Starts a script of this folder. A benchmark that fails leaves it not behind. */
export function startScript(name: string, args: readonly (string | number)[], settings: ScriptSettings = {}) {
  const { niceness = 0, env = process.env } = settings;
  const command = ['nice', '-n', String(niceness), process.execPath, scriptOf(name), ...args.map(String)];
  const child = spawn('taskset', ['-c', String(loadCpu), ...command], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  const ended = once(child, 'close').then(() => process.off('exit', kill));
  let last = '';
  const lines = createInterface(child.stdout).on('line', (line) => (last = line));
  return { child, lines, last: () => last, ended, stop: () => (kill(), ended) };
}

export interface CrowdSettings {
  /** One of the kinds of crowd.ts. */
  readonly kind: string;
  readonly count: number;
  /** Of the request; https makes connections with TLS. */
  readonly url: string;
  /** PEM file of the root that the connections trust. */
  readonly caFile?: string;
}

/** A busy core takes a minute for the handshakes of ten thousand. */
const startMs = 180_000;

/** Resolves when all connections are there; rejects when they are not within the time. */
export async function startCrowd({ kind, count, url, caFile }: CrowdSettings) {
  const env = { ...process.env, ...(caFile === undefined ? {} : { NODE_EXTRA_CA_CERTS: caFile }) };
  const crowd = startScript('crowd', [kind, count, url], { env });
  try {
    await once(crowd.lines, 'line', { signal: AbortSignal.timeout(startMs) });
  } catch (error) {
    void crowd.stop();
    throw error;
  }
  return crowd;
}

/** Each process holds one end of every connection. Throws when the limit of files is lower. */
export function requireFiles(count: number): void {
  const hard = Number(/^Max open files +\S+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity);
  if (hard >= count + 200) return;
  throw new Error(
    `${count} connections need "ulimit -Hn" of ${count + 200} or more, and it is ${hard}: raise it, or say fewer`,
  );
}
