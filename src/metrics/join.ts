/** The families of several processes as those of one. Pure. */
import type { Exemplar, FamilyData, Join, Sample } from './family.ts';

/** Joins each family by its aggregator; help and type are those of the first process. `processes`: families by process. */
export function joinFamilies(processes: readonly (readonly FamilyData[])[]): FamilyData[] {
  return [...Map.groupBy(processes.flat(), ({ name }) => name).values()].flatMap(joinFamily);
}

function joinFamily(same: readonly FamilyData[]): FamilyData[] {
  const [first] = same;
  if (first === undefined || first.aggregator === 'omit') return [];
  const series = Map.groupBy(
    same.flatMap(({ values }) => values),
    seriesOf,
  );
  return [{ ...first, values: [...series.values()].flatMap((samples) => joinSamples(samples, first.aggregator)) }];
}

/** A text for each series: labels in any order, and values of any text. */
function seriesOf({ metricName, labels }: Sample): string {
  let text = `${metricName}`;
  for (const name of Object.keys(labels).sort()) {
    const value = String(labels[name]);
    text += `\n${name} ${value.length} ${value}`;
  }
  return text;
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
  let found: Exemplar | undefined;
  for (const { exemplar } of samples) {
    if (exemplar && (found === undefined || exemplar.timestamp > found.timestamp)) found = exemplar;
  }
  return found;
}
