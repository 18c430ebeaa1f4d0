// The store on the machine's disk, from outside: restarts, workers, faults of its files, purges.
import assert from 'node:assert/strict';
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { purge } from '../../support/admin.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fall, growBack, historyOf, oldNode, rollBack } from '../../support/forked-fleet.ts';
import { gatewayProcess, type ConfigSections, type GatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, probeAt, testGateway, type LogLine, type TestGateway } from '../../support/gateway.ts';
import { OpenApi } from '../../support/openapi.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { storeFolder } from '../../support/stores.ts';
import { get, metric } from '../../support/workers.ts';

interface Scene {
  readonly node: FakeNode;
  readonly folder: string;
  readonly gateway: GatewayProcess;
}

/** `cache`: further tiers. */
async function scene(t: TestContext, config: ConfigSections = {}, cache: object = {}): Promise<Scene> {
  const folder = storeFolder(t);
  const node = await fakeNode(t);
  const store = { path: folder, maxBytes: '64MiB' };
  const gateway = await gatewayProcess(t, { full: [node], config: { cache: { store, ...cache }, ...config } });
  await up(gateway);
  return { node, folder, gateway };
}

/** Waits until the store is in use. */
async function up(gateway: GatewayProcess): Promise<void> {
  await until(async () => (await metric(gateway, 'ledgergate_store_up')) === 1, 20);
}

/** Reads of the resource that the node answered. */
function reads({ node }: Scene): number {
  return node.log.received.filter(({ route }) => route === 'resource').length;
}

async function written({ gateway }: Scene, answers: number): Promise<void> {
  const name = 'ledgergate_store_writes_total{outcome="written"}';
  await until(async () => ((await metric(gateway, name)) ?? 0) >= answers, 20);
}

function sourceOf(reply: { readonly headers: Readonly<Record<string, string | undefined>> }): string | undefined {
  return reply.headers['cache-status'];
}

test('what was read before a kill is answered from the store after the restart', async (t) => {
  const the = await scene(t);
  const { gateway } = the;
  const before = await fetchReply(gateway.url + probeAt(7), { method: 'GET' });
  assert.match(sourceOf(before) ?? '', /fwd=miss/);
  await written(the, 1);

  await gateway.kill();
  await gateway.restart();
  await up(gateway);
  const after = await fetchReply(gateway.url + probeAt(7), { method: 'GET' });
  const again = await fetchReply(gateway.url + probeAt(7), { method: 'GET' });

  assert.equal(sourceOf(after), 'ledgergate; hit; detail=store');
  assert.equal(sourceOf(again), 'ledgergate; hit; detail=memory');
  assert.equal(after.text, before.text);
  assert.equal(reads(the), 1);
  const document = new OpenApi();
  assert.deepEqual(document.problemsOf(document.operation('getResource'), after), []);
});

const isHit = (source = ''): boolean => /^ledgergate; hit; detail=(?:memory|store)$/.test(source);

/** Look-ups of the store that gave no answer, for whatever reason, beyond the first one of each of two workers. */
async function unanswered({ gateway }: Scene): Promise<number> {
  const [absent = 0, unavailable = 0] = await Promise.all(
    ['absent', 'unavailable'].map((outcome) => metric(gateway, `ledgergate_store_lookups_total{outcome="${outcome}"}`)),
  );
  return unavailable + Math.max(0, absent - 2);
}

test('one worker reads a cold key for all, and its answer is every worker’s hit', async (t) => {
  // An attempt that a busy machine delays is not repeated.
  const the = await scene(t, { workers: 2, upstream: { timeout: '40s', deadline: '50s' } });
  const { gateway, node } = the;
  node.fault = { kind: 'latency', ms: 50 };
  const ask = () => fetchReply(gateway.url + probeAt(9), { method: 'GET', reset: true });

  const together = await Promise.all(Array.from({ length: 12 }, ask));
  const later = await Promise.all(Array.from({ length: 12 }, ask));

  const answers = 'ledgergate_http_requests_total{route="resource",status="200"}';
  await until(async () => ((await metric(gateway, answers)) ?? 0) >= 24, 20);
  // A worker waits 100 ms for another's write, and leaves a store alone that takes more than 5 ms to look up. On a busy
  // machine it may read on its own then, after a look-up that found nothing.
  const excused = await unanswered(the);
  assert.ok(reads(the) >= 1 && reads(the) <= 1 + excused, `${reads(the)} reads, ${excused} look-ups without an answer`);
  const texts = new Set([...together, ...later].map(({ text }) => text));
  assert.equal(texts.size, 1);
  const sources = later.map(sourceOf);
  assert.ok(excused > 0 || sources.every(isHit), sources.join());
});

test('a purge of before empties no store at a later start, with Redis beside it', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const the = await scene(t, {}, { redis: { url: server.url } });
  const { gateway } = the;
  const ask = () => fetchReply(gateway.url + probeAt(11), { method: 'GET' });
  assert.equal((await purge(gateway, { everything: true })).complete, true);
  await ask();
  await written(the, 1);

  await gateway.kill();
  await gateway.restart();
  await up(gateway);

  assert.equal(sourceOf(await ask()), 'ledgergate; hit; detail=store');
  assert.equal(reads(the), 1);
});

// The store on the machine's disk, between two starts of a gateway and while one runs: purges, rollbacks, damage,
// folders.

interface Started extends TestGateway {
  readonly lines: readonly LogLine[];
}

/** Starts a gateway on the folder; resolves when the store is in use. */
async function start(t: TestContext, node: FakeNode, path: string, isUp = true): Promise<Started> {
  const lines: LogLine[] = [];
  const store = { path, maxBytes: 64 * 1024 * 1024 };
  const memory = { maxBytes: 2 ** 20 };
  const config = { upstream: { probeIntervalMs: 200 }, cache: { memory, store } };
  const gateway = await testGateway(t, { full: [node], config, onLog: (line) => lines.push(line) });
  if (isUp) await until(async () => (await gateway.metric('ledgergate_store_up')) === 1, 20);
  return Object.assign(gateway, { lines });
}

async function untilWritten(gateway: TestGateway, answers: number): Promise<void> {
  const name = 'ledgergate_store_writes_total{outcome="written"}';
  await until(async () => (await gateway.metric(name)) >= answers, 10);
}

/** The tier that answers each read; their bodies must name its version. */
async function sources(gateway: TestGateway, versions: readonly number[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const version of versions) {
    const { status, text, headers } = await gateway.get(probeAt(version));
    assert.equal(status, 200, text);
    assert.equal((JSON.parse(text) as { data: { ledger_version: string } }).data.ledger_version, String(version));
    found.push(/fwd=miss|memory|store/.exec(headers['cache-status'] ?? '')?.[0] ?? '');
  }
  return found;
}

async function stateOf(operationsUrl: string): Promise<unknown> {
  const { text } = await fetchReply(`${operationsUrl}/readyz`, { method: 'GET' });
  return (JSON.parse(text) as { store: unknown }).store;
}

/** Many versions, so that their answers take several pages of the file. */
const versions = Array.from({ length: 60 }, (_, index) => 100 + index);

test('a purge of a read, an account or everything stays in force after a restart', async (t) => {
  const folder = storeFolder(t);
  const node = await fakeNode(t);
  const before = await start(t, node, folder);
  await sources(before, [7, 8]);
  await untilWritten(before, 2);

  const one = await purge(before, { read: { target: `/v1${probeAt(7)}` } });
  assert.deepEqual([one.complete, (one as unknown as { store: string }).store], [true, 'cleared']);
  await before.close();
  const after = await start(t, node, folder);
  assert.deepEqual(await sources(after, [7, 8]), ['fwd=miss', 'store']);
  await untilWritten(after, 1);
  await purge(after, { account: '0x1' });
  await after.close();
  const third = await start(t, node, folder);
  assert.deepEqual(await sources(third, [7, 8]), ['fwd=miss', 'fwd=miss']);
  await untilWritten(third, 2);
  await purge(third, { everything: true });
  await third.close();
  assert.deepEqual(await sources(await start(t, node, folder), [7, 8]), ['fwd=miss', 'fwd=miss']);
});

test('an answer above a fork is not used after a rollback while no gateway ran', async (t) => {
  const folder = storeFolder(t);
  const node = await oldNode(t);
  const before = await start(t, node, folder);
  assert.equal(await historyOf(before, fall.before), '');
  await untilWritten(before, 1);
  await before.close();
  await rollBack(node);
  growBack(node);

  const after = await start(t, node, folder);

  assert.equal(await historyOf(after, fall.before), 'fork');
});

test('an answer above a fork is not used after a rollback while the gateway runs, nor after its restart', async (t) => {
  const folder = storeFolder(t);
  const node = await oldNode(t);
  const before = await start(t, node, folder);
  assert.equal(await historyOf(before, fall.before), '');
  await untilWritten(before, 1);
  await rollBack(node);
  growBack(node);
  await until(async () => (await historyOf(before, fall.before)) === 'fork', 20);
  await before.close();

  assert.equal(await historyOf(await start(t, node, folder), fall.before), 'fork');
});

/** Damage to the closed file at a path. */
const damages: Readonly<Record<string, (path: string, folder: string) => void>> = {
  'flipped bits': (path) => {
    const bytes = readFileSync(path);
    for (let at = 0; at < bytes.length; at += 701) bytes[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
    writeFileSync(path, bytes);
  },
  'a flipped bit in every page but the first': (path) => {
    const bytes = readFileSync(path);
    for (let at = 4_096 + 900; at < bytes.length; at += 4_096) bytes[at] = (bytes[at] ?? 0) ^ 4;
    writeFileSync(path, bytes);
  },
  'half of the file': (path) => truncateSync(path, Math.floor(readFileSync(path).length / 2)),
  'an empty file': (path) => truncateSync(path, 0),
  'another file': (path, folder) => copyFileSync(join(folder, 'claim.db'), path),
  'no database': (path) => writeFileSync(path, 'text '.repeat(5_000)),
};

test('damage between two starts costs answers, and no read is wrong or fails', async (t) => {
  const node = await fakeNode(t);
  const whole = storeFolder(t);
  const before = await start(t, node, whole);
  await sources(before, versions);
  await untilWritten(before, versions.length);
  await before.close();
  for (const [name, damage] of Object.entries(damages)) {
    const folder = storeFolder(t);
    const path = join(folder, 'answers-1.db');
    copyFileSync(join(whole, 'answers-1.db'), path);
    copyFileSync(join(whole, 'claim.db'), join(folder, 'claim.db'));
    damage(path, folder);

    const after = await start(t, node, folder);
    const found = await sources(after, versions);

    assert.ok(found.includes('fwd=miss'), name);
    await until(async () => {
      assert.ok((await sources(after, [900])).length > 0);
      return ((await stateOf(after.operationsUrl)) as { state: string }).state === 'up';
    }, 20);
    await after.close();
  }
});

test('a file that is damaged while it is used is reported, and replaced', async (t) => {
  const folder = storeFolder(t);
  const gateway = await start(t, await fakeNode(t), folder);
  await sources(gateway, versions);
  await untilWritten(gateway, versions.length);
  for (const end of ['', '-wal']) truncateSync(join(folder, `answers-1.db${end}`), 5_000);

  // Below the checkpoint of the first file, and unknown to memory.
  await until(async () => {
    await sources(gateway, [Math.floor(Math.random() * 90)]);
    return gateway.lines.some(({ msg }) => String(msg).startsWith('the store is not in full use'));
  }, 10);
  await until(async () => (await gateway.metric('ledgergate_store_up')) === 1, 20);

  assert.ok(gateway.lines.some(({ msg }) => msg === 'the store is in use'));
  await sources(gateway, versions);
});

test('the files of the store, each truncated to nothing, do not end a gateway of one process', async (t) => {
  const folder = storeFolder(t);
  const node = await fakeNode(t);
  const cache = { store: { path: folder, maxBytes: '64MiB' } };
  const gateway = await gatewayProcess(t, { full: [node], config: { cache } });
  const isUp = async (): Promise<boolean> => (await metric(gateway, 'ledgergate_store_up')) === 1;
  await until(isUp, 50);
  for (const end of ['.db-shm', '.db-wal', '.db']) {
    for (const version of versions) assert.equal((await get(gateway.url + probeAt(version))).status, 200);
    await until(async () => ((await metric(gateway, 'ledgergate_store_bytes')) ?? 0) > 0, 20);

    for (const name of readdirSync(folder)) if (name.endsWith(end)) truncateSync(join(folder, name), 0);

    for (let version = 900; version > 850; version -= 1) {
      assert.equal((await get(gateway.url + probeAt(version))).status, 200, end);
    }
    await until(isUp, 50);
  }
});

test('all files of the store, unlinked while it is used, are reported, and the next file is begun', async (t) => {
  const folder = storeFolder(t);
  const gateway = await start(t, await fakeNode(t), folder);
  await sources(gateway, versions);
  await untilWritten(gateway, versions.length);

  for (const name of readdirSync(folder)) rmSync(join(folder, name));

  const reason = 'its file was deleted or exchanged, and is replaced';
  await until(() => gateway.lines.some((line) => line['reason'] === reason), 10);
  await until(async () => (await gateway.metric('ledgergate_store_up')) === 1, 10);
  assert.ok(gateway.lines.some(({ msg }) => msg === 'the store is in use'));
  assert.ok(readdirSync(folder).some((name) => /^answers-\d+\.db$/.test(name)));
  await sources(gateway, [500]);
  await untilWritten(gateway, versions.length + 1);
});

test('a folder that is gone is a fault in /readyz, the metric and the log, and no read fails', async (t) => {
  const folder = join(storeFolder(t), 'store');
  const gateway = await start(t, await fakeNode(t), folder);
  assert.deepEqual(await stateOf(gateway.operationsUrl), { state: 'up' });
  renameSync(folder, `${folder}-gone`);
  writeFileSync(folder, 'a file in its place');

  await until(async () => (await gateway.metric('ledgergate_store_up')) === 0, 20);
  const reason = 'its folder cannot be used: it is missing, or closed to this user';
  await until(async () => JSON.stringify(await stateOf(gateway.operationsUrl)).includes(reason), 20);
  assert.deepEqual(await sources(gateway, [7, 7]), ['fwd=miss', 'memory']);
  assert.ok(gateway.lines.some((line) => line['reason'] === reason));
  rmSync(folder);
  await until(async () => (await gateway.metric('ledgergate_store_up')) === 1, 20);
  assert.equal((await gateway.get('/')).status, 200);
});

test('a second gateway on the folder runs without the store until the first has ended', async (t) => {
  const folder = storeFolder(t);
  const node = await fakeNode(t);
  const first = await start(t, node, folder);
  await sources(first, [7]);
  await untilWritten(first, 1);
  const second = await start(t, node, folder, false);
  const reason = 'another gateway uses its folder';
  await until(async () => JSON.stringify(await stateOf(second.operationsUrl)).includes(reason), 20);

  assert.deepEqual(await sources(second, [8]), ['fwd=miss']);
  await first.close();
  await until(async () => (await second.metric('ledgergate_store_up')) === 1, 20);
  assert.deepEqual(await sources(second, [7]), ['store']);
});

test('a purge reaches every worker and the store, and workers find what another one has read', async (t) => {
  const path = storeFolder(t);
  const node = await fakeNode(t);
  const cache = { store: { path, maxBytes: '64MiB' } };
  const gateway = await gatewayProcess(t, { full: [node], config: { cache, workers: 2 } });
  await until(async () => (await metric(gateway, 'ledgergate_store_up')) === 1, 50);
  // A connection each, so that both workers answer.
  const ask = async (): Promise<string> => (await get(gateway.url + probeAt(7))).headers['cache-status'] ?? '';
  const seen = async (): Promise<readonly string[]> => Promise.all(Array.from({ length: 16 }, ask));
  const sample = 'ledgergate_store_writes_total{outcome="written"}';
  const nodeReads = () => node.log.received.filter(({ route }) => route === 'resource').length;
  await ask();
  await until(async () => ((await metric(gateway, sample)) ?? 0) >= 1, 20);

  await seen();
  assert.equal(nodeReads(), 1);
  assert.equal((await purge(gateway, { everything: true })).complete, true);
  assert.match(await ask(), /fwd=miss/);
});
