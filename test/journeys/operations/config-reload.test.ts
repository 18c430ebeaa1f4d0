/** A config file that changes while gateways serve: real processes, on real files. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Crowd } from '../../support/crowd.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type ConfigSections, type GatewayProcess } from '../../support/gateway-process.ts';
import { probe, probeAt } from '../../support/gateway.ts';
import { watchStalls } from '../../support/stalls.ts';
import { encodeRequest, submission } from '../../support/submission.ts';
import { get, metric, noWorker } from '../../support/workers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const transfer = encodeRequest('0x1::coin::transfer', ['0x2', '1'], ['0x1::aptos_coin::AptosCoin']);
const json = { 'content-type': 'application/json' };

interface Ready {
  readonly status: string;
  readonly upstreams: readonly { readonly name: string; readonly state: string; readonly usableBy?: number }[];
  readonly reload?: { readonly at: string; readonly result: string; readonly needsRestart: readonly string[] };
}

const head = 10_000_000n;
const upstream = (name: string, { url }: FakeNode, tier = 'full') => ({ name, url, tier });
const reloads = (result: string): string => `ledgergate_config_reloads_total{result="${result}"}`;
const plans = (requests: number) => ({ anonymous: 'free', plans: { free: { requests, window: '60s' } } });

const node = await fakeNode({ after }, { head });

/** As Kubernetes mounts a ConfigMap: the file is a link into a folder that a link leads to, which is swapped. */
const folder = temporaryFolder({ after });
const mounted = join(folder, 'ledgergate.yaml');
function mount(name: string, sections: ConfigSections): void {
  const listen = { host: '127.0.0.1', port: 0 };
  mkdirSync(join(folder, name));
  const config = { listen, operations: listen, log: { level: 'error' }, ...sections };
  writeFileSync(join(folder, name, 'ledgergate.yaml'), JSON.stringify(config));
  symlinkSync(name, join(folder, '..data.new'));
  renameSync(join(folder, '..data.new'), join(folder, '..data'));
}
mount('..1', { upstreams: [upstream('a', node)], access: plans(3) });
symlinkSync(join('..data', 'ledgergate.yaml'), mounted);

/** For the tests, which use them one after the other: each begins with a config of its own. */
const [alone, pair] = await Promise.all([
  gatewayProcess({ after }, { full: [], file: mounted }),
  gatewayProcess({ after }, { full: [], config: { workers: 2, upstreams: [upstream('a', node)] } }),
]);
const both = [
  { workers: 1, gateway: alone, base: { access: plans(1_000_000) } },
  { workers: 2, gateway: pair, base: { workers: 2 } },
];

async function readiness({ operationsUrl }: GatewayProcess): Promise<Ready> {
  return JSON.parse((await get(`${operationsUrl}/readyz`)).text) as Ready;
}

/** Resolves when another config is in force, with the milliseconds since `change`. */
async function reloaded(gateway: GatewayProcess, change: () => void): Promise<{ ready: Ready; ms: number }> {
  const before = (await readiness(gateway)).reload?.at;
  const startedMs = performance.now();
  change();
  let ready = await readiness(gateway);
  await until(async () => {
    ready = await readiness(gateway);
    return ready.reload !== undefined && ready.reload.at !== before;
  });
  return { ready, ms: performance.now() - startedMs };
}

/** Puts a config in force at once, whether it differs or not. */
async function use(gateway: GatewayProcess, config: ConfigSections): Promise<void> {
  await reloaded(gateway, () => {
    gateway.reconfigure(config);
    gateway.hangUp();
  });
}

/** A config of the process that serves alone. */
const ofAlone = (sections: ConfigSections): ConfigSections => ({
  upstreams: [upstream('a', node)],
  access: plans(1_000_000),
  ...sections,
});

test('new limits are in force at once, and earlier requests still count', async (t) => {
  const statuses = async (count: number): Promise<readonly number[]> => {
    const answers: number[] = [];
    while (answers.length < count) answers.push((await get(alone.url)).status);
    return answers;
  };
  assert.deepEqual(await statuses(4), [200, 200, 200, 429]);

  const { ready, ms } = await reloaded(alone, () =>
    mount('..2', { upstreams: [upstream('a', node)], access: plans(5) }),
  );

  assert.deepEqual([ready.reload?.result, ready.reload?.needsRestart], ['applied', []]);
  assert.deepEqual(await statuses(3), [200, 200, 429]);
  t.diagnostic(`in force after ${Math.round(ms)} ms`);
});

test('mounted files of Kubernetes, links into a swapped folder, are reloaded', async (t) => {
  const other = await fakeNode(t, { head });
  const access = plans(1_000_000);

  const { ready } = await reloaded(alone, () => mount('..3', { upstreams: [upstream('two', other)], access }));

  assert.deepEqual(
    ready.upstreams.map(({ name }) => name),
    ['two'],
  );
  rmSync(join(folder, '..2'), { recursive: true });
  // A file that is gone changes nothing, and is taken when it is back.
  rmSync(mounted);
  assert.equal((await get(`${alone.url}${probeAt(5)}`)).status, 200);
  const back = await reloaded(alone, () => {
    mount('..4', { upstreams: [upstream('three', node)], access });
    symlinkSync(join('..data', 'ledgergate.yaml'), mounted);
  });
  assert.equal(back.ready.upstreams[0]?.name, 'three');
});

for (const { workers, gateway, base } of both) {
  test(`nodes are added, moved and removed under load, ${workers} worker(s): 0 failed requests`, async (t) => {
    const nodes = await Promise.all([1, 2, 3, 4].map(() => fakeNode(t, { head, keepRequests: 1 })));
    const [first, second, third, fourth] = nodes as [FakeNode, FakeNode, FakeNode, FakeNode];
    // Some reads are under way for longer than a reload takes.
    for (const node of nodes) node.faults.add({ kind: 'latency', ms: 400 }, { when: ({ url }) => url.endsWith('7') });
    const config = { ...base, upstreams: [upstream('a', first)], upstream: { hedge: false } };
    await use(gateway, config);
    const [applied = 0, printed] = [await metric(gateway, reloads('applied')), gateway.err().length];
    const crowds = [
      new Crowd(t, { url: gateway.url, clients: 8, from: 1_000_000 }),
      new Crowd(t, { url: gateway.url, clients: 3, from: 2_000_000, shortLived: true }),
    ];
    const served = () => Promise.all(crowds.map((crowd) => crowd.answer(30)));
    await served();

    const stalls = watchStalls(t);
    const times: number[] = [];
    const change = async (upstreams: readonly object[]): Promise<Ready> => {
      const { ready, ms } = await reloaded(gateway, () => gateway.reconfigure({ ...config, upstreams }));
      times.push(ms);
      await served();
      return ready;
    };
    await change([upstream('a', first), upstream('b', second)]);
    assert.ok(second.reads > 0, 'the added node is asked');
    await change([upstream('b', second)]);
    const before = first.reads;
    await served();
    assert.ok(first.reads <= before + 5, 'the removed node is not asked any more');
    // Its only node moves to another address, and then to another still, with another tier.
    await change([upstream('b', third)]);
    const last = await change([upstream('b', fourth, 'archival')]);
    await Promise.all(crowds.map((crowd) => crowd.end()));

    assert.deepEqual(
      crowds.flatMap(({ failed }) => failed),
      [],
    );
    stalls.judge(Math.max(...times) < 1_500, `${times.map(Math.round).join(', ')} ms`);
    t.diagnostic(
      `${crowds.map(({ answered }) => answered).join(' and ')} requests; in force after ${times.map(Math.round).join(', ')} ms`,
    );
    assert.deepEqual(
      last.upstreams.map(({ name, state, usableBy = 1 }) => [name, state, usableBy]),
      [['b', 'usable', workers]],
    );
    assert.ok(third.reads > 0 && fourth.reads > 0);
    assert.equal(await metric(gateway, reloads('applied')), applied + 4);
    assert.equal(await metric(gateway, 'ledgergate_upstream_usable{upstream="a"}'), undefined);
    // Its counts end when what it was sent is answered.
    await until(
      async () =>
        (await metric(gateway, 'ledgergate_upstream_requests_total{upstream="a",status="2xx"}')) === undefined,
    );
    assert.equal(gateway.err().slice(printed), '');
    // The nodes of this test end with it.
    await use(gateway, { ...base, upstreams: [upstream('a', node)] });
  });

  test(`nodes of which none answers, or all are of another chain, do not replace one that does, ${workers} worker(s)`, async (t) => {
    const foreign = await fakeNode(t, { head, chainId: 77 });
    const config = { ...base, upstreams: [upstream('a', node)], latest: { maxStaleness: '1h' } };
    await use(gateway, config);

    const kept = `${gateway.url}${probeAt(5)}`;
    await get(kept);

    for (const urls of [['http://127.0.0.1:9/v1'], [foreign.url, `${foreign.url}/`]]) {
      const upstreams = urls.map((url, index) => ({ name: `b${index}`, url }));
      const { ready } = await reloaded(gateway, () => gateway.reconfigure({ ...config, upstreams }));

      assert.equal(ready.reload?.result, 'refused');
      assert.deepEqual(
        ready.upstreams.map(({ name, state, usableBy = 1 }) => [name, state, usableBy]),
        [['a', 'usable', workers]],
      );
      const { status, headers } = await get(kept);
      assert.deepEqual([status, headers['x-node-chain-id']], [200, '1']);
      // Nor was anything forgotten for it.
      if (workers === 1) assert.match(headers['cache-status'] ?? '', /hit/);
    }
    await gateway.line(/none of the upstreams answers as a node of this chain/);
    assert.equal(foreign.requestsTo('resource'), 0);
  });
}

test('a removed node finishes its requests: a submission that may not be repeated, and a slow stream', async (t) => {
  const [leaving, staying] = [await fakeNode(t, { head }), await fakeNode(t, { head })];
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  await use(alone, ofAlone({ upstreams: [upstream('leaving', leaving)] }));
  const block = `${alone.url}/blocks/by_version/5?with_transactions=true&x=1`;
  const whole = (await get(block)).text;
  leaving.faults.add({ kind: 'hold', until: released }, { when: ({ url }) => url.endsWith('/transactions') });
  leaving.faults.add({ kind: 'slow body', chunkBytes: Math.ceil(whole.length / 40), everyMs: 100 });

  const submitted = fetch(`${alone.url}/transactions`, { method: 'POST', headers: json, body: submission() });
  const streamed = get(block);
  await until(() => leaving.requestsTo('submit') === 1);
  await reloaded(alone, () => alone.reconfigure(ofAlone({ upstreams: [upstream('staying', staying)] })));
  // Longer than anybody may wait for a place at the node: from then on only what is under way keeps it.
  await sleep(3_000);
  release();

  assert.equal((await submitted).status, 202);
  assert.equal((await streamed).text, whole);
  assert.deepEqual([leaving.requestsTo('submit'), staying.requestsTo('submit')], [1, 0]);
  assert.equal((await get(`${alone.url}${probeAt(9)}`)).status, 200);
  await use(alone, ofAlone({}));
});

test('new values are in force without a restart: staleness, log level, memory, encoder, token, outage', async () => {
  await use(alone, ofAlone({ latest: { maxStaleness: '1h' }, encode: { shadow: 0 } }));
  const latest = async () => (await get(`${alone.url}${probe}`)).headers['ledgergate-served-version'];
  const encoded = async (): Promise<number> => {
    await fetch(`${alone.url}/transactions/encode_submission`, { method: 'POST', headers: json, body: transfer });
    return node.requestsTo('encodeSubmission');
  };
  assert.equal(await encoded(), 0);
  const before = await latest();
  node.clock.advance(5n);
  assert.equal(await latest(), before);

  const { ready } = await reloaded(alone, () =>
    alone.reconfigure(
      ofAlone({
        latest: { maxStaleness: '0ms' },
        log: { level: 'info', access: { share: 1 } },
        operations: { host: '127.0.0.1', port: 0, token: 'a-new-token-of-some-length' },
        cache: { memory: { maxBytes: '1MiB' } },
        encode: { enabled: false },
      }),
    ),
  );

  assert.deepEqual([ready.reload?.result, ready.reload?.needsRestart], ['applied', []]);
  assert.equal(await latest(), String(node.clock.head));
  await alone.line(/"msg":"answered"/);
  const explain = `${alone.operationsUrl}/admin/explain?target=/v1`;
  assert.equal((await fetch(explain)).status, 401);
  const authorization = 'Bearer a-new-token-of-some-length';
  assert.notEqual((await fetch(explain, { headers: { authorization } })).status, 401);
  assert.equal(await encoded(), 1);
});

test('a broken file changes nothing and is logged once with its place; a repaired file is applied', async () => {
  await use(alone, ofAlone({ log: { level: 'warn' } }));
  const [refusals = 0, printed] = [await metric(alone, reloads('refused')), alone.err().length];

  const { ready } = await reloaded(alone, () => writeFileSync(alone.file, 'latest:\n  maxStaleness: 7\n'));

  assert.equal(ready.reload?.result, 'refused');
  await alone.line(/ledgergate\.yaml:2:17: latest\.maxStaleness: /);
  assert.equal((await get(`${alone.url}${probeAt(5)}`)).status, 200);
  // The same contents again are no news, but a signal wants an answer.
  writeFileSync(alone.file, 'latest:\n  maxStaleness: 7\n');
  await sleep(1_500);
  assert.equal(await metric(alone, reloads('refused')), refusals + 1);
  await reloaded(alone, () => alone.hangUp());
  assert.equal(await metric(alone, reloads('refused')), refusals + 2);
  const fixed = await reloaded(alone, () => alone.reconfigure(ofAlone({ log: { level: 'error' } })));
  assert.equal(fixed.ready.reload?.result, 'applied');
  assert.equal(
    alone
      .err()
      .slice(printed)
      .match(/the config is invalid/g)?.length,
    2,
  );
});

test('keys that take a restart are named, keep their value, and the others of the same file are applied', async () => {
  await use(alone, ofAlone({ log: { level: 'warn' } }));

  const { ready } = await reloaded(alone, () =>
    alone.reconfigure(
      ofAlone({ dialect: 'aptos', workers: 3, log: { level: 'info' }, latest: { maxStaleness: '1s' } }),
    ),
  );

  assert.deepEqual(ready.reload?.needsRestart, ['dialect', 'workers']);
  assert.equal(ready.reload.result, 'applied');
  await alone.line(/"needsRestart":\["dialect","workers"\]/);
  const { headers, status } = await get(`${alone.url}${probeAt(5)}`);
  assert.deepEqual([status, headers['x-aptos-chain-id'], headers['x-node-chain-id']], [200, undefined, '1']);
  // Still waiting: every time it is read.
  const again = await reloaded(alone, () => alone.hangUp());
  assert.deepEqual(
    [again.ready.reload?.result, again.ready.reload?.needsRestart],
    ['unchanged', ['dialect', 'workers']],
  );
});

test('a worker that is started after a reload gets the config that is in force', async (t) => {
  const two = await fakeNode(t, { head });
  const config = { workers: 2, dialect: 'aptos', upstreams: [upstream('two', two)], log: { level: 'silent' } };
  await reloaded(pair, () => pair.reconfigure(config));

  // Terminals and service managers send it to the whole group.
  for (const worker of pair.workers()) process.kill(worker, 'SIGHUP');
  await until(async () => (await readiness(pair)).upstreams[0]?.usableBy === 2);
  assert.equal(await metric(pair, 'ledgergate_worker_restarts_total'), 0);
  const [worker = noWorker()] = pair.workers();
  process.kill(worker, 'SIGKILL');
  await until(async () => (await metric(pair, 'ledgergate_worker_restarts_total')) === 1);
  await until(async () => (await metric(pair, 'ledgergate_workers')) === 2);

  const { upstreams } = await readiness(pair);
  assert.deepEqual(
    upstreams.map(({ name, usableBy }) => [name, usableBy]),
    [['two', 2]],
  );
  assert.equal((await get(`${pair.url}${probeAt(5)}`)).headers['x-node-chain-id'], '1');
});
