/**
 * A family of metrics: its name, its labels and its samples. The registry of prom-client holds families beside those of
 * Node itself; `join.ts` and `exposition.ts` turn them into the answer to a scrape.
 */
import type { Metric, Registry } from 'prom-client';

/** Joins the values of several workers. The gateway's own families use the first four; `omit` drops the family. */
export type Join = 'sum' | 'min' | 'max' | 'first' | 'average' | 'omit';

/** The last traced request of a bucket. `timestamp`: seconds since 1970. */
export interface Exemplar {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  readonly timestamp: number;
}

/** One value of a series at a scrape. */
export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** In histograms alone: the family's name with `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string | undefined;
  /** `null` in families of prom-client. */
  readonly exemplar?: Exemplar | null | undefined;
}

/** A family at a scrape: plain data, so that a worker can send it. */
export interface FamilyData {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: Join;
  readonly values: readonly Sample[];
}

/** The closed values of each label, or a description of open ones. */
export type Declared = Readonly<Record<string, readonly string[] | string>>;

/** No labels: one series. */
export type Unlabelled = Readonly<Record<string, never>>;

/** The labels of one series. */
export type LabelsOf<D extends Declared> = {
  readonly [Name in keyof D]: D[Name] extends readonly string[] ? D[Name][number] : string;
};

/** Name, help text and labels of a family. */
export interface FamilyOptions<D extends Declared> {
  readonly name: string;
  readonly help: string;
  readonly labels?: D;
}

/** A family that registers itself; subclasses hold the series. */
export abstract class Family<D extends Declared> {
  readonly name: string;
  readonly help: string;
  abstract readonly type: 'counter' | 'gauge' | 'histogram';
  abstract readonly aggregator: Join;
  readonly declared: Declared;

  constructor(registry: Registry, { name, help, labels }: FamilyOptions<D>) {
    this.name = name;
    this.help = help;
    this.declared = labels ?? {};
    // The registry needs no more of a metric than its name, `get` and `reset`.
    registry.registerMetric(this as unknown as Metric);
  }

  /** The registry calls it at each scrape. */
  get(): FamilyData {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: this.samples() };
  }

  protected abstract samples(): readonly Sample[];

  /** Throws: a reset would falsify rates. */
  reset(): void {
    throw new Error(`${this.name} is never reset`);
  }
}

/** All families of a registry at a scrape, Node's own among them. */
export function familiesOf(registry: Registry): Promise<readonly FamilyData[]> {
  return registry.getMetricsAsJSON() as Promise<unknown> as Promise<readonly FamilyData[]>;
}

/** The families of `names` in this registry; only the gateway's own, which read synchronously. */
export function readFamilies(registry: Registry, names: readonly string[]): readonly FamilyData[] {
  return names.flatMap((name) => {
    const family = registry.getSingleMetric(name) as unknown as Family<Declared> | undefined;
    return family === undefined ? [] : [family.get()];
  });
}

/** Series of a family by their labels. */
export class SeriesMap<D extends Declared, Series> {
  readonly #names: readonly string[];
  readonly #make: () => Series;
  readonly #series = new Map<string, { readonly labels: LabelsOf<D>; readonly series: Series }>();

  constructor(declared: Declared, make: () => Series) {
    this.#names = Object.keys(declared);
    this.#make = make;
  }

  /** The series with these labels, created when missing. */
  of(labels: LabelsOf<D>): Series {
    let key = '';
    for (const name of this.#names) key += `${labels[name]}\n`;
    let found = this.#series.get(key);
    if (found === undefined) this.#series.set(key, (found = { labels, series: this.#make() }));
    return found.series;
  }

  /** Ends the series that match; a caller that kept one would count on in vain. */
  remove(matches: (labels: LabelsOf<D>) => boolean): void {
    for (const [key, { labels }] of this.#series) if (matches(labels)) this.#series.delete(key);
  }

  [Symbol.iterator](): IterableIterator<{ readonly labels: LabelsOf<D>; readonly series: Series }> {
    return this.#series.values();
  }
}

/** Descriptions of open labels, as docs/metrics.md has them. */
export const labelSources = {
  upstream: 'names in `upstreams`',
  plan: 'names in `access.plans`',
  planOrNone: 'names in `access.plans`; empty without a client',
  key: 'names of keys, at most 5,000; then `(other)`',
  status: 'codes from 100 to 599; `other` for any other',
} as const;

/** Every combination of the declared values; open labels have the values of `open`. */
export function combinations<const D extends Declared>(
  declared: D,
  open: Partial<Record<keyof D, string>> = {},
): LabelsOf<D>[] {
  let all: (readonly (readonly [string, string])[])[] = [[]];
  for (const [name, values] of Object.entries(declared)) {
    const known = typeof values === 'string' ? [open[name] ?? ''] : values;
    all = all.flatMap((labels) => known.map((value) => labels.concat([[name, value]])));
  }
  return all.map((labels) => Object.fromEntries(labels) as LabelsOf<D>);
}
