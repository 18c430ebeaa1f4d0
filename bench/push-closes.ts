/**
 * Event streams that end in every way: memory of the gateway before and after, collected, and the reasons it counts.
 *
 *     node bench/push-closes.ts [OPENS [SLOW [KEYS]]]      by default 100000, 200 and 1000
 *
 * Gateway on core 0, the sample node on core 1, clients wherever there is room.
 */
import { once } from 'node:events';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { createKey } from '../src/access/keys/principals.ts';
import { freePort } from '../test/support/free-port.ts';
import { loadCpu, serverCpu } from './support/contest.ts';
import { gatewayCommand } from './support/gateway.ts';
import { startServer } from './support/process-under-test.ts';
import { newFolder } from './support/run-folder.ts';
import { startSampleNode } from './support/sample-node.ts';

const [opens = 100_000, slowReaders = 200, keyCount = 1_000] = process.argv.slice(2).map(Number);
const atOnce = 50;

const [small, large] = [400, 200_000].map(
  (bytes) => `/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded${bytes}`,
) as [string, string];
const paths = [small, '/v1/transactions', '/v1'];
const leaves: readonly ((socket: Socket) => unknown)[] = [
  (socket) => socket.end(),
  (socket) => socket.resetAndDestroy(),
  (socket) => socket.destroy(),
];

const folder = newFolder('closes');
const keysFile = join(folder, 'keys.yaml');
const keys = Array.from({ length: keyCount }, (_, index) => ({ name: `key-${index}`, ...createKey() }));
const writeKeys = (held: readonly (typeof keys)[number][]): void => {
  const entries = held.map(({ name, sha256 }) => ({ name, plan: 'free', sha256 }));
  writeFileSync(`${keysFile}.new`, JSON.stringify({ keys: entries }));
  renameSync(`${keysFile}.new`, keysFile);
};
writeKeys(keys);
// Collects on demand: what is not collected yet is not held.
const collector = join(folder, 'collect.mjs');
writeFileSync(collector, "process.on('SIGUSR2', () => { gc(); gc(); });");

const node = await startSampleNode(loadCpu);
const operations = await freePort();
const config = {
  operations: { host: '127.0.0.1', port: operations },
  streams: { interval: '100ms' },
  access: {
    keys: { file: keysFile },
    anonymous: 'free',
    plans: { free: { window: '60s', streams: 1_000_000 } },
  },
};
const command = gatewayCommand({ name: 'gateway', nodeUrl: node.url, cpu: serverCpu, config });
const gateway = await startServer('gateway', ['--expose-gc', '--import', collector, ...command], serverCpu);
const port = Number(new URL(gateway.url).port);

async function metrics(): Promise<(sample: string) => number> {
  const { body } = await request(`http://127.0.0.1:${operations}/metrics`);
  const lines = (await body.text()).split('\n');
  return (sample) =>
    lines.filter((line) => line.startsWith(sample)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

async function until(holds: (read: (sample: string) => number) => boolean): Promise<void> {
  while (!holds(await metrics())) await sleep(50);
}

/** Megabytes: held by objects, outside of the heap, and resident. */
async function memory(): Promise<readonly [heap: number, external: number, resident: number]> {
  await sleep(1_500);
  process.kill(gateway.pid, 'SIGUSR2');
  await sleep(500);
  const read = await metrics();
  const of = (name: string): number => read(`nodejs_${name}_memory_bytes`) / 1e6;
  return [read('nodejs_heap_size_used_bytes') / 1e6, of('external'), (gateway.residentMiB() * 2 ** 20) / 1e6];
}

let opened = 0;

/** A stream whose head has come; where the gateway sheds it, that is repeated. Addresses in turn: each has ports for some 28,000 connections in a minute. */
async function open(path: string, key?: string): Promise<Socket> {
  opened += 1;
  const socket = connect({ port, host: '127.0.0.1', localAddress: `127.0.0.${2 + (opened % 16)}` });
  socket.on('error', () => undefined);
  const authorization = key === undefined ? '' : `Authorization: Bearer ${key}\r\n`;
  socket.write(`GET ${path} HTTP/1.1\r\nHost: here\r\nAccept: text/event-stream\r\n${authorization}\r\n`);
  const [head] = ((await once(socket, 'data')) as [Buffer]).map(String);
  if (head?.startsWith('HTTP/1.1 200') === true) return socket;
  if (head?.includes('overloaded') !== true) throw new Error(head);
  socket.destroy();
  await sleep(100);
  return open(path, key);
}

async function openAndLeave(count: number): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < count) {
      const index = (next += 1);
      const socket = await open(paths[index % paths.length] as string);
      (leaves[Math.floor(index / paths.length) % leaves.length] as (socket: Socket) => unknown)(socket);
      socket.resume();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  await until((read) => read('ledgergate_streams{') === 0);
}

/** Those that are cut off are all that open: each answer has more than the kernel and the bound hold. */
async function readNothing(count: number): Promise<void> {
  const slow = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = await open(large);
      return socket.pause();
    }),
  );
  await until((read) => read('ledgergate_streams{') === 0);
  for (const socket of slow) socket.destroy();
}

async function revoke(): Promise<void> {
  const sockets = await Promise.all(keys.map(({ key }) => open(small, key)));
  for (const socket of sockets) socket.resume();
  writeKeys([]);
  await until((read) => read('ledgergate_streams{') === 0);
  for (const socket of sockets) socket.destroy();
}

const reasons = ['client', 'slow', 'revoked', 'drain', 'failed'] as const;
const closedBy = async (): Promise<readonly number[]> => {
  const read = await metrics();
  return reasons.map((reason) =>
    ['changes', 'transactions', 'ledger_info'].reduce(
      (sum, kind) => sum + read(`ledgergate_streams_closed_total{kind="${kind}",reason="${reason}"}`),
      0,
    ),
  );
};

// The code is compiled, the cache filled.
await openAndLeave(Math.min(3_000, opens));
const heads = ['streams', 'seconds', 'ended as', 'heap MB before / after', 'external MB', 'RSS MB'];
process.stdout.write(`| ${heads.join(' | ')} |\n|---|--:|---|--:|--:|--:|\n`);
const phases: readonly (readonly [title: string, run: () => Promise<void>])[] = [
  [`${opens} of three kinds, left by FIN, reset and close in turn`, () => openAndLeave(opens)],
  [`${slowReaders} that read nothing, 200 kB an event`, () => readNothing(slowReaders)],
  [`${keyCount} whose keys are revoked`, revoke],
];
for (const [title, run] of phases) {
  const [before, ended, beganMs] = [await memory(), await closedBy(), performance.now()];
  await run();
  const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
  const [after, endedNow] = [await memory(), await closedBy()];
  const counts = reasons
    .map((reason, at) => [(endedNow[at] ?? 0) - (ended[at] ?? 0), reason] as const)
    .filter(([count]) => count > 0);
  const sizes = before.map((value, at) => `${value.toFixed(1)} / ${(after[at] ?? 0).toFixed(1)}`);
  process.stdout.write(
    `| ${[title, seconds, counts.map((pair) => pair.join(' ')).join(', '), ...sizes].join(' | ')} |\n`,
  );
}
const most = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) / 1_000;
process.stdout.write(`\nRSS at most: ${most.toFixed(0)} MB\n`);
process.exit(0);
