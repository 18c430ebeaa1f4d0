/** One set of metrics for all processes. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import { Counter, type Count } from '../metrics/counter.ts';
import { familiesOf, type FamilyData } from '../metrics/family.ts';
import { Gauge } from '../metrics/gauge.ts';
import { joinFamilies } from '../metrics/join.ts';

export interface PoolMetrics {
  readonly restarts: Count;
  readonly hangs: Count;
}

/** Metrics of the worker processes, counted by the primary. `readServing` is called at each scrape. */
export function createPoolMetrics(registry: Registry, readServing: () => number): PoolMetrics {
  new Gauge(registry, { name: 'ledgergate_workers', help: 'Workers that serve.', read: readServing });
  return {
    restarts: new Counter(registry, {
      name: 'ledgergate_worker_restarts_total',
      help: 'Workers that ended and were started again.',
    }).of({}),
    hangs: new Counter(registry, {
      name: 'ledgergate_worker_hangs_total',
      help: 'Workers that gave no sign of life for 10 s and were ended.',
    }).of({}),
  };
}

/**
 * Joins the families of the workers, each as it was declared. Counters of a worker that is gone, or does not answer,
 * stay in the sum with their last values: Prometheus reads a sum that goes down as a restart of all.
 */
export class WorkerMetrics implements PoolMetrics {
  readonly restarts: Count;
  readonly hangs: Count;
  /** Metrics that the primary counts. */
  readonly registry = new Registry();
  readonly #last = new Map<number, readonly FamilyData[]>();
  #departed: readonly FamilyData[] = [];

  /** `readServing` is called at each scrape. */
  constructor(readServing: () => number) {
    // The processor time and memory of the primary are the gateway's as well; its event loop serves nobody.
    collectDefaultMetrics({ register: this.registry });
    for (const { name } of this.registry.getMetricsAsArray()) {
      if (!/^process_(cpu|resident|start)/.test(name)) this.registry.removeSingleMetric(name);
    }
    const { restarts, hangs } = createPoolMetrics(this.registry, readServing);
    this.restarts = restarts;
    this.hangs = hangs;
  }

  /** The worker is gone. */
  forget(worker: number): void {
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last !== undefined) this.#departed = joinFamilies([this.#departed, counted(last)]);
  }

  /** The families of a scrape. `told`: by worker, of those that answered. */
  async families(told: ReadonlyMap<number, readonly FamilyData[]>): Promise<readonly FamilyData[]> {
    for (const [worker, families] of told) this.#last.set(worker, families);
    const silent = [...this.#last].filter(([worker]) => !told.has(worker)).map(([, last]) => counted(last));
    const own = (await familiesOf(this.registry)).map(asOwn);
    return joinFamilies([own, ...told.values(), ...silent, this.#departed]);
  }
}

/** Families that only go up. */
function counted(families: readonly FamilyData[]): FamilyData[] {
  return families.filter(({ type }) => type === 'counter' || type === 'histogram');
}

/** The start of the gateway is that of its primary; the library leaves it out of sums. */
function asOwn(family: FamilyData): FamilyData {
  return family.name === 'process_start_time_seconds' ? { ...family, aggregator: 'first' } : family;
}
