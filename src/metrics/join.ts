/** The families of several processes as those of one. Pure. */
import type { Exemplar, FamilyData, Join, Sample } from './family.ts';

/** Joins each family by its aggregator; help and type are those of the first process. `processes`: families by process. */
export function joinFamilies(processes: readonly (readonly FamilyData[])[]): FamilyData[] {
  return [...Map.groupBy(processes.flat(), ({ name }) => name).values()].flatMap(joinFamily);
}

function joinFamily(same: readonly FamilyData[]): FamilyData[] {
  const [first] = same;
  if (first === undefined || first.aggregator === 'omit') return [];
  const series = new SameSeries();
  for (const { values } of same) for (const sample of values) series.add(sample);
  return [{ ...first, values: series.all.flatMap((samples) => joinSamples(samples, first.aggregator)) }];
}

function joinSamples(samples: readonly Sample[], join: Join): Sample[] {
  const [first] = samples;
  if (first === undefined) return [];
  const { metricName, labels } = first;
  const exemplar = newest(samples);
  const value = joined[join](samples.map(({ value }) => value));
  return [{ metricName, labels, value, ...(exemplar === undefined ? {} : { exemplar }) }];
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

const joined: Readonly<Record<Join, (values: readonly number[]) => number>> = {
  sum,
  min: (values) => Math.min(...values),
  max: (values) => Math.max(...values),
  first: ([first = NaN]) => first,
  omit: () => NaN,
  average: (values) => sum(values) / values.length,
};

function newest(samples: readonly Sample[]): Exemplar | undefined {
  let found: Exemplar | undefined;
  for (const { exemplar } of samples) {
    if (exemplar && (found === undefined || exemplar.timestamp > found.timestamp)) found = exemplar;
  }
  return found;
}

/** A trie over label values; its leaves hold the samples. */
interface Branch {
  readonly next: Map<string | number | undefined, Branch>;
  samples: Sample[] | undefined;
}

const newBranch = (): Branch => ({ next: new Map(), samples: undefined });

/**
 * Samples by series: equal labels in any order. The primary process accepts connections while it joins a hundred thousand
 * of them, so label values are looked up one by one: a key for each sample takes 1.7 times the processor time.
 */
class SameSeries {
  /** By first occurrence. */
  readonly all: Sample[][] = [];
  readonly #sorted = new Map<string, readonly string[]>();
  readonly #root = newBranch();

  add(sample: Sample): void {
    const { metricName, labels } = sample;
    const names = this.#sortedNames(labels);
    let branch = follow(follow(this.#root, metricName), names.length);
    for (const name of names) branch = follow(follow(branch, name), labels[name]);
    if (branch.samples === undefined) this.all.push((branch.samples = []));
    branch.samples.push(sample);
  }

  #sortedNames(labels: Sample['labels']): readonly string[] {
    const names = Object.keys(labels);
    if (names.length < 2) return names;
    const given = names.join(' ');
    let sorted = this.#sorted.get(given);
    if (sorted === undefined) this.#sorted.set(given, (sorted = names.sort()));
    return sorted;
  }
}

function follow({ next }: Branch, value: string | number | undefined): Branch {
  let branch = next.get(value);
  if (branch === undefined) next.set(value, (branch = newBranch()));
  return branch;
}
