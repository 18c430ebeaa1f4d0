import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { Counter, Gauge, Histogram, combinations, familiesOf, type Sample } from '../../src/metrics/family.ts';

const options = { name: 'things_total', help: 'Things.' };

async function samplesOf(registry: Registry): Promise<readonly Sample[]> {
  return (await familiesOf(registry)).flatMap(({ values }) => values);
}

test('a counter with closed labels has every series at 0 before anything is counted', async () => {
  const registry = new Registry();
  const counter = new Counter(registry, { ...options, labels: { colour: ['red', 'blue'], size: ['s'] } });
  counter.inc({ colour: 'red', size: 's' }, 2);

  assert.deepEqual(await samplesOf(registry), [
    { labels: { colour: 'red', size: 's' }, value: 2 },
    { labels: { colour: 'blue', size: 's' }, value: 0 },
  ]);
});

test('series of open labels exist as soon as `known` lists them, and end when they are removed', async () => {
  const registry = new Registry();
  const labels = { node: 'names', kind: ['a', 'b'] } as const;
  let nodes = ['one'];
  const known = () => nodes.flatMap((node) => combinations(labels, { node }));
  const counter = new Counter(registry, { ...options, labels, known });
  const read = async () =>
    (await samplesOf(registry)).map(({ labels, value }) => [labels['node'], labels['kind'], value]);

  assert.deepEqual(await read(), [
    ['one', 'a', 0],
    ['one', 'b', 0],
  ]);
  counter.inc({ node: 'two', kind: 'b' });
  counter.inc({ node: 'one', kind: 'a' });
  nodes = [];
  counter.remove(({ node }) => node === 'one');
  assert.deepEqual(await read(), [['two', 'b', 1]]);
  counter.inc({ node: 'one', kind: 'a' });
  assert.deepEqual(await read(), [
    ['two', 'b', 1],
    ['one', 'a', 1],
  ]);
});

test('a gauge is read at each scrape, and `undefined` has no series', async () => {
  const registry = new Registry();
  let level: bigint | undefined = 2n ** 53n;
  new Gauge(registry, { name: 'level', help: 'Level.', join: 'max', read: () => level });
  new Gauge(registry, {
    name: 'levels',
    help: 'Levels.',
    labels: { of: 'names' },
    read: () => [
      [{ of: 'a' }, 1],
      [{ of: 'b' }, undefined],
    ],
  });

  assert.deepEqual(await samplesOf(registry), [
    { labels: {}, value: 2 ** 53 },
    { labels: { of: 'a' }, value: 1 },
  ]);
  level = undefined;
  assert.deepEqual(await samplesOf(registry), [{ labels: { of: 'a' }, value: 1 }]);
});

test('buckets of a histogram are added up; a value on a bound is below it', async () => {
  const registry = new Registry();
  const times = new Histogram(registry, { name: 'times', help: 'Times.', labels: { of: ['a'] }, buckets: [1, 2] });
  for (const value of [0.5, 1, 1.5, 2, 100]) times.of({ of: 'a' }).observe(value);

  const read = (await samplesOf(registry)).map(({ metricName, labels, value }) => [metricName, labels['le'], value]);
  assert.deepEqual(read, [
    ['times_bucket', 1, 2],
    ['times_bucket', 2, 4],
    ['times_bucket', '+Inf', 5],
    ['times_sum', undefined, 105],
    ['times_count', undefined, 5],
  ]);
});

test('a histogram without labels is there from the start, one with labels when something is observed', async () => {
  const registry = new Registry();
  new Histogram(registry, { name: 'all', help: 'All.', buckets: [1] });
  new Histogram(registry, { name: 'some', help: 'Some.', labels: { of: ['a'] }, buckets: [1] });

  const families = await familiesOf(registry);
  assert.deepEqual(
    families.map(({ name, values }) => [name, values.length]),
    [
      ['all', 4],
      ['some', 0],
    ],
  );
});

test('a bucket keeps the trace of its last traced observation', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 5_000 });
  const registry = new Registry();
  const times = new Histogram(registry, { name: 'times', help: 'Times.', buckets: [1, 2] }).of({});
  times.observe(0.5, { traceId: 'early', spanId: 's' });
  times.observe(0.7, { traceId: 'late', spanId: 's' });
  times.observe(0.9);
  times.observe(7, { traceId: 'slow', spanId: 's' });

  assert.deepEqual(
    (await samplesOf(registry)).map(({ exemplar }) => exemplar),
    [
      { labels: { trace_id: 'late', span_id: 's' }, value: 0.7, timestamp: 5 },
      undefined,
      { labels: { trace_id: 'slow', span_id: 's' }, value: 7, timestamp: 5 },
      undefined,
      undefined,
    ],
  );
});
