/**
 * A family of metrics: its name, what its labels may be, and what a scrape reads of it. Families are kept by prom-client's
 * registry beside those of Node itself, and count by plain additions; what becomes of them at a scrape is in `join.ts`
 * and `exposition.ts`.
 */
import type { Metric, Registry } from 'prom-client';

/** How the words of several workers become one. Of a gateway's own families the first three are used. */
export type Join = 'sum' | 'min' | 'max' | 'first' | 'average' | 'omit';

/** A request that an observation was of: the one that came last. `timestamp`: seconds since 1970. */
export interface Exemplar {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  readonly timestamp: number;
}

/** One value of a series at a scrape. */
export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** Only in histograms: the family's name and `_bucket`, `_sum` or `_count`. */
  readonly metricName?: string | undefined;
  /** `null` in families of prom-client, which has none for what Node itself is measured by. */
  readonly exemplar?: Exemplar | null | undefined;
}

/** A family at a scrape: plain data, which can come from another process. */
export interface FamilyData {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: Join;
  readonly values: readonly Sample[];
}

/** All values of each label, or a description of them where they are not known beforehand. */
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
    // All that the registry asks of a metric is a name, `get` and `reset`.
    registry.registerMetric(this as unknown as Metric);
  }

  /** Called at each scrape. */
  get(): FamilyData {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: this.samples() };
  }

  protected abstract samples(): readonly Sample[];

  /** Counts are never reset. */
  reset(): void {
    throw new Error(`${this.name} is never reset`);
  }
}

/** All families of a registry at a scrape, Node's own among them. */
export function familiesOf(registry: Registry): Promise<readonly FamilyData[]> {
  return registry.getMetricsAsJSON() as Promise<unknown> as Promise<readonly FamilyData[]>;
}

/** Reads those of `names` that this registry has; only for families of this gateway's own. */
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

  /** The series with these labels, made when it is not there. To be looked up once where requests count on it. */
  of(labels: LabelsOf<D>): Series {
    let key = '';
    for (const name of this.#names) key += `${labels[name]}\n`;
    let found = this.#series.get(key);
    if (found === undefined) this.#series.set(key, (found = { labels, series: this.#make() }));
    return found.series;
  }

  /** Ends the series that `matches`. Who counts on one of them looks it up each time. */
  remove(matches: (labels: LabelsOf<D>) => boolean): void {
    for (const [key, { labels }] of this.#series) if (matches(labels)) this.#series.delete(key);
  }

  [Symbol.iterator](): IterableIterator<{ readonly labels: LabelsOf<D>; readonly series: Series }> {
    return this.#series.values();
  }
}

/** Sources of the values of labels that are not declared value by value, as docs/metrics.md names them. */
export const labelSources = {
  upstream: 'names in `upstreams`',
  plan: 'names in `access.plans`',
  planOrNone: 'names in `access.plans`; empty where it is not known whose request it was',
  key: 'names of keys, at most 5,000; then `(other)`',
  status: 'codes from 100 to 599; `other` for what is none',
} as const;

/** Every combination of the declared values; labels whose values are not known beforehand have those of `open`. */
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
