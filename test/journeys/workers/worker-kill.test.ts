// LEDGERGATE_KILL_ROUNDS sets the number of kills; the documented figure needs 30.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test, after, type TestContext } from 'node:test';
import { Crowd, type Failed } from '../../support/crowd.ts';
import { EventReader } from '../../support/event-reader.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { probe } from '../../support/gateway.ts';
import { watchStalls } from '../../support/stalls.ts';
import { submission } from '../../support/submission.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';

const rounds = Number(process.env['LEDGERGATE_KILL_ROUNDS'] ?? 2);
const clients = 8;
const from = 1_000_000;

const workers = 2;
const node = await fakeNode({ after }, { head: 900n, keepRequests: 1_000 });
const follow = { mode: 'always' };
const config = { workers, follow, latest: { maxStaleness: '50ms' }, streams: { interval: '100ms' } };
/** For all tests, which use it one after the other. */
const gateway = await gatewayProcess({ after }, { full: [node], config });

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
  const lastMs = Math.max(0, ...failed.map((request) => Math.min(...kills.map((kill) => msAfter(request, kill)))));
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
function msAfter(request: Failed, kill: Killed): number {
  return wasInFlight(request, kill) ? request.endMs - kill.goneMs : Infinity;
}

// One of two workers follows the ledger for both: waits, and event streams.

const following = () => metric(gateway, 'ledgergate_follower_running');

/** The ledger moves on by 20 versions; resolves once every worker answers the newest from memory. */
async function untilFollowed(): Promise<void> {
  node.clock.advance(20n);
  // Connections are handed out in turn, and a version that a node was asked for is in memory.
  await until(async () => {
    node.clock.advance(1n);
    // Read by now, unless nobody reads.
    const path = `${gateway.url}/transactions/by_version/${node.clock.head - 10n}`;
    const found = [(await get(path)).headers['cache-status'], (await get(path)).headers['cache-status']];
    return found.every((source) => source === 'ledgergate; hit; detail=memory');
  }, 20);
}

/** As many streams at each worker: connections are handed out in turn. */
async function openStreams(t: TestContext, path: string, count: number): Promise<readonly EventReader[]> {
  const readers: EventReader[] = [];
  for (let opened = 0; opened < count; opened += 1) {
    const reader = await EventReader.open(gateway.url + path);
    t.after(() => reader.close());
    readers.push(reader);
  }
  return readers;
}

/** Streams of the newest transactions, each with its first six events. */
async function openTransactions(t: TestContext): Promise<readonly EventReader[]> {
  const readers = await openStreams(t, `/transactions?start=${node.clock.head - 5n}`, 4);
  await Promise.all(readers.map((reader) => reader.has(6)));
  return readers;
}

/** Each version once and in order, from the first that the stream has. */
function assertWithoutGap({ ids }: EventReader): void {
  const first = Number(ids[0]);
  assert.deepEqual(
    ids,
    Array.from({ length: ids.length }, (_, index) => String(first + index)),
  );
}

test('a wait at any worker ends with the commit, and costs each worker one call of a node for its hash', async () => {
  await untilFollowed();
  const reply = await fetch(`${node.url}/transactions`, {
    method: 'POST',
    body: submission(),
    headers: { 'content-type': 'application/json' },
  });
  const { hash } = (await reply.json()) as { readonly hash: string };
  const before = node.requestsTo('byHash');
  const waitOf = async (): Promise<string> => {
    const { text } = await get(`${gateway.url}/transactions/wait_by_hash/${hash}`);
    return text.includes('"pending_transaction"') ? waitOf() : text;
  };
  const waits = Array.from({ length: 2 * workers }, waitOf);
  await until(() => node.requestsTo('byHash') - before >= workers);
  node.clock.head = node.mempool.commitEach(node.clock.head + 1n) - 1n;
  const texts = await Promise.all(waits);
  assert.deepEqual([node.requestsTo('byHash') - before, node.requestsTo('waitByHash')], [workers, 0]);
  const { text } = await get(`${node.url}/transactions/by_hash/${hash}`);
  for (const waited of texts) assert.equal(waited, text);
});

test('one read of a node for each worker and state serves all who watch there', async (t) => {
  const readers = await openStreams(t, probe, 6);
  await Promise.all(readers.map((reader) => reader.has(1)));
  for (let count = 2; count <= 4; count += 1) {
    node.clock.advance(1n);
    await Promise.all(readers.map((reader) => reader.has(count)));
  }
  const reads = new Map<string, number>();
  for (const { route, url } of node.log.received) {
    if (route === 'resource') reads.set(url, (reads.get(url) ?? 0) + 1);
  }
  for (const [url, count] of reads) assert.ok(count <= workers, `${count} reads of ${url}`);
  for (const { events } of readers)
    assert.deepEqual(
      events.slice(0, 4).map(({ id, data }) => [id, data]),
      readers[0]?.events.slice(0, 4).map(({ id, data }) => [id, data]),
    );
});

test('streams at the other worker go on while one hangs, whichever of them follows the ledger', async (t) => {
  const start = Number(node.clock.head) - 5;
  const readers = await openTransactions(t);
  for (const hung of gateway.workers()) {
    process.kill(hung, 'SIGSTOP');
    try {
      node.clock.advance(30n);
      const count = Number(node.clock.head) - start + 1;
      await until(() => readers.filter(({ ids }) => ids.length >= count).length >= 2);
    } finally {
      process.kill(hung, 'SIGCONT');
    }
    // A worker that hung for ten seconds was replaced, and its streams have ended.
    const count = Number(node.clock.head) - start + 1;
    await until(() => readers.every(({ ids, hasEnded }) => hasEnded || ids.length >= count));
  }
  for (const reader of readers) assertWithoutGap(reader);
});

test('one worker reads for all, and when it dies the next one does', async () => {
  await untilFollowed();
  assert.equal(await following(), 1);
  for (const victim of gateway.workers()) {
    process.kill(victim, 'SIGKILL');
    await until(() => !isAlive(victim));
    await until(async () => (await metric(gateway, 'ledgergate_workers')) === workers);
    await untilFollowed();
    await until(async () => (await following()) === 1);
  }
});

test('a drain ends each stream whole, with the time after which its client comes back', async (t) => {
  const readers = await openTransactions(t);
  const stopped = gateway.stop();
  await until(() => {
    node.clock.advance(1n);
    return readers.every(({ hasEnded }) => hasEnded);
  }, 20);
  assert.equal(await stopped, 0);
  for (const reader of readers) {
    assert.equal(await reader.ended, true);
    assert.match(reader.text, /retry: ?\d+\n/);
    assertWithoutGap(reader);
  }
});
