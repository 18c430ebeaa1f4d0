/**
 * From the start of the process to the first 200 on a pinned read, of the built package in front of a node that answers;
 * beside the least that Node can do, in interleaved rounds of one run.
 *
 *     npm run bench:start-up -- [--starts N]
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { loadCpu, serverCpu } from './support/contest.ts';
import { benchOptions } from './support/options.ts';
import { startNode } from './support/process-under-test.ts';

/** What is started: `node ARGS`, to listen on `port`. */
interface Contestant {
  readonly name: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly args: (port: number) => readonly string[];
}

const { starts } = benchOptions({ starts: 15 });
const root = fileURLToPath(new URL('..', import.meta.url));
const path = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000';
const giveUpMs = 10_000;
/** Between two tries: what a start is measured too long by, at most. */
const stepMs = 2;

const bare = `require('node:http').createServer((_, response) => response.end('x'.repeat(400))).listen(+process.argv[1])`;

const folder = builtPackage();
const node = await startNode(loadCpu);
try {
  const serve = ['serve', '--upstream', node.url, '--host', '127.0.0.1', '--operations-port', '0'];
  const gateway = (port: number): readonly string[] => [
    join(folder, 'bin/ledgergate.js'),
    ...serve,
    '--port',
    `${port}`,
  ];
  const contestants: readonly Contestant[] = [
    { name: 'bare node:http', args: (port) => ['--eval', bare, `${port}`] },
    { name: 'ledgergate', args: gateway },
    { name: 'ledgergate, compiled anew', args: gateway, env: { NODE_DISABLE_COMPILE_CACHE: '1' } },
  ];
  // Compiles, and ends politely: what was compiled is written then.
  for (const contestant of contestants) await timeStart(contestant, 'SIGTERM');
  const times = new Map(contestants.map(({ name }): [string, number[]] => [name, []]));
  for (let round = 0; round < starts; round += 1) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed()) {
      times.get(contestant.name)?.push(await timeStart(contestant, 'SIGKILL'));
    }
  }
  process.stdout.write(
    `\n${starts} starts: median (least-most), ms to the first answer\n\n| server | ms |\n|---|--:|\n`,
  );
  for (const [name, all] of times) process.stdout.write(`| ${name} | ${spread(all)} |\n`);
} finally {
  node.stop();
  rmSync(folder, { recursive: true });
}

/** The package as it is installed: without sources, which would be run instead. */
function builtPackage(): string {
  const made = mkdtempSync(join(tmpdir(), 'ledgergate-bench-'));
  const build = ['--project', 'tsconfig.build.json', '--outDir', join(made, 'dist')];
  execFileSync(join(root, 'node_modules/.bin/tsc'), build, { cwd: root, stdio: 'inherit' });
  for (const name of ['bin', 'config', 'package.json']) cpSync(join(root, name), join(made, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(made, 'node_modules'));
  return made;
}

async function timeStart({ name, args, env = {} }: Contestant, end: NodeJS.Signals): Promise<number> {
  const port = await freePort();
  const command = ['-c', String(serverCpu), process.execPath, ...args(port)];
  const startedMs = performance.now();
  const child = spawn('taskset', command, { stdio: 'ignore', env: { ...process.env, ...env } });
  const ended = once(child, 'exit');
  try {
    while (!(await answers(port))) {
      if (performance.now() - startedMs > giveUpMs) throw new Error(`${name} gave no answer`);
      await sleep(stepMs);
    }
    return performance.now() - startedMs;
  } finally {
    child.kill(end);
    await ended;
  }
}

/** Whether the read is answered 200 now. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.on('connect', () => socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`));
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text.startsWith('HTTP/1.1 200')));
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function spread(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b).map((value) => value.toFixed(0));
  return `${sorted[Math.floor(sorted.length / 2)]} (${sorted[0]}-${sorted.at(-1)})`;
}
