/** Gauges: read at each scrape, without work in between. */
import type { Registry } from 'prom-client';
import {
  Family,
  type Declared,
  type FamilyOptions,
  type Join,
  type LabelsOf,
  type Sample,
  type Unlabelled,
} from './family.ts';

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
