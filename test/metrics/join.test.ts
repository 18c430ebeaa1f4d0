import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Registry } from 'prom-client';
import {
  Counter,
  Gauge,
  Histogram,
  familiesOf,
  type Exemplar,
  type FamilyData,
  type Join,
  type Sample,
} from '../../src/metrics/family.ts';
import { joinFamilies } from '../../src/metrics/join.ts';
import { WorkerMetrics } from '../../src/workers/workers.ts';

/** The families of a worker with this count and this level. */
async function countsAndLevel(count: number, level = 0): Promise<readonly FamilyData[]> {
  const registry = new Registry();
  new Counter(registry, { name: 'things_total', help: 'Things.', labels: { kind: ['a', 'b'] } }).inc(
    { kind: 'a' },
    count,
  );
  const times = new Histogram(registry, { name: 'times', help: 'Times.', buckets: [1] }).of({});
  for (let each = 0; each < count; each += 1) times.observe(each);
  new Gauge(registry, { name: 'level', help: 'Level.', read: () => level });
  return familiesOf(registry);
}

function valuesOf(families: readonly FamilyData[], wanted: string): readonly number[] {
  return families.filter(({ name }) => name === wanted).flatMap(({ values }) => values.map(({ value }) => value));
}

function levelOf(value: number, aggregator: Join): readonly FamilyData[] {
  return [{ name: 'level', help: 'Level.', type: 'gauge', aggregator, values: [{ labels: {}, value }] }];
}

/** One text for each series. */
function nameOf({ metricName, labels }: Sample): string {
  const names = Object.keys(labels).sort((one, other) => (one < other ? -1 : 1));
  return JSON.stringify([metricName, names.map((name) => [name, labels[name]])]);
}

function exemplar(trace: string, timestamp: number): Exemplar {
  return { labels: { trace_id: trace }, value: 1, timestamp };
}

for (const [join, expected] of [
  ['sum', [9]],
  ['min', [2]],
  ['max', [4]],
  ['first', [3]],
  ['average', [3]],
  ['omit', []],
] as const) {
  test(`gauges of workers are joined as they are declared: ${join}`, () => {
    const workers = [3, 2, 4].map((value) => levelOf(value, join));

    assert.deepEqual(valuesOf(joinFamilies(workers), 'level'), expected);
  });
}

test('labels in another order are the same series, and the newest exemplar of all workers is kept', () => {
  const of = (labels: Record<string, string>, trace: string, timestamp: number): FamilyData[] => [
    {
      name: 'times',
      help: 'Times.',
      type: 'histogram',
      aggregator: 'sum',
      values: [{ metricName: 'times_bucket', labels, value: 1, exemplar: exemplar(trace, timestamp) }],
    },
  ];

  const [joined] = joinFamilies([
    of({ le: '1', route: 'view' }, 'old', 10),
    of({ route: 'view', le: '1' }, 'new', 12),
    of({ route: 'view', le: '1' }, 'middle', 11),
  ]);

  assert.deepEqual(joined?.values, [
    { metricName: 'times_bucket', labels: { le: '1', route: 'view' }, value: 3, exemplar: exemplar('new', 12) },
  ]);
});

test('series that differ in anything stay apart, whatever their labels are', () => {
  const text = fc.constantFrom('', 'a', 'b', 'a\nb', ' ', '1');
  const sample = fc.record({
    metricName: fc.option(text, { nil: undefined }),
    labels: fc.dictionary(fc.constantFrom('a', 'b', 'c'), text),
    value: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(fc.array(sample, { maxLength: 20 }), { maxLength: 3 }), (workers) => {
      const families = workers.map(
        (values) => [{ name: 'n', help: 'N.', type: 'counter', aggregator: 'sum', values }] as const,
      );
      const sums = new Map<string, number>();
      for (const one of workers.flat()) sums.set(nameOf(one), (sums.get(nameOf(one)) ?? 0) + one.value);

      const joined = joinFamilies(families).flatMap(({ values }) => values);

      assert.deepEqual(
        joined.map((one) => [nameOf(one), one.value]),
        [...sums],
      );
    }),
  );
});

test('counts of a worker that is gone or silent stay in the sum, its gauges do not', async () => {
  const metrics = new WorkerMetrics(() => 2);
  await metrics.families(
    new Map([
      [1, await countsAndLevel(3, 5)],
      [2, await countsAndLevel(1, 7)],
    ]),
  );

  const withoutSecond = await metrics.families(new Map([[1, await countsAndLevel(4, 5)]]));
  assert.deepEqual(valuesOf(withoutSecond, 'things_total'), [5, 0]);
  assert.deepEqual(valuesOf(withoutSecond, 'level'), [5]);

  metrics.forget(2);
  const replaced = await metrics.families(
    new Map([
      [1, await countsAndLevel(4, 5)],
      [3, await countsAndLevel(2, 1)],
    ]),
  );
  assert.deepEqual(valuesOf(replaced, 'things_total'), [7, 0]);
  assert.deepEqual(valuesOf(replaced, 'times'), [2 + 2 + 1, 7, 6 + 1 + 0, 7]);
  assert.deepEqual(valuesOf(replaced, 'level'), [6]);
});
