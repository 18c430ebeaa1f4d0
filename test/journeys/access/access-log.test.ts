/** The access log: the requests that get a line, its fields, and changes while the gateway runs. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { PlanLimits } from '../../../src/access/limits/limits.ts';
import type { Config } from '../../../src/config/config.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { type LogLine, nodeAndGateway, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { askLog, changesLog } from '../../support/log-changes.ts';
import { statusOf } from '../../support/status.ts';

interface Scene {
  readonly node: FakeNode;
  readonly gateway: TestGateway;
  /** The lines of requests so far. */
  readonly lines: readonly LogLine[];
}

async function scene(t: TestContext, access: Partial<Config['log']['access']>): Promise<Scene> {
  const node = await fakeNode(t);
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node],
    config: { log: { access: { share: 0, slowMs: 2_000, failed: true, ...access } } },
    onLog: (line) => void (line['msg'] === 'answered' && lines.push(line)),
  });
  return { node, gateway, lines };
}

test('a line has route, outcome, node, version, times and size', async (t) => {
  const { gateway, lines } = await scene(t, { share: 1 });

  const { body } = await gateway.get(probeAt(7));
  await gateway.get(probeAt(7));

  const [miss, hit] = lines;
  const { seconds, upstreamMs, level, time: _time, pid: _pid, hostname: _hostname, msg: _msg, ...told } = miss ?? {};
  assert.deepEqual(told, {
    route: 'resource',
    method: 'GET',
    status: 200,
    outcome: 'miss',
    upstream: 'full-0',
    version: '7',
    bytes: body.length,
  });
  assert.equal(level, 30);
  assert.ok(Number(upstreamMs) > 0 && Number(seconds) * 1_000 >= Number(upstreamMs));
  assert.deepEqual([hit?.['outcome'], hit?.['upstream'], hit?.['upstreamMs']], ['memory', undefined, 0]);
});

test('without a share, requests that went well and fast get none', async (t) => {
  const { gateway, lines } = await scene(t, {});
  for (let index = 0; index < 50; index += 1) await gateway.get(probeAt(index % 5));
  await gateway.get(probeAt(7).replace('version=7', 'version=x'));
  assert.deepEqual(lines, []);
});

test('a share of all is about that share', async (t) => {
  const { gateway, lines } = await scene(t, { share: 0.5 });
  for (let index = 0; index < 200; index += 1) await gateway.get(probeAt(7));
  assert.ok(lines.length > 50 && lines.length < 150, `${lines.length} of 200`);
});

test('a request that is slow gets one', async (t) => {
  const { node, gateway, lines } = await scene(t, { slowMs: 50 });
  node.fault = { kind: 'latency', ms: 80 };
  await gateway.get(probeAt(7));
  node.fault = undefined;
  await gateway.get(probeAt(7));
  assert.deepEqual(
    lines.map(({ outcome }) => outcome),
    ['miss'],
  );
});

test('requests that fail get one, until there are too many: those are counted', async (t) => {
  const { node, gateway, lines } = await scene(t, {});
  await node.close();

  const startedMs = performance.now();
  await Promise.all(Array.from({ length: 400 }, (_, index) => gateway.get(probeAt(index))));

  const most = 100 + Math.ceil(((performance.now() - startedMs) / 1_000) * 50);
  assert.ok(lines.length >= 100 && lines.length <= most, `${lines.length} lines`);
  assert.ok(lines.every(({ status, outcome }) => status === 503 && outcome === 'failed'));
  assert.equal(await gateway.metric('ledgergate_access_log_dropped_total'), 400 - lines.length);
});

test('a 503 has its reason, the node asked last and the number of attempts, and no address', async (t) => {
  const { node, gateway, lines } = await scene(t, {});
  node.fault = { kind: 'reset' };
  assert.equal((await gateway.get(probeAt(7))).status, 503);
  const { reason, attempts, upstream } = lines.at(-1) ?? {};
  assert.deepEqual({ reason, upstream }, { reason: 'nodes failed', upstream: 'full-0' });
  assert.ok(Number(attempts) >= 1);

  // A refused connection, whose error names the address.
  await node.close();
  assert.equal((await gateway.get(probeAt(8))).status, 503);
  assert.partialDeepStrictEqual(lines.at(-1), { reason: 'nodes failed', upstream: 'full-0' });
  assert.doesNotMatch(JSON.stringify(lines), /127\.0\.0\.1/);
});

test('a 503 without an attempt has a reason alone', async (t) => {
  const [node, other] = [await fakeNode(t, { chainId: 4 }), await fakeNode(t, { chainId: 4 })];
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node, other],
    config: { chainId: 5, log: { access: { share: 0, slowMs: 2_000, failed: true } } },
    onLog: (line) => void (line['msg'] === 'answered' && lines.push(line)),
  });

  assert.equal((await gateway.get(probeAt(7))).status, 503);

  const { reason, attempts, upstream } = lines[0] ?? {};
  assert.deepEqual({ reason, attempts, upstream }, { reason: 'other chain', attempts: undefined, upstream: undefined });
});

test('a client that hung up is no success: not in the line, not in metrics, not on the status page', async (t) => {
  const { node, gateway, lines } = await scene(t, { share: 1 });
  node.fault = { kind: 'hang' };
  const asked = node.log.next();
  const abort = new AbortController();
  const hangingUp = fetch(gateway.url + probeAt(7), { signal: abort.signal });
  await asked;
  abort.abort();
  await assert.rejects(hangingUp);
  await until(() => Promise.resolve(lines.length > 0));
  assert.partialDeepStrictEqual(lines[0], { status: 499, outcome: 'refused' });
  const counted = (status: number) =>
    gateway.metric(`ledgergate_http_requests_total{route="resource",status="${status}"}`);
  assert.deepEqual([await counted(499), await counted(200)], [1, 0]);
  const took = 'ledgergate_http_request_duration_seconds_count';
  assert.equal(await gateway.metric(`${took}{route="resource",outcome="refused"}`), 1);
  const { windows } = await statusOf(gateway);
  assert.deepEqual(
    windows[0]?.outcomes.map(({ outcome }) => outcome),
    ['refused'],
  );
});

test('an operator changes what a process logs, until the config is read again', async (t) => {
  const lines: LogLine[] = [];
  const { gateway } = await nodeAndGateway(t, {
    config: { log: { level: 'info', access: { share: 0, slowMs: 2_000, failed: true } } },
    onLog: (line) => lines.push(line),
  });
  const answered = () => lines.filter(({ msg }) => msg === 'answered').length;
  const { operationsUrl, reloads } = gateway;
  const ask = () => gateway.get(probeAt(7));
  await changesLog({ operationsUrl, ask, answered, reload: () => reloads.take(reloads.config) }, 1);
});

test('an invalid setting is refused by name, and changes nothing', async (t) => {
  const { gateway } = await scene(t, {});
  const before = (await askLog(gateway.operationsUrl)).body;
  const wrong: readonly (readonly [change: unknown, words: RegExp])[] = [
    [{ level: 'loud' }, /^level: /],
    [{ access: { share: 2 } }, /^access\.share: expected a share from 0 to 1/],
    [{ access: { slow: 5 } }, /^access\.slow: expected a duration with a unit/],
    [{ access: { paths: true } }, /paths/],
    [[], /^the body: /],
  ];
  for (const [change, words] of wrong) {
    const { status, body } = await askLog(gateway.operationsUrl, change);
    assert.equal(status, 400);
    assert.match((body as unknown as { readonly message: string }).message, words);
  }
  assert.deepEqual((await askLog(gateway.operationsUrl)).body, before);
});

test("tenant and plan are logged, and an exception's place without its message", async (t) => {
  const node = await fakeNode(t);
  const key = testKey('wallet-a', { tenant: 'acme' });
  const lines: LogLine[] = [];
  const access = accessConfig({ keys: { file: keysFile(t, [key]).path, redis: false } });
  const gateway = await testGateway(t, { full: [node], access, onLog: (line) => void lines.push(line) });
  const ask = () => gateway.get(probeAt(7), { authorization: `Bearer ${key.text}` });

  assert.equal((await ask()).status, 200);
  t.mock.method(PlanLimits.prototype, 'admit', () => {
    throw new RangeError(`never said: ${probeAt(7)}`);
  });
  for (let index = 0; index < 30; index += 1) assert.equal((await ask()).status, 500);

  const line = lines.find(({ msg }) => msg === 'answered');
  assert.deepEqual([line?.['tenant'], line?.['plan']], ['acme', 'free']);
  const faults = lines.filter(({ msg }) => msg === 'a fault of the gateway');
  assert.ok(faults.length >= 10 && faults.length < 20, `${faults.length} lines`);
  assert.deepEqual([faults[0]?.['level'], faults[0]?.['name']], [50, 'RangeError']);
  assert.match(String(faults[0]?.['at']), /access-log\.test\.ts:\d+/);
  assert.doesNotMatch(JSON.stringify(lines), new RegExp(`never said|${key.text}`));
});
