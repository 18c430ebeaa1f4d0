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
import { fetchReply, probeAt, testGateway, type LogLine, type Reply, type TestGateway } from '../../support/gateway.ts';
import { OpenApi } from '../../support/openapi.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { metric } from '../../support/workers.ts';

/** Reads of the resource that the node answered. */
const reads = (node: FakeNode): number => node.log.countOf('resource');
const read = (gateway: GatewayProcess, version: number) =>
  fetchReply(gateway.url + probeAt(version), { method: 'GET', reset: true });
const sourceOf = ({ headers }: Reply): string => headers['cache-status'] ?? '';

async function scene(t: TestContext, config: ConfigSections, cache: object = {}) {
  const path = temporaryFolder(t);
  const node = await fakeNode(t);
  const store = { path, maxBytes: '64MiB' };
  const gateway = await gatewayProcess(t, { full: [node], config: { cache: { store, ...cache }, ...config } });
  await up(gateway);
  return { node, path, gateway };
}

type Operated = Pick<GatewayProcess, 'operationsUrl'>;

/** Waits until the store is in use. */
async function up(gateway: Operated): Promise<void> {
  await until(async () => (await metric(gateway, 'ledgergate_store_up')) === 1);
}

async function written(gateway: Operated, answers: number): Promise<void> {
  const name = 'ledgergate_store_writes_total{outcome="written"}';
  await until(async () => ((await metric(gateway, name)) ?? 0) >= answers);
}

/** Many versions, so that their answers take several pages of the file. */
const versions = Array.from({ length: 30 }, (_, index) => 100 + index);

test('one process: what was read before a kill is answered from the store after it, ahead of Redis', async (t) => {
  const redis = noRedis === false ? { redis: { url: (await redisServer(t)).url } } : {};
  const { node, path, gateway } = await scene(t, {}, redis);
  // A purge of before empties no store at a later start.
  assert.partialDeepStrictEqual(await purge(gateway, { everything: true }), { complete: true, store: 'cleared' });
  const before = await read(gateway, 7);
  assert.match(sourceOf(before), /fwd=miss/);
  await written(gateway, 1);

  await gateway.kill();
  await gateway.restart();
  await up(gateway);
  const [stored, again] = [await read(gateway, 7), await read(gateway, 7)];

  assert.equal(sourceOf(stored), 'ledgergate; hit; detail=store');
  assert.equal(sourceOf(again), 'ledgergate; hit; detail=memory');
  assert.equal(stored.text, before.text);
  assert.equal(reads(node), 1);
  const document = new OpenApi();
  assert.deepEqual(document.problemsOf(document.operation('getResource'), stored), []);

  await t.test('its files, each truncated to nothing, do not end it', async () => {
    // Memory has each version that was read: further ones ask the store.
    let version = 100;
    const readOn = async (end: string): Promise<void> => {
      for (const last = version + 20; version < last; version += 1)
        assert.equal((await read(gateway, version)).status, 200, end);
    };
    for (const end of ['.db-shm', '.db-wal', '.db']) {
      await readOn(end);
      await until(async () => ((await metric(gateway, 'ledgergate_store_bytes')) ?? 0) > 0);

      for (const name of readdirSync(path)) if (name.endsWith(end)) truncateSync(join(path, name), 0);

      await readOn(end);
      await up(gateway);
    }
  });
});

const isHit = (source: string): boolean => /^ledgergate; hit; detail=(?:memory|store)$/.test(source);

/** Look-ups of the store that gave no answer, for whatever reason, beyond the first one of each of two workers. */
async function unanswered(gateway: GatewayProcess): Promise<number> {
  const [absent = 0, unavailable = 0] = await Promise.all(
    ['absent', 'unavailable'].map((outcome) => metric(gateway, `ledgergate_store_lookups_total{outcome="${outcome}"}`)),
  );
  return unavailable + Math.max(0, absent - 2);
}

test('two workers: one reads a cold key for both, and its answer is a hit of each until a purge', async (t) => {
  // An attempt that a busy machine delays is not repeated.
  const { node, gateway } = await scene(t, { workers: 2, upstream: { timeout: '40s', deadline: '50s' } });
  node.fault = { kind: 'latency', ms: 50 };
  const ask = () => read(gateway, 9);

  const together = await Promise.all(Array.from({ length: 12 }, ask));
  const later = await Promise.all(Array.from({ length: 12 }, ask));

  const answers = 'ledgergate_http_requests_total{route="resource",status="200"}';
  await until(async () => ((await metric(gateway, answers)) ?? 0) >= 24);
  // A worker waits 100 ms for another's write, and leaves a store alone that takes more than 5 ms to look up. On a busy
  // machine it may read on its own then, after a look-up that found nothing.
  const excused = await unanswered(gateway);
  const count = reads(node);
  assert.ok(count >= 1 && count <= 1 + excused, `${count} reads, ${excused} look-ups without an answer`);
  const texts = new Set([...together, ...later].map(({ text }) => text));
  assert.equal(texts.size, 1);
  const sources = later.map(sourceOf);
  assert.ok(excused > 0 || sources.every(isHit), sources.join());

  await written(gateway, 1);
  assert.equal((await purge(gateway, { everything: true })).complete, true);
  assert.match(sourceOf(await ask()), /fwd=miss/);
});

// The store on the machine's disk, between two starts of a gateway and while one runs: purges, rollbacks, damage,
// folders.

interface Started extends TestGateway {
  readonly lines: readonly LogLine[];
}

/** Starts a gateway on the folder; resolves when the store is in use. */
async function start(t: TestContext, node: FakeNode, path: string): Promise<Started> {
  const lines: LogLine[] = [];
  const store = { path, maxBytes: 64 * 1024 * 1024 };
  const memory = { maxBytes: 2 ** 20 };
  const config = { upstream: { probeIntervalMs: 200 }, cache: { memory, store } };
  const gateway = await testGateway(t, { full: [node], config, onLog: (line) => lines.push(line) });
  await up(gateway);
  return Object.assign(gateway, { lines });
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

test('an answer above a fork is not used after a rollback while no gateway ran', async (t) => {
  const folder = temporaryFolder(t);
  const node = await oldNode(t);
  const before = await start(t, node, folder);
  assert.equal(await historyOf(before, fall.before), '');
  await written(before, 1);
  await before.close();
  await rollBack(node);
  growBack(node);

  const after = await start(t, node, folder);

  assert.equal(await historyOf(after, fall.before), 'fork');
});

test('an answer above a fork is not used after a rollback while the gateway runs, nor after its restart', async (t) => {
  const folder = temporaryFolder(t);
  const node = await oldNode(t);
  const before = await start(t, node, folder);
  assert.equal(await historyOf(before, fall.before), '');
  await written(before, 1);
  await rollBack(node);
  growBack(node);
  await until(async () => (await historyOf(before, fall.before)) === 'fork');
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
  const whole = temporaryFolder(t);
  const before = await start(t, node, whole);
  await sources(before, versions);
  await written(before, versions.length);
  await before.close();
  for (const [name, damage] of Object.entries(damages)) {
    const folder = temporaryFolder(t);
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

test('all files of the store, unlinked while it is used, are reported, and the next file is begun', async (t) => {
  const folder = temporaryFolder(t);
  const gateway = await start(t, await fakeNode(t), folder);
  await sources(gateway, versions);
  await written(gateway, versions.length);

  for (const name of readdirSync(folder)) rmSync(join(folder, name));

  const reason = 'its file was deleted or exchanged, and is replaced';
  await until(() => gateway.lines.some((line) => line['reason'] === reason));
  await up(gateway);
  assert.ok(gateway.lines.some(({ msg }) => msg === 'the store is in use'));
  assert.ok(readdirSync(folder).some((name) => /^answers-\d+\.db$/.test(name)));
  await sources(gateway, [500]);
  await written(gateway, versions.length + 1);
});

test('a folder that is gone is a fault in /readyz, the metric and the log, and no read fails', async (t) => {
  const folder = join(temporaryFolder(t), 'store');
  const gateway = await start(t, await fakeNode(t), folder);
  assert.deepEqual(await stateOf(gateway.operationsUrl), { state: 'up' });
  renameSync(folder, `${folder}-gone`);
  writeFileSync(folder, 'a file in its place');

  await until(async () => (await gateway.metric('ledgergate_store_up')) === 0);
  const reason = 'its folder cannot be used: it is missing, or closed to this user';
  await until(async () => JSON.stringify(await stateOf(gateway.operationsUrl)).includes(reason));
  assert.deepEqual(await sources(gateway, [7, 7]), ['fwd=miss', 'memory']);
  assert.ok(gateway.lines.some((line) => line['reason'] === reason));
  rmSync(folder);
  await up(gateway);
  assert.equal((await gateway.get('/')).status, 200);
});
