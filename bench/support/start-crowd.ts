/** Starts the process of a crowd of connections, and waits until all of them are there. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface CrowdSettings {
  /** One of the kinds of crowd.ts. */
  readonly kind: string;
  readonly count: number;
  /** Of the request; https makes connections with TLS. */
  readonly url: string;
  readonly cpu: number;
  /** PEM file of the root that the connections trust. */
  readonly caFile?: string;
}

export interface Crowd {
  /** Resolves after all its connections have ended with the process. */
  stop(): Promise<void>;
}

const script = fileURLToPath(new URL('crowd.ts', import.meta.url));
/** A busy core takes a minute for the handshakes of ten thousand. */
const startMs = 180_000;

/** Resolves when all connections are there; rejects when they are not within the time. */
export async function startCrowd({ kind, count, url, cpu, caFile }: CrowdSettings): Promise<Crowd> {
  const env = { ...process.env, ...(caFile === undefined ? {} : { NODE_EXTRA_CA_CERTS: caFile }) };
  const args = ['-c', String(cpu), process.execPath, script, kind, String(count), url];
  const child = spawn('taskset', args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const kill = (): void => void child.kill('SIGKILL');
  // A benchmark that fails leaves no crowd behind.
  process.once('exit', kill);
  const ended = once(child, 'exit').then(() => process.off('exit', kill));
  try {
    await once(child.stdout, 'data', { signal: AbortSignal.timeout(startMs) });
  } catch (error) {
    kill();
    throw error;
  }
  return {
    async stop() {
      kill();
      await ended;
    },
  };
}

/** Each process holds one end of every connection. Throws when the limit of files is lower. */
export function requireFiles(count: number): void {
  const hard = Number(/^Max open files +\S+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity);
  if (hard >= count + 200) return;
  throw new Error(
    `${count} connections need "ulimit -Hn" of ${count + 200} or more, and it is ${hard}: raise it, or say fewer`,
  );
}
