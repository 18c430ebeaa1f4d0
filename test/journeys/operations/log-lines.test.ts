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
import { askPurge } from '../../support/admin.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, probeAt, testGateway, type TestGateway, type LogLine } from '../../support/gateway.ts';
import { accessConfig } from '../../support/keys.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
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

/** Load, during which something fails, and heals after half a second and 50 requests; ends once `isBack`. */
async function loadThrough(
  { gateway }: Scene,
  fault: { fail(): Promise<unknown>; heal(): Promise<unknown>; isBack(): Promise<boolean> },
): Promise<void> {
  let asked = 0;
  const over = new AbortController();
  // Clients that read uncached versions, and rest in between.
  const client = async (): Promise<void> => {
    while (!over.signal.aborted) {
      asked += 1;
      await gateway.get(probeAt(asked % 900));
      await gateway.get('/estimate_gas_price?x=1');
      await sleep(150);
    }
  };
  const loading = Promise.all(Array.from({ length: 8 }, client));
  await until(() => asked > 20);
  await fault.fail();
  const enough = asked + 50;
  await Promise.all([sleep(500), until(() => asked > enough)]);
  await fault.heal();
  await until(() => fault.isBack());
  over.abort();
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

// Secrets of clients and operators are in no line of the log, at level `trace`, and reach no node.

const secret = 'hush-7f3a';
const token = `operator-${secret}-token`;
const password = `redis-${secret}-password`;
const headers = {
  authorization: `Bearer ${secret}`,
  cookie: `session=${secret}`,
  'x-api-key': secret,
  referer: `https://wallet.example/?key=${secret}`,
  'x-forwarded-for': secret,
};
const body = `{"function":"0x1::m::f","type_arguments":[],"arguments":["${secret}"]}`;

test('queries, bodies, credentials, and the secrets of the config are in no line of the log', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gone = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node, gone],
    config: {
      operations: { token },
      upstream: { timeoutMs: 200, deadlineMs: 500 },
      cache: {
        memory: { maxBytes: 1_000_000 },
        redis: redisAt(`redis://:${password}@127.0.0.1:1/0`, { timeoutMs: 50, ttlMs: 1_000 }),
      },
    },
    onLog: (line) => lines.push(line),
  });
  await gone.close();
  const ask = async (): Promise<void> => {
    await gateway.get(`/accounts/0x1/module/coin?ledger_version=5&api_key=${secret}`, headers);
    await gateway.get(`/accounts/0x1/module/coin?ledger_version=${secret}`, headers);
    await gateway.get(`/accounts/0x1/resource/0x1::a::B?key=${secret}`, headers);
    await gateway.get('/accounts/0x1?ledger_version=5&x=1', headers);
    await gateway.get(`/${secret}/..%2f?x`, headers);
    await gateway.post('/view?ledger_version=5', body, headers);
    await gateway.post('/view', body.slice(0, -1), headers);
    await gateway.post('/transactions/encode_submission', body, headers);
    await gateway.post('/transactions', body, headers);
    await askPurge(gateway, '{"everything":true}', { authorization: `Bearer ${secret}` });
    await askPurge(gateway, '{"everything":true}', { authorization: `Bearer ${token}` });
    await exchangeRaw(gateway.port, `GET /v1?${secret} HTTP/1.1\r\nHost: a\r\nCookie: ${secret}\r\n ${secret}\r\n\r\n`);
  };
  await ask();
  for (const kind of ['reset', 'truncated body'] as const) {
    node.fault = { kind };
    await ask().catch(() => undefined);
  }
  node.fault = { kind: 'answer', status: 500, body: `"${secret}"` };
  await ask();

  assert.ok(lines.length >= 30, `${lines.length} lines`);
  for (const line of lines) assert.doesNotMatch(JSON.stringify(line), new RegExp(secret));
  for (const { headers: sent } of node.log.received) assert.doesNotMatch(JSON.stringify(sent), new RegExp(secret));
  const { text } = await gateway.get('/accounts/0x1/module/coin?ledger_version=5');
  assert.doesNotMatch(text, new RegExp(`${token}|${password}`));
});

test('the address that limits a request without a key is in no line of the log', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const access = accessConfig({ anonymous: 'free', trustedProxies: ['127.0.0.0/8'] });
  const gateway = await testGateway(t, { full: [node], access, onLog: (line) => lines.push(line) });

  await gateway.get('/accounts/0x1/module/coin?ledger_version=5', { 'x-forwarded-for': '203.0.113.77' });
  await gateway.get('/accounts/0x1/module/coin?ledger_version=6', { 'x-forwarded-for': '2001:db8:77::1' });

  const answered = lines.filter(({ msg }) => msg === 'answered');
  assert.deepEqual(
    answered.map(({ tenant, plan }) => [tenant, plan]),
    [
      [undefined, 'free'],
      [undefined, 'free'],
    ],
  );
  for (const line of lines) assert.doesNotMatch(JSON.stringify(line), /203\.0\.113|2001:db8/);
});

/** None of them can hold what a client wrote. */
const accessLineKeys = new Set(
  'level time pid hostname msg route method status outcome upstream version seconds upstreamMs bytes'.split(' '),
);

test('a line of a request has the template of its route, and no more of its target', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full: [node], onLog: (line) => lines.push(line) });

  await gateway.get('/accounts/0xabcdef/resource/0x1::a::B?ledger_version=5');
  await gateway.get('/accounts/0xabcdef/unknown/thing');
  await gateway.get(`/transactions/by_hash/0x${'ab'.repeat(32)}`);

  const access = lines.filter(({ msg }) => msg === 'answered');
  assert.deepEqual(
    access.map(({ route, method }) => [route, method]),
    [
      ['resource', 'GET'],
      ['pass_through', 'GET'],
      ['transaction_by_hash', 'GET'],
    ],
  );
  for (const line of access) {
    assert.deepEqual(
      Object.keys(line).filter((name) => !accessLineKeys.has(name)),
      [],
    );
  }
});
