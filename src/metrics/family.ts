/**
 * Families of metrics: counters, gauges and histograms, with their labels and samples. A count is one addition, and an
 * observation a short search and two additions, so that a request can make many; a gauge is read at each scrape alone. The
 * registry of prom-client holds families beside those of Node itself; `join.ts` and `exposition.ts` turn them into the
 * answer to a scrape.
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
type Unlabelled = Readonly<Record<string, never>>;

type LabelsOf<D extends Declared> = {
  readonly [Name in keyof D]: D[Name] extends readonly string[] ? D[Name][number] : string;
};

/** Name, help text and labels of a family. */
interface FamilyOptions<D extends Declared> {
  readonly name: string;
  readonly help: string;
  readonly labels?: D;
}

/** A family that registers itself; subclasses hold the series. */
abstract class Family<D extends Declared> {
  readonly name: string;
  readonly help: string;
  abstract readonly type: 'counter' | 'gauge' | 'histogram';
  abstract readonly aggregator: Join;
  readonly declared: Declared;

  constructor(registry: Registry, { name, help, labels }: FamilyOptions<D>) {
    this.name = name;
    this.help = help;
    this.declared = labels ?? {};
    // The registry needs no more of a metric than its name and `get`.
    registry.registerMetric(this as unknown as Metric);
  }

  /** The registry calls it at each scrape. */
  get(): FamilyData {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: this.samples() };
  }

  protected abstract samples(): readonly Sample[];
}

/** A family whose series count from their first use on; workers' values add up. */
abstract class CountedFamily<D extends Declared, Series> extends Family<D> {
  readonly aggregator = 'sum';
  readonly #names: readonly string[];
  readonly #series = new Map<string, { readonly labels: LabelsOf<D>; readonly series: Series }>();

  constructor(registry: Registry, options: FamilyOptions<D>) {
    super(registry, options);
    this.#names = Object.keys(this.declared);
  }

  protected abstract make(): Series;

  /** The series with these labels, created when missing; a frequent caller keeps it. */
  of(labels: LabelsOf<D>): Series {
    let key = '';
    for (const name of this.#names) key += `${labels[name]}\n`;
    let found = this.#series.get(key);
    if (found === undefined) this.#series.set(key, (found = { labels, series: this.make() }));
    return found.series;
  }

  /** Ends the series that match; a caller that kept one would count on in vain. */
  remove(matches: (labels: LabelsOf<D>) => boolean): void {
    for (const [key, { labels }] of this.#series) if (matches(labels)) this.#series.delete(key);
  }

  protected get all() {
    return [...this.#series.values()];
  }
}

/** One series of a counter. */
export class Count {
  // Not 0: V8 keeps a small integer apart from a double, and increments beyond 2^31 (bytes) would cost 0.3 µs each.
  #value = -0;

  get value(): number {
    return this.#value + 0;
  }

  inc(by = 1): void {
    this.#value += by;
  }
}

interface CounterOptions<D extends Declared> extends FamilyOptions<D> {
  /**
   * Series that exist before their first count, read at each scrape, so that alerts see the first event as an increase.
   * Default: every combination, where all values of all labels are declared.
   */
  readonly known?: () => Iterable<LabelsOf<NoInfer<D>>>;
  /** Reads the count of each known series from another part, at each scrape. */
  readonly counted?: (labels: LabelsOf<NoInfer<D>>) => number;
}

/** A family of counters. */
export class Counter<const D extends Declared = Unlabelled> extends CountedFamily<D, Count> {
  readonly type = 'counter';
  readonly #known: () => Iterable<LabelsOf<D>>;
  readonly #counted: ((labels: LabelsOf<D>) => number) | undefined;

  constructor(registry: Registry, options: CounterOptions<D>) {
    super(registry, options);
    const { declared } = this;
    const isClosed = Object.values(declared).every((values) => typeof values !== 'string');
    const all = isClosed ? (combinations(declared) as LabelsOf<D>[]) : [];
    this.#known = options.known ?? (() => all);
    this.#counted = options.counted;
  }

  inc(labels: LabelsOf<D>, by = 1): void {
    this.of(labels).inc(by);
  }

  /** A function that counts events by the value of the family's one label. */
  by<Name extends keyof D & string>(label: Name): (value: LabelsOf<D>[Name]) => void {
    return (value) => this.of({ [label]: value } as LabelsOf<D>).inc();
  }

  protected override make(): Count {
    return new Count();
  }

  protected override samples(): readonly Sample[] {
    for (const labels of this.#known()) this.of(labels);
    return this.all.map(({ labels, series }) => ({ labels, value: this.#counted?.(labels) ?? series.value }));
  }
}

/** A sampled span as hexadecimal text (W3C trace context). */
export interface TraceReference {
  readonly traceId: string;
  readonly spanId: string;
}

class Distribution {
  readonly #bounds: readonly number[];
  /** By bucket, not cumulative; the last one is beyond every bound. */
  readonly #counts: number[];
  #sum = 0;
  /** By bucket; `undefined` in most series, which never have one. */
  #exemplars: Exemplar[] | undefined;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = [...bounds.map(() => 0), 0];
  }

  observe(value: number, trace?: TraceReference): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? Infinity)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
    if (trace !== undefined) this.#remember(bucket, value, trace);
  }

  #remember(bucket: number, value: number, { traceId, spanId }: TraceReference): void {
    this.#exemplars ??= [];
    const labels = { trace_id: traceId, span_id: spanId };
    this.#exemplars[bucket] = { labels, value, timestamp: Date.now() / 1000 };
  }

  samples(name: string, labels: Readonly<Record<string, string>>): Sample[] {
    let count = 0;
    const buckets = this.#counts.map((here, bucket): Sample => {
      count += here;
      const le = this.#bounds[bucket] ?? '+Inf';
      const exemplar = this.#exemplars?.[bucket];
      return {
        metricName: `${name}_bucket`,
        labels: { ...labels, le },
        value: count,
        ...(exemplar === undefined ? {} : { exemplar }),
      };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** A family of histograms. */
export class Histogram<const D extends Declared = Unlabelled> extends CountedFamily<D, Distribution> {
  readonly type = 'histogram';
  /** Upper bounds, included, rising. */
  readonly buckets: readonly number[];

  constructor(registry: Registry, options: FamilyOptions<D> & Pick<Histogram<D>, 'buckets'>) {
    super(registry, options);
    this.buckets = options.buckets;
    // The one series of a family without labels exists from the start.
    if (options.labels === undefined) this.of({} as LabelsOf<D>);
  }

  protected override make(): Distribution {
    return new Distribution(this.buckets);
  }

  protected override samples(): readonly Sample[] {
    return this.all.flatMap(({ labels, series }) => series.samples(this.name, labels));
  }
}

/** A value of a gauge; `undefined`: no series. Above 2^53 a bigint is rounded to a float. */
type Reading = number | bigint | undefined;

interface GaugeOptions<D extends Declared> extends FamilyOptions<D> {
  /** How values of several workers are joined. Default `sum`. */
  readonly join?: Join;
  /** One value, or one by series. */
  readonly read: () => Reading | Iterable<readonly [LabelsOf<NoInfer<D>>, Reading]>;
}

/** A family of gauges. */
export class Gauge<const D extends Declared = Unlabelled> extends Family<D> {
  readonly type = 'gauge';
  readonly aggregator: Join;
  readonly #read: GaugeOptions<D>['read'];

  constructor(registry: Registry, options: GaugeOptions<D>) {
    super(registry, options);
    this.aggregator = options.join ?? 'sum';
    this.#read = options.read;
  }

  protected override samples(): readonly Sample[] {
    const read = this.#read();
    const series = typeof read === 'object' ? [...read] : [[{}, read] as const];
    return series.flatMap(([labels, value]) => (value === undefined ? [] : [{ labels, value: Number(value) }]));
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
