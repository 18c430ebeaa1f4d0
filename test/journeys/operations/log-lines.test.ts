/** The log under load and faults: one line per change, and a bound for a state that flaps. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Config } from '../../../src/config/config.ts';
import { binary, start } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';
import { metric } from '../../support/workers.ts';

interface Scene {
  readonly gateway: TestGateway;
  /** How often each message came, as "level message". */
  readonly counts: ReadonlyMap<string, number>;
}

/** At level `info`. */
async function scene(t: TestContext, full: readonly FakeNode[], config: Partial<Config> = {}): Promise<Scene> {
  const counts = new Map<string, number>();
  const gateway = await testGateway(t, {
    full,
    config: {
      upstream: { probeIntervalMs: 50, timeoutMs: 500, deadlineMs: 1_000 },
      log: { access: { share: 0, slowMs: 60_000, failed: false } },
      ...config,
    },
    onLog: ({ level, msg }) => {
      const line = `${String(level)} ${String(msg)}`;
      if (Number(level) >= 30) counts.set(line, (counts.get(line) ?? 0) + 1);
    },
  });
  return { gateway, counts };
}

/** Clients that read uncached versions until `isOver`, which gets the number of requests, and rest in between. */
async function load({ gateway }: Scene, isOver: (asked: number) => boolean): Promise<void> {
  let asked = 0;
  const client = async (): Promise<void> => {
    while (!isOver(asked)) {
      asked += 1;
      await gateway.get(probeAt(asked % 900));
      await gateway.get('/estimate_gas_price?x=1');
      await sleep(150);
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
}

/** Load, during which something fails, and heals after half a second and 50 requests; ends once `isBack`. */
async function loadThrough(
  the: Scene,
  fault: { fail(): Promise<unknown>; heal(): Promise<unknown>; isBack(): Promise<boolean> },
): Promise<void> {
  let [isOver, asked] = [false, 0];
  const loading = load(the, (times) => {
    asked = times;
    return isOver;
  });
  await until(() => asked > 20);
  await fault.fail();
  const enough = asked + 50;
  await Promise.all([sleep(500), until(() => asked > enough)]);
  await fault.heal();
  await until(() => fault.isBack());
  isOver = true;
  await loading;
}

test('a node that dies and comes back has one line each way, however many requests it failed', async (t) => {
  const [one, other] = [await fakeNode(t), await fakeNode(t)];
  const the = await scene(t, [one, other]);
  const before = new Map(the.counts);

  await loadThrough(the, {
    fail: () => one.refuse(),
    heal: () => one.accept(),
    isBack: async () => (await the.gateway.metric('ledgergate_upstream_usable{upstream="full-0"}')) === 1,
  });

  const news = [...the.counts].map(([line, count]) => [line, count - (before.get(line) ?? 0)] as const);
  const changes = Object.fromEntries(news.filter(([, count]) => count > 0));
  assert.deepEqual(changes, { '40 upstream is down': 1, '30 upstream is usable': 1 });
});

test('a flapping node takes a few lines', async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, [node]);
  let turn = 0;
  // Two failures take it out, the next answer brings it back: it is the only one.
  node.faults.add({ kind: 'reset' }, { when: () => (turn += 1) % 6 < 4 });

  const stalls = watchStalls(t);
  await load(the, (asked) => asked >= 100);

  // So many in the seconds that it takes; where it takes a quarter of a minute there are more.
  for (const [line, count] of the.counts) stalls.judge(count <= 10, `${count} times "${line}"`);
});

test('an outage of Redis under load is one line, and its end another', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t);
  const redis = redisAt(server.url, { timeoutMs: 50 });
  const cache = { gasPriceTtlMs: 1_000, memory: { maxBytes: 64 * 1024 * 1024 }, redis };
  const the = await scene(t, [node], { cache });
  const stalls = watchStalls(t);

  await loadThrough(the, {
    fail: () => server.kill(),
    heal: () => server.start(),
    isBack: async () => (await the.gateway.metric('ledgergate_redis_up')) === 1,
  });

  const of = (part: string): number =>
    [...the.counts].filter(([line]) => line.includes(part)).reduce((sum, [, count]) => sum + count, 0);
  const [opened, closed] = [of('Redis circuit open'), of('Redis answers again')];
  assert.ok(opened >= 1 && closed >= 1, JSON.stringify([...the.counts]));
  // A busy machine may be slower than the 50 ms that Redis is given: then its circuit opens once more.
  stalls.judge(opened <= 4 && closed <= 4, `${opened} and ${closed} lines`);
  for (const [line, count] of the.counts) stalls.judge(count <= 10, `${count} times "${line}"`);
});

// A log reader that stalls: the gateway goes on serving, its memory stays bounded, and SIGTERM ends it.

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7';

test('a full pipe stops nothing: lines are lost and counted', async (t) => {
  const stalls = watchStalls(t);
  const node = await fakeNode(t);
  const file = configFile(t, JSON.stringify(loggingAll(node)));
  const child = spawn(process.execPath, [binary, 'serve', '--config', file]);
  t.after(() => child.kill('SIGKILL'));
  // The test does not read standard error.
  const { promise: listening, resolve } = Promise.withResolvers<readonly string[]>();
  const urls: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    const url = /^(?:Clients|Operations): +(\S+) /.exec(line)?.[1];
    if (url !== undefined && urls.push(url) === 2) resolve(urls);
  });
  const [url = '', operationsUrl = ''] = await listening;
  const { origin, pathname } = new URL(url + probe.split('?')[0]);
  const pool = new Pool(origin, { connections: 16 });
  t.after(() => pool.close());
  let answered = 0;
  let slowestMs = 0;
  const ask = async (times: number): Promise<void> => {
    for (let index = 0; index < times; index += 1) {
      const startedMs = performance.now();
      const { statusCode, body } = await pool.request({ method: 'GET', path: `${pathname}?ledger_version=7` });
      await body.dump();
      slowestMs = Math.max(slowestMs, performance.now() - startedMs);
      if (statusCode === 200) answered += 1;
    }
  };
  const dropped = async (): Promise<number> =>
    (await metric({ operationsUrl }, 'ledgergate_log_lines_dropped_total')) ?? Number.NaN;

  // Some 220 bytes each: pipes and buffers take one or two megabytes.
  let asked = 0;
  while ((await dropped()) === 0) {
    await Promise.all(Array.from({ length: 16 }, () => ask(64)));
    asked += 1_024;
    assert.ok(asked < 40_000, 'no line was lost');
  }
  const rssBefore = rss(child.pid);
  const lost = await dropped();
  await Promise.all(Array.from({ length: 16 }, () => ask(64)));

  assert.equal(answered, asked + 1_024);
  stalls.judge(slowestMs < 2_000, `${slowestMs} ms`);
  assert.ok((await dropped()) >= lost + 950);
  assert.ok(rss(child.pid) - rssBefore < 64, 'what is lost takes no memory');
  child.kill('SIGTERM');
  const [code] = await once(child, 'exit');
  assert.equal(code, 0);
});

test('the last lines are written before the end', async (t) => {
  const node = await fakeNode(t);
  for (const workers of [1, 2]) {
    const running = start(t, ['serve', '--config', configFile(t, JSON.stringify({ ...loggingAll(node), workers }))]);
    const [, url = ''] = await running.line(/^Clients: +(\S+) /);
    await Promise.all(Array.from({ length: 100 }, () => fetchReply(url + probe, { method: 'GET' })));
    running.process.kill('SIGTERM');
    const { code, err } = await running.ended;
    assert.equal(code, 0);
    assert.equal(err.split('"msg":"answered"').length - 1, 100);
    const lines = err.split('\n').filter((line) => line !== '');
    for (const line of lines) assert.equal(typeof JSON.parse(line), 'object', line);
  }
});

/** A gateway that logs each request. */
function loggingAll({ url }: FakeNode): object {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { host: '127.0.0.1', port: 0 },
    upstreams: [{ name: 'a', url }],
    log: { access: { share: 1 } },
  };
}

/** Resident memory in MB. */
function rss(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
