/** Number of pods, autoscaler and disruption budget fit together. */
import assert from 'node:assert/strict';
import { readFileSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { parse } from 'yaml';
import { drainDelayMs } from '../../src/commands/run-gateway.ts';
import { drainMs } from '../../src/gateway/serving.ts';
import { allHeldBytes } from '../../src/proxy/http/bodies.ts';
import { targetCacheBytes } from '../../src/proxy/http/target-cache.ts';
import { moduleBytes } from '../../src/proxy/routes/module-source.ts';
import { answerBounds } from '../../src/upstream/byte-budget.ts';
import { exitMs } from '../../src/workers/worker-pool.ts';
import { slackMs } from '../../src/workers/workers.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { gatewayProcess } from '../support/gateway-process.ts';
import { fetchReply } from '../support/gateway.ts';
import { chartFolder, container, matrix, only, own, refusal, render, withoutHelm } from '../support/helm.ts';
import { testKey } from '../support/keys.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const skip = withoutHelm();
const kinds = (values: unknown) => render({ values }).map(({ kind }) => kind);

test('two pods by default, one of which may be away; none is ended before another is ready', { skip }, () => {
  const objects = render();
  const { spec } = only(objects, 'Deployment');

  assert.equal(spec.replicas, 2);
  assert.deepEqual(spec.strategy.rollingUpdate, { maxSurge: 1, maxUnavailable: 0 });
  assert.equal(only(objects, 'PodDisruptionBudget').spec.maxUnavailable, 1);
});

test('with an autoscaler the Deployment has no replica count, and the autoscaler targets it', { skip }, () => {
  const objects = render({ ci: 'full' });
  const { spec } = only(objects, 'HorizontalPodAutoscaler');

  assert.equal(only(objects, 'Deployment').spec.replicas, undefined);
  assert.deepEqual(spec.scaleTargetRef, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    name: own(objects, 'Service').metadata.name,
  });
  assert.deepEqual(
    spec.metrics.map((metric: { type: string }) => metric.type),
    ['ContainerResource', 'Pods'],
  );
});

test('one pod has no disruption budget: it would allow all or block the drain of its machine', { skip }, () => {
  assert.ok(kinds({}).includes('PodDisruptionBudget'));
  assert.ok(!kinds({ replicaCount: 1 }).includes('PodDisruptionBudget'));
  const autoscaling = { enabled: true, minReplicas: 2 };
  assert.ok(kinds({ replicaCount: 1, autoscaling }).includes('PodDisruptionBudget'));
});

const refused: Readonly<Record<string, readonly [unknown, RegExp]>> = {
  'a budget that lets no pod go': [{ podDisruptionBudget: { minAvailable: 2 } }, /none could ever be moved/],
  'a budget of all': [{ podDisruptionBudget: { minAvailable: '100%' } }, /none could ever be moved/],
  'a budget of none': [{ podDisruptionBudget: { maxUnavailable: 0 } }, /no pod could ever be moved/],
  'a budget above the least of the autoscaler': [
    { replicaCount: 9, podDisruptionBudget: { minAvailable: 3 }, autoscaling: { enabled: true, minReplicas: 3 } },
    /minAvailable is 3 of at least 3 pods/,
  ],
  'an autoscaler with more than the most': [
    { autoscaling: { enabled: true, minReplicas: 5, maxReplicas: 4 } },
    /maxReplicas \(4\) is less than autoscaling.minReplicas \(5\)/,
  ],
  'an autoscaler with nothing to go by': [{ autoscaling: { enabled: true, cpuUtilization: 0 } }, /nothing to go by/],
  'utilisation of nothing': [
    { autoscaling: { enabled: true }, resources: { requests: { cpu: null } } },
    /relative to resources.requests.cpu, which is not set/,
  ],
};

for (const [what, [values, message]] of Object.entries(refused)) {
  test(`${what} is refused`, { skip }, () => {
    assert.match(refusal({ values }), message);
  });
}

test('pods are spread over zones and machines, those of one revision among themselves', { skip }, () => {
  const { template, selector } = only(render(), 'Deployment').spec;
  const constraints: { topologyKey: string; matchLabelKeys: string[]; labelSelector: unknown }[] =
    template.spec.topologySpreadConstraints;

  assert.deepEqual(
    constraints.map(({ topologyKey }) => topologyKey),
    ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'],
  );
  for (const { labelSelector, matchLabelKeys } of constraints) {
    assert.deepEqual(labelSelector, selector);
    assert.deepEqual(matchLabelKeys, ['pod-template-hash']);
  }
});

// Reserves of a pod's memory: the chart's figures are those of the sources.

const mebi = 2 ** 20;
const perConnection = 35_000;
const processMiB = 192;
const workingMiB = 208;
const idleMiB = 64;
/** The cache, and an eighth of it. */
const pagesOfFollower = 9 / 8;

function heapMiB(values: unknown, ci?: string): number | undefined {
  const env: { name: string; value?: string }[] = container(render({ values, ci })).env ?? [];
  const options = env.find(({ name }) => name === 'NODE_OPTIONS')?.value ?? '';
  const found = /--max-old-space-size=(\d+)/.exec(options)?.[1];
  return found === undefined ? undefined : Number(found);
}

interface Case {
  readonly limit: string;
  readonly limitMiB: number;
  readonly cacheMiB: number;
  readonly workers: number;
  readonly connections: number;
}

const cases: readonly Case[] = [
  { limit: '2Gi', limitMiB: 2048, cacheMiB: 256, workers: 1, connections: 10_000 },
  { limit: '2500M', limitMiB: 2_500_000_000 / mebi, cacheMiB: 300, workers: 1, connections: 10_000 },
  { limit: '4294967296', limitMiB: 4096, cacheMiB: 1024, workers: 1, connections: 1 },
  { limit: '6Gi', limitMiB: 6144, cacheMiB: 1024, workers: 2, connections: 20_000 },
  { limit: '7.5Gi', limitMiB: 7680, cacheMiB: 512, workers: 4, connections: 40_000 },
];

for (const { limit, limitMiB, cacheMiB, workers, connections } of cases) {
  test(`${limit} for ${workers} worker(s), ${cacheMiB} MiB of cache, ${connections} connections`, { skip }, () => {
    const config = {
      workers,
      cache: { memory: { maxBytes: `${cacheMiB}MiB` } },
      listen: { maxConnections: connections },
    };

    const heap = heapMiB({ config, resources: { limits: { memory: limit } } });

    const others = workers === 1 ? 0 : 1;
    const beside =
      cacheMiB * pagesOfFollower +
      (allHeldBytes + answerBounds.all + connections * perConnection) / mebi +
      processMiB * (workers + others) +
      idleMiB * others;
    assert.equal(heap, Math.floor((limitMiB - beside) / workers));
    assert.ok(heap >= cacheMiB / workers + workingMiB);
  });
}

for (const name of matrix) {
  test(`${name} values: all heaps together are below the limit of memory`, { skip }, () => {
    const objects = render({ ci: name });
    const config = parse(objects.find(({ data }) => data?.['ledgergate.yaml'])?.data?.['ledgergate.yaml'] ?? '');
    const limit = String(container(objects).resources?.limits?.memory ?? '1024Gi');
    const unit = { Gi: 1024, Mi: 1, M: 1e6 / mebi }[limit.replace(/^[\d.]+/, '')] ?? 0;
    const workers = config.workers === 'auto' ? 4 : (config.workers ?? 1);

    const heap = heapMiB({}, name) ?? Number.NaN;

    assert.ok(heap >= workingMiB && heap * workers < Number.parseFloat(limit) * unit, `${heap} of ${limit}`);
  });
}

test('a limit that cannot hold the cache is refused, and the least that can is taken', { skip }, () => {
  const config = { cache: { memory: { maxBytes: '4GiB' } } };

  const message = refusal({ values: { config, resources: { limits: { memory: '4Gi' } } } });

  const least = Number(/at least (\d+)Mi are needed/.exec(message)?.[1]);
  assert.match(message, /^resources.limits.memory is 4Gi.*cache 4096.*lower config.cache.memory.maxBytes/);
  const at = (memory: number) => ({ config, resources: { limits: { memory: `${memory}Mi` } } });
  assert.equal(heapMiB(at(least)), 4096 + workingMiB);
  assert.match(refusal({ values: at(least - 1) }), /at least/);
});

test('the heap may be given, but not beyond what the limit leaves; without a limit it has to be', { skip }, () => {
  assert.equal(heapMiB({ memory: { heapMiB: 500 } }), 500);
  assert.match(refusal({ values: { memory: { heapMiB: 1500 } } }), /memory.heapMiB is 1500, and .* leaves \d+/);
  assert.equal(heapMiB({ resources: { limits: null } }), undefined);
  assert.equal(heapMiB({ resources: { limits: null }, memory: { heapMiB: 900 } }), 900);
});

function autoValues(cpu?: string | number) {
  return {
    config: { workers: 'auto' },
    resources: { limits: { memory: '8Gi', ...(cpu === undefined ? {} : { cpu }) } },
  };
}

test('workers: auto needs a limit of processors, and counts a part of one as one', { skip }, () => {
  const fixed = (workers: number) => heapMiB({ config: { workers }, resources: { limits: { memory: '8Gi' } } });

  assert.match(refusal({ values: autoValues() }), /set resources.limits.cpu as well/);
  assert.equal(heapMiB(autoValues('2500m')), fixed(3));
  assert.equal(heapMiB(autoValues(2)), fixed(2));
  assert.equal(heapMiB(autoValues('0.5')), fixed(1));
});

function refusalOf(config: object): string {
  return refusal({ values: { config } });
}

test('variables where a number is needed are refused', { skip }, () => {
  assert.match(refusalOf({ cache: { memory: { maxBytes: '${BYTES}' } } }), /maxBytes is \$\{BYTES\}: say the number/);
  assert.match(refusalOf({ workers: '${WORKERS}' }), /workers is \$\{WORKERS\}: say the number/);
  assert.match(refusalOf({ listen: { maxConnections: '${MAX}' } }), /maxConnections is \$\{MAX\}: say the number/);
});

test('the figures that the chart reckons with are those of the sources and of the benchmark', { skip }, () => {
  const values = parse(readFileSync(`${chartFolder}/values.yaml`, 'utf8'));
  const results = readFileSync(new URL('../../bench/RESULTS.md', import.meta.url), 'utf8');

  assert.equal(values.memory.inFlightMiB, (allHeldBytes + answerBounds.all) / mebi);
  assert.equal(values.memory.processMiB, processMiB);
  assert.equal((targetCacheBytes + moduleBytes) / mebi + 80, workingMiB);
  assert.match(results, new RegExp(`needs ${perConnection / 1000} kB for each connection it allows`));
});

test('the requested memory is no less than the least limit', { skip }, () => {
  const least = Number(/at least (\d+)Mi/.exec(refusal({ values: { resources: { limits: { memory: '1Gi' } } } }))?.[1]);
  const requested = String(container(render({})).resources?.requests?.memory);

  assert.match(requested, /^\d+Mi$/);
  assert.ok(parseInt(requested, 10) >= least, `${requested} beside ${least}Mi`);
});

// A pod is given the time that the gateway takes to end, whatever it is set to.

const alone = (drainDelayMs + drainMs) / 1000;
const withWorkers = (drainDelayMs + drainMs + slackMs + exitMs) / 1000;

function graceOf(values: unknown, ci?: string): number {
  return only(render({ values, ci }), 'Deployment').spec.template.spec.terminationGracePeriodSeconds;
}

test('the grace is preStop, the drain, and 3 s; with workers the primary waits for longer', { skip }, () => {
  const workers = { workers: 2, cache: { memory: { maxBytes: '64MiB' } }, listen: { maxConnections: 1000 } };
  const resources = { limits: { memory: '4Gi' } };

  assert.equal(graceOf({}), 5 + alone + 3);
  assert.equal(graceOf({ shutdown: { preStopSeconds: 0 } }), alone + 3);
  assert.equal(graceOf({ config: workers, resources }), 5 + withWorkers + 3);
});

function shutdown(terminationGracePeriodSeconds: number) {
  return { shutdown: { preStopSeconds: 7, terminationGracePeriodSeconds } };
}

test('a grace that would cut answers off is refused, to the second', { skip }, () => {
  assert.match(refusal({ values: shutdown(7 + alone - 1) }), new RegExp(`at least ${7 + alone}$`));
  assert.equal(graceOf(shutdown(7 + alone)), 7 + alone);
});

for (const name of matrix) {
  test(`${name} values: the grace holds preStop and drain`, { skip }, () => {
    const preStop = container(render({ ci: name })).lifecycle?.preStop.sleep.seconds ?? 0;

    assert.ok(graceOf({}, name) >= preStop + (['full', 'workers'].includes(name) ? withWorkers : alone));
  });
}

function preStopOf(version: string, preStopSeconds = 4) {
  const objects = render({ values: { shutdown: { preStopSeconds } }, args: ['--kube-version', version] });
  return container(objects).lifecycle?.preStop;
}

test('preStop sleeps by itself where Kubernetes can, by Node where not, and is left out at 0', { skip }, () => {
  assert.deepEqual(preStopOf('1.30.0'), { sleep: { seconds: 4 } });
  assert.deepEqual(preStopOf('1.29.9').exec.command, ['/nodejs/bin/node', '-e', 'setTimeout(() => {}, 4000)']);
  assert.equal(preStopOf('1.30.0', 0), undefined);
});

test('readiness is looked at often enough to be seen before the gateway stops listening', { skip }, () => {
  const { readinessProbe, startupProbe, livenessProbe } = container(render());

  assert.ok(readinessProbe.periodSeconds * 1000 <= drainDelayMs);
  assert.deepEqual(
    [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => `${httpGet.port} ${httpGet.path}`),
    ['operations /livez', 'operations /livez', 'operations /readyz'],
  );
});

// The gateway of the chart's pod: its config with the folders of Secrets as kubelet mounts them.

const skipPod = withoutHelm() || noRedis;

/** Replaces a Secret as kubelet does: a new folder, and a link that leads to it from one moment to the next. */
function mount(folder: string, version: number, files: Readonly<Record<string, string>>): void {
  const data = `..${version}`;
  mkdirSync(join(folder, data), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, data, name), text);
  symlinkSync(data, join(folder, '..next'));
  renameSync(join(folder, '..next'), join(folder, '..data'));
  if (version > 1) return;
  for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(folder, name));
}

async function providerPod(t: TestContext) {
  const etc = temporaryFolder(t);
  const node = await fakeNode(t, { dialect: 'aptos', head: 900n });
  const [answers, counts] = [await redisServer(t), await redisServer(t)];
  const key = testKey('acme', { plan: 'paid' });
  const { sha256, ...entry } = key.entry;
  await counts.run((client) => client.hset('lg:access:keys', String(sha256), JSON.stringify(entry)));
  mount(join(etc, 'operations'), 1, { token: 'the-first-token-of-operations\n' });
  mount(join(etc, 'redis'), 1, { url: answers.url });
  mount(join(etc, 'access-redis'), 1, { url: counts.url });
  mount(join(etc, 'secrets/node-a'), 1, { token: 'first-token' });
  const url = '${file:/etc/ledgergate/secrets/node-a/token}';
  const upstreams = [{ name: 'a', url: node.url, headers: { Authorization: `Bearer ${url}` } }];
  const access = {
    keys: { redis: true },
    plans: { paid: { requests: 1_000, quota: { day: 1_000 } } },
  };
  const objects = render({
    values: {
      config: { dialect: 'aptos', upstreams, access },
      secrets: {
        operationsToken: { existingSecret: 'operations' },
        redis: { existingSecret: 'answers' },
        accessRedis: { existingSecret: 'counts' },
        files: ['node-a'],
      },
    },
  });
  const file = join(etc, 'config/ledgergate.yaml');
  mkdirSync(dirname(file));
  const text = own(objects, 'ConfigMap').data?.['ledgergate.yaml'] ?? '';
  writeFileSync(file, text.replaceAll('/etc/ledgergate', etc).replaceAll('/var/cache/ledgergate', etc));
  const gateway = await gatewayProcess(t, { full: [node], file, env: { LEDGERGATE_OPERATIONS_PORT: '0' } });
  return { etc, node, answers, counts, key, gateway };
}

test('the pod of a provider serves a key of its Redis, and follows its Secrets', { skip: skipPod }, async (t) => {
  const { etc, node, answers, counts, key, gateway } = await providerPod(t);
  let version = 0;
  const read = () => {
    version += 1;
    const headers = { authorization: `Bearer ${key.text}` };
    return fetchReply(`${gateway.url}/accounts/0x1/module/coin?ledger_version=${version}`, { method: 'GET', headers });
  };
  const admin = async (token: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}` };
    return (await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET', headers })).status;
  };

  await until(async () => (await read()).status === 200);
  assert.ok((await counts.run((client) => client.keys('lg:limits:*'))).length > 0);
  await until(async () => (await answers.run((client) => client.keys('lg:1:*'))).length > 0);
  assert.equal(await admin('the-first-token-of-operations'), 200);

  mount(join(etc, 'operations'), 2, { token: 'the-second-token-of-operations\n' });
  mount(join(etc, 'secrets/node-a'), 2, { token: 'second-token' });

  await until(async () => (await admin('the-second-token-of-operations')) === 200);
  assert.equal(await admin('the-first-token-of-operations'), 401);
  const newest = () => node.log.received.at(-1)?.headers['authorization'];
  await until(async () => (await read()).status === 200 && newest() === 'Bearer second-token');
});
