/** Reserves of a pod's memory: the chart's figures are those of the sources. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { moduleBytes } from '../../src/proxy/routes/module-source.ts';
import { allHeldBytes } from '../../src/proxy/http/bodies.ts';
import { targetCacheBytes } from '../../src/proxy/http/target-cache.ts';
import { answerBounds } from '../../src/upstream/byte-budget.ts';
import { parse } from 'yaml';
import { chartFolder, container, matrix, refusal, render, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();
const mebi = 2 ** 20;
const perConnection = 35_000;
const processMiB = 192;
const workingMiB = 208;
const idleMiB = 64;

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
      cacheMiB +
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
