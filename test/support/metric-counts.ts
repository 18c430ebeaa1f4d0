/** Samples of metrics. */
import type { Registry } from 'prom-client';

/** Samples of a family above 0 by their only label. Default family: the first. */
export async function countsIn(registry: Registry, family?: string): Promise<Readonly<Record<string, number>>> {
  const families = await registry.getMetricsAsJSON();
  const { values } = (families.find(({ name }) => name === family) ?? families[0]) as unknown as {
    readonly values: readonly { readonly labels: Readonly<Record<string, string>>; readonly value: number }[];
  };
  const counted = values.filter(({ value }) => value > 0);
  return Object.fromEntries(counted.map(({ labels, value }) => [Object.values(labels)[0] ?? '', value]));
}

/** The value of a sample, such as `name{label="value"}`, in the text of `/metrics`. */
export function sampleIn(text: string, sample: string): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${sample} `));
  return line === undefined ? undefined : Number(line.slice(sample.length + 1));
}
