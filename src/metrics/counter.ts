/** Counters. A count is one addition, so that a request can count often. */
import type { Registry } from 'prom-client';
import {
  combinations,
  Family,
  SeriesMap,
  type Declared,
  type FamilyOptions,
  type LabelsOf,
  type Sample,
  type Unlabelled,
} from './family.ts';

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

/** A family of counters; workers' values add up. */
export class Counter<const D extends Declared = Unlabelled> extends Family<D> {
  readonly type = 'counter';
  readonly aggregator = 'sum';
  readonly #series: SeriesMap<D, Count>;
  readonly #known: () => Iterable<LabelsOf<D>>;
  readonly #counted: ((labels: LabelsOf<D>) => number) | undefined;

  constructor(registry: Registry, options: CounterOptions<D>) {
    super(registry, options);
    const { declared } = this;
    const isClosed = Object.values(declared).every((values) => typeof values !== 'string');
    const all = isClosed ? (combinations(declared) as LabelsOf<D>[]) : [];
    this.#known = options.known ?? (() => all);
    this.#counted = options.counted;
    this.#series = new SeriesMap(declared, () => new Count());
  }

  /** The series with these labels; a frequent caller keeps it. */
  of(labels: LabelsOf<D>): Count {
    return this.#series.of(labels);
  }

  inc(labels: LabelsOf<D>, by = 1): void {
    this.#series.of(labels).inc(by);
  }

  /** A function that counts events by the value of the family's one label. */
  by<Name extends keyof D & string>(label: Name): (value: LabelsOf<D>[Name]) => void {
    return (value) => this.of({ [label]: value } as LabelsOf<D>).inc();
  }

  /** Ends series. */
  remove(matches: (labels: LabelsOf<D>) => boolean): void {
    this.#series.remove(matches);
  }

  protected override samples(): readonly Sample[] {
    for (const labels of this.#known()) this.#series.of(labels);
    return [...this.#series].map(({ labels, series }) => ({ labels, value: this.#counted?.(labels) ?? series.value }));
  }
}
