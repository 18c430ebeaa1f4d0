// LEDGERGATE_KILL_ROUNDS sets the number of kills; the documented figure needs 30.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { test } from 'node:test';
import { binary, start } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { Crowd, type Failed } from '../../support/crowd.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { childrenOf, gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { watchStalls } from '../../support/stalls.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';

const rounds = Number(process.env['LEDGERGATE_KILL_ROUNDS'] ?? 2);
const clients = 8;
const from = 1_000_000;

interface Killed {
  readonly atMs: number;
  /** The kernel had closed every socket of the process. */
  readonly goneMs: number;
  /** Both workers served again. */
  readonly backMs: number;
  /** The start of an empty process, under the same load. */
  readonly emptyStartMs: number;
}

test(`${rounds} workers killed under load: only their requests in flight fail, and replacements serve soon`, async (t) => {
  const node = await fakeNode(t, { head: 10_000_000n, keepRequests: 1 });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, log: { level: 'silent' } } });
  const { url } = gateway;
  const kept = new Crowd(t, { url, clients, from });
  const short = new Crowd(t, { url, clients: 3, from: 2 * from, shortLived: true });

  const stalls = watchStalls(t);
  const kills: Killed[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await Promise.all([kept.answer(100), short.answer(50)]);
    kills.push(await killOne(gateway, round));
  }
  await Promise.all([kept.answer(100), short.answer(50)]);
  await Promise.all([kept.end(), short.end()]);

  // A process that loads the gateway takes some 30 times as long as an empty one to start; the load of the machine makes
  // both longer.
  const boundMs = 60 * Math.max(100, ...kills.map(({ emptyStartMs }) => emptyStartMs));
  const backMs = kills.map((kill) => Math.round(kill.backMs - kill.atMs));
  const counts = `${kept.failed.length} of ${kept.answered} and ${short.failed.length} of ${short.answered} failed`;
  t.diagnostic(`${counts}; back after ${backMs.join(', ')} of at most ${Math.round(boundMs)} ms`);
  const failed = [...kept.failed, ...short.failed];
  assert.deepEqual(
    failed.filter((request) => !kills.some((kill) => wasInFlight(request, kill))),
    [],
  );
  for (const kill of kills) {
    const own = kept.failed.filter((request) => wasInFlight(request, kill));
    // One request at a time on each connection; connections alternate between the workers.
    assert.equal(new Set(own.map(({ client }) => client)).size, own.length, 'a client lost more than one request');
  }
  const lastMs = Math.max(0, ...failed.map((request) => Math.min(...kills.map((kill) => after(request, kill)))));
  stalls.judge(lastMs < 1_000, `a client heard of it after ${lastMs} ms`);

  stalls.judge(Math.max(...backMs) < boundMs, `${backMs.join(', ')} ms`);

  await t.test('workers do not outlive their primary', async () => {
    const workers = gateway.workers();
    await gateway.kill();
    assert.equal(workers.length, 2);
    await until(() => !workers.some(isAlive));
  });
});

async function killOne(gateway: GatewayProcess, round: number): Promise<Killed> {
  const workers = gateway.workers();
  const victim = workers[round % workers.length] ?? noWorker();
  const restarts = (await metric(gateway, 'ledgergate_worker_restarts_total')) ?? 0;
  const atMs = performance.now();
  process.kill(victim, 'SIGKILL');
  await until(() => !existsSync(`/proc/${victim}`));
  const goneMs = performance.now();
  await until(async () => {
    const isCounted = ((await metric(gateway, 'ledgergate_worker_restarts_total')) ?? 0) > restarts;
    return isCounted && (await metric(gateway, 'ledgergate_workers')) === 2;
  });
  return { atMs, goneMs, backMs: performance.now(), emptyStartMs: await emptyStart() };
}

async function emptyStart(): Promise<number> {
  const startMs = performance.now();
  await once(spawn(process.execPath, ['-e', '0']), 'exit');
  return performance.now() - startMs;
}

/** Started before the exit of the process, and failed by the kill. */
function wasInFlight({ startMs, endMs }: Failed, { atMs, goneMs }: Killed): boolean {
  return startMs <= goneMs && endMs >= atMs;
}

/** Time from the end of its process to the failure of a request in flight. */
function after(request: Failed, kill: Killed): number {
  return wasInFlight(request, kill) ? request.endMs - kill.goneMs : Infinity;
}

test('a worker that cannot be forked for lack of descriptors starts later', async (t) => {
  const { url } = await fakeNode(t, { head: 900n });
  const config = {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { host: '127.0.0.1', port: 0 },
    upstreams: [{ name: 'full', url }],
    workers: 2,
    log: { level: 'error' },
  };
  const serve = [process.execPath, binary, 'serve', '--config', configFile(t, JSON.stringify(config))];
  const gateway = start(t, ['ulimit -n 64; exec "$0" "$@"', ...serve], { node: '/bin/sh', script: '-c' });
  const [, operationsUrl = ''] = await gateway.line(/^Operations: +(\S+) /);
  const workers = () => childrenOf(gateway.process.pid, 'ledgergate worker');
  const sockets = Array.from({ length: 80 }, () => connect(Number(new URL(operationsUrl).port), '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => undefined);
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  await until(() => readdirSync(`/proc/${gateway.process.pid}/fd`).length >= 60);

  const victims = workers();
  for (const victim of victims) process.kill(victim, 'SIGKILL');
  await gateway.line(/EMFILE/);
  for (const socket of sockets) socket.destroy();

  await until(async () => {
    const { text } = await get(`${operationsUrl}/metrics`);
    return /^ledgergate_workers 2$/m.test(text);
  });
  assert.equal(workers().length, 2);
  assert.ok(!workers().some((worker) => victims.includes(worker)));
});
