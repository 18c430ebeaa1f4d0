/** Counts of one family of a registry. */
import type { Registry } from 'prom-client';

/** Its samples above 0 by their only label. Default family: the first. */
export async function countsIn(registry: Registry, family?: string): Promise<Readonly<Record<string, number>>> {
  const families = await registry.getMetricsAsJSON();
  const { values } = (families.find(({ name }) => name === family) ?? families[0]) as unknown as {
    readonly values: readonly { readonly labels: Readonly<Record<string, string>>; readonly value: number }[];
  };
  const counted = values.filter(({ value }) => value > 0);
  return Object.fromEntries(counted.map(({ labels, value }) => [Object.values(labels)[0] ?? '', value]));
}
