/** The families of several processes as those of one. Pure. */
import type { Exemplar, FamilyData, Join, Sample } from './family.ts';

/** Joins each family in the way that the first who tells it has declared. `told`: by process. */
export function joinFamilies(told: readonly (readonly FamilyData[])[]): FamilyData[] {
  const byName = new Map<string, FamilyData[]>();
  for (const family of told.flat()) {
    const same = byName.get(family.name);
    if (same === undefined) byName.set(family.name, [family]);
    else same.push(family);
  }
  return [...byName.values()].flatMap((same) => joinFamily(same));
}

function joinFamily(same: readonly FamilyData[]): FamilyData[] {
  const [first] = same;
  if (first === undefined || first.aggregator === 'omit') return [];
  const series = new Map<string, Sample[]>();
  for (const sample of same.flatMap(({ values }) => values)) {
    const key = keyOf(sample);
    const known = series.get(key);
    if (known === undefined) series.set(key, [sample]);
    else known.push(sample);
  }
  return [{ ...first, values: [...series.values()].flatMap((samples) => joinSamples(samples, first.aggregator)) }];
}

function joinSamples(samples: readonly Sample[], join: Join): Sample[] {
  const [first] = samples;
  if (first === undefined) return [];
  const { metricName, labels } = first;
  const exemplar = newest(samples);
  const value = joined(
    samples.map(({ value }) => value),
    join,
  );
  return [{ metricName, labels, value, ...(exemplar === undefined ? {} : { exemplar }) }];
}

function joined(values: readonly number[], join: Join): number {
  switch (join) {
    case 'min':
      return Math.min(...values);
    case 'max':
      return Math.max(...values);
    case 'first':
    case 'omit':
      return values[0] ?? NaN;
    case 'average':
      return sum(values) / values.length;
    case 'sum':
      return sum(values);
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function newest(samples: readonly Sample[]): Exemplar | undefined {
  return samples
    .flatMap(({ exemplar }) => exemplar ?? [])
    .reduce<Exemplar | undefined>(
      (found, exemplar) => (found === undefined || exemplar.timestamp > found.timestamp ? exemplar : found),
      undefined,
    );
}

/** Equal for equal labels, whatever their order. */
function keyOf({ metricName = '', labels }: Sample): string {
  return JSON.stringify([metricName, ...Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1))]);
}
