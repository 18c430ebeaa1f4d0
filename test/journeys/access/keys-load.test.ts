/**
 * Keys are created and revoked by API while other clients ask. `LEDGERGATE_KEYS_RATE` is the requests of the others in a
 * second, for `LEDGERGATE_KEYS_SECONDS`; with them a change must be in force within 250 ms after its answer.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { Pool } from 'undici';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { type GatewayProcess, gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, type Reply } from '../../support/gateway.ts';
import { askKeys } from '../../support/keys-api.ts';
import { bearer, path } from '../../support/keyed-gateway.ts';
import { keysFile, testKey } from '../../support/keys.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

const isLong = process.env['LEDGERGATE_KEYS_RATE'] !== undefined;
const rate = Number(process.env['LEDGERGATE_KEYS_RATE'] ?? 100);
const seconds = Number(process.env['LEDGERGATE_KEYS_SECONDS'] ?? 1);
/** Of a change, after its answer. A busy machine of tests is no judge. */
const inForceMs = isLong ? 250 : 20_000;
const workers = 2;

const token = 'token-of-ana-hush-4711';
const operator = { authorization: `Bearer ${token}` };

/** Sends `rate` requests a second to the gateways by turns, over connections that stay, until it is stopped. */
function askSteadily(t: TestContext, gateways: readonly GatewayProcess[], key: string) {
  const pools = gateways.map(({ url }) => new Pool(new URL(url).origin, { connections: 32 }));
  t.after(() => Promise.all(pools.map((pool) => pool.destroy())));
  const statuses = new Map<number, number>();
  const inFlight = new Set<Promise<void>>();
  const ask = async (pool: Pool): Promise<void> => {
    const headers = bearer(key);
    const { statusCode, body } = await pool.request({ method: 'GET', path: `/v1${path}`, headers });
    await body.dump();
    statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1);
  };
  const startedMs = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - startedMs) / 1_000) * rate;
    for (; sent < due; sent += 1) {
      const pool = pools[sent % pools.length];
      if (pool === undefined) continue;
      const one = ask(pool).finally(() => inFlight.delete(one));
      inFlight.add(one);
    }
  }, 5);
  return async () => {
    clearInterval(timer);
    await Promise.all(inFlight);
    return { statuses, perSecond: sent / ((performance.now() - startedMs) / 1_000) };
  };
}

/** Ms until each worker of the gateway answers with the status, in the turn of connections. */
async function msUntil(gateway: GatewayProcess, key: string, status: number): Promise<number> {
  const startedMs = performance.now();
  const headers = bearer(key);
  await until(async () => {
    for (let worker = 0; worker < workers; worker += 1) {
      if ((await fetchReply(gateway.url + path, { method: 'GET', headers })).status !== status) return false;
    }
    return true;
  });
  return performance.now() - startedMs;
}

for (const source of isLong ? (['redis', 'file'] as const) : (['redis'] as const)) {
  const title = `${source}: keys made and revoked beside ${rate} requests a second are soon in force, and refuse no other`;
  test(title, { skip: noRedis, timeout: 60_000 + seconds * 5_000 }, async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const redis = await redisServer(t);
    const lasting = testKey('lasting');
    const file = keysFile(t, [lasting]);
    const config = {
      workers,
      operations: {
        host: '127.0.0.1',
        port: 0,
        tokens: [{ name: 'ana', role: 'admin', sha256: hash('sha256', token) }],
      },
      cache: { redis: { url: redis.url, timeout: '5s' } },
      access: { keys: { file: file.path, redis: source === 'redis' }, plans: { free: {} } },
    };
    // Of replicas that share a file, the others read it by their own watch, within about a second; two that share Redis are
    // in keys-api.test.ts.
    const count = isLong && source === 'redis' ? 2 : 1;
    const replicas: GatewayProcess[] = [];
    for (let index = 0; index < count; index += 1) replicas.push(await gatewayProcess(t, { full: [node], config }));
    const [first] = replicas;
    assert.ok(first !== undefined);
    for (const replica of replicas) await msUntil(replica, lasting.text, 200);
    const stop = askSteadily(t, replicas, lasting.text);
    let keys = 0;
    const delaysMs: number[] = [];
    const callsMs: number[] = [];
    const timed = async (call: () => Promise<Reply>, status: number): Promise<Reply> => {
      const startedMs = performance.now();
      const reply = await call();
      callsMs.push(performance.now() - startedMs);
      assert.equal(reply.status, status, reply.text);
      return reply;
    };
    const everywhere = async (key: string, status: number): Promise<void> => {
      const ms = await Promise.all(replicas.map((replica) => msUntil(replica, key, status)));
      delaysMs.push(...ms);
    };

    const endMs = performance.now() + seconds * 1_000;
    for (; performance.now() < endMs || keys < 3; keys += 1) {
      const at = replicas[keys % replicas.length] ?? first;
      const name = `key-${keys}`;
      const made = await timed(() => askKeys(at, 'POST', '', { name, plan: 'free', tenant: 'acme' }, operator), 201);
      const { key } = JSON.parse(made.text) as { readonly key: string };
      await everywhere(key, 200);
      await timed(() => askKeys(at, 'PATCH', `/${name}`, { tenant: 'beta' }, operator), 200);
      await timed(() => askKeys(at, 'DELETE', `/${name}`, undefined, operator), 200);
      await everywhere(key, 401);
    }
    const { statuses, perSecond } = await stop();

    assert.deepEqual([...statuses.keys()], [200], 'another client was refused');
    const slowest = Math.max(...delaysMs);
    const told = `${keys} keys, ${Math.round(perSecond)} requests a second; in force at most ${Math.round(slowest)} ms after the answer, which took at most ${Math.round(Math.max(...callsMs))} ms`;
    t.diagnostic(told);
    if (isLong) assert.ok(perSecond >= rate * 0.9, told);
    assert.ok(slowest <= inForceMs, told);
  });
}
