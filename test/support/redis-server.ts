/** A real redis-server for a test, on a free port, and what can be done to it. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { Redis } from 'ioredis';
import type { RedisConfig } from '../../src/config/config.ts';
import { freePort } from './free-port.ts';
import { type Ending, temporaryFolder } from './temporary-folder.ts';
import type { Certified } from './tls.ts';

const isInstalled = spawnSync('redis-server', ['--version']).status === 0;
if (!isInstalled && process.env['CI'] !== undefined) throw new Error('redis-server is required in CI');

/** For `test(name, { skip: noRedis }, ...)`. */
export const noRedis: string | false = isInstalled ? false : 'redis-server is not installed';

/** The part of a config about one server at `url`; replicas of a fleet share it. */
export function redisAt(url: string, times: Partial<Pick<RedisConfig, 'timeoutMs' | 'ttlMs'>> = {}): RedisConfig {
  return { target: { kind: 'single', url }, keyPrefix: 'lg', timeoutMs: 500, ttlMs: 60_000, ...times };
}

/** Files of a server, and of the authority of clients, which must show certificates. */
export interface RedisTls {
  readonly served: Pick<Certified, 'cert' | 'key'>;
  readonly clientCa: string;
}

/** Directives of a server with TLS on a port of its own. */
export function tlsLines({ served, clientCa }: RedisTls, port: number): readonly string[] {
  return [
    `tls-port ${port}`,
    `tls-cert-file ${served.cert}`,
    `tls-key-file ${served.key}`,
    `tls-ca-cert-file ${clientCa}`,
    'tls-auth-clients yes',
  ];
}

export class RedisServer {
  readonly port: number;
  /** For TLS, beside `port`; absent without it. */
  readonly tlsPort: number | undefined;
  readonly #arguments: readonly string[];
  #process: ChildProcess | undefined;

  constructor(port: number, args: readonly string[], tlsPort?: number) {
    this.port = port;
    this.tlsPort = tlsPort;
    this.#arguments = args;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it, again after `kill` as well; resolves when it takes connections. */
  async start(): Promise<void> {
    const [first = ''] = this.#arguments;
    // A config file stands first, and then it also tells the port.
    const port = first.startsWith('--') ? ['--port', String(this.port)] : [];
    const child = spawn('redis-server', [...port, ...this.#arguments], { stdio: 'pipe' });
    this.#process = child;
    let output = '';
    await new Promise<void>((resolve, reject) => {
      child.stdout.on('data', (chunk) => {
        output += String(chunk);
        if (/ready to accept|sentinel mode|Running mode=sentinel/i.test(output)) resolve();
      });
      child.once('exit', () => reject(new Error(`redis-server ended:\n${output}`)));
    });
  }

  /** Ends it at once; connections break. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** Hangs it: connections stay, answers do not come. */
  pause(): void {
    this.#process?.kill('SIGSTOP');
  }

  resume(): void {
    this.#process?.kill('SIGCONT');
  }

  /** Runs commands over a connection of its own. */
  async run<T>(command: (client: Redis) => Promise<T>, options: { readonly password?: string } = {}): Promise<T> {
    const client = new Redis({ port: this.port, ...options });
    try {
      return await command(client);
    } finally {
      client.disconnect();
    }
  }
}

/** Starts a server that is ended after the test. `args`: more of its command line, such as `--requirepass`. */
export async function redisServer(t: Ending, args: readonly string[] = [], tls?: RedisTls): Promise<RedisServer> {
  const base = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', temporaryFolder(t)];
  const tlsPort = tls && (await freePort());
  const secure =
    tls === undefined || tlsPort === undefined ? [] : tlsLines(tls, tlsPort).flatMap((line) => `--${line}`.split(' '));
  const server = new RedisServer(await freePort(), [...base, ...args, ...secure], tlsPort);
  t.after(async () => {
    server.resume();
    await server.kill();
  });
  await server.start();
  return server;
}

/** A test with a server of its own, where one is installed. */
export function redisTest(name: string, run: (t: TestContext, server: RedisServer) => Promise<void>): void {
  test(name, { skip: noRedis }, async (t) => run(t, await redisServer(t)));
}
