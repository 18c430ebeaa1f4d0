/** Histograms. An observation is a short search and two additions. */
import type { Registry } from 'prom-client';
import {
  Family,
  SeriesMap,
  type Declared,
  type Exemplar,
  type FamilyOptions,
  type LabelsOf,
  type Sample,
  type Unlabelled,
} from './family.ts';

/** A sampled span as hexadecimal text (W3C trace context). */
export interface TraceReference {
  readonly traceId: string;
  readonly spanId: string;
}

/** One series of a histogram. */
export class Distribution {
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

interface HistogramOptions<D extends Declared> extends FamilyOptions<D> {
  /** Upper bounds, included, rising. */
  readonly buckets: readonly number[];
}

/** A family of histograms; workers' values add up. */
export class Histogram<const D extends Declared = Unlabelled> extends Family<D> {
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  readonly buckets: readonly number[];
  readonly #series: SeriesMap<D, Distribution>;

  constructor(registry: Registry, options: HistogramOptions<D>) {
    super(registry, options);
    this.buckets = options.buckets;
    this.#series = new SeriesMap(this.declared, () => new Distribution(options.buckets));
    // The one series of a family without labels exists from the start.
    if (options.labels === undefined) this.#series.of({} as LabelsOf<D>);
  }

  /** The series with these labels. */
  of(labels: LabelsOf<D>): Distribution {
    return this.#series.of(labels);
  }

  /** Ends series. */
  remove(matches: (labels: LabelsOf<D>) => boolean): void {
    this.#series.remove(matches);
  }

  protected override samples(): readonly Sample[] {
    return [...this.#series].flatMap(({ labels, series }) => series.samples(this.name, labels));
  }
}
