import { collectDefaultMetrics, Registry } from 'prom-client';
import { Counter, familiesOf, type FamilyData, Gauge, joinFamilies } from '../metrics/index.ts';

/** Metrics of the worker processes, counted by the primary. `readServing` is called at each scrape. */
export function createPoolMetrics(registry: Registry, readServing: () => number) {
  new Gauge(registry, { name: 'ledgergate_workers', help: 'Serving workers.', read: readServing });
  return {
    restarts: new Counter(registry, {
      name: 'ledgergate_worker_restarts_total',
      help: 'Workers that exited and were replaced.',
    }).of({}),
    hangs: new Counter(registry, {
      name: 'ledgergate_worker_hangs_total',
      help: 'Workers killed because they did not answer for 10 s.',
    }).of({}),
  };
}

/**
 * Joins the families of the workers. Counters of an exited or silent worker stay in the sum with their last values:
 * Prometheus reads a falling sum as a restart of all.
 */
export class WorkerMetrics {
  readonly registry = new Registry();
  readonly pool: ReturnType<typeof createPoolMetrics>;
  readonly #last = new Map<number, readonly FamilyData[]>();
  #departed: readonly FamilyData[] = [];

  constructor(readServing: () => number) {
    // Processor time and memory of the primary belong to the gateway; its event loop serves no client.
    collectDefaultMetrics({ register: this.registry });
    for (const { name } of this.registry.getMetricsAsArray()) {
      if (!/^process_(cpu|resident|start)/.test(name)) this.registry.removeSingleMetric(name);
    }
    this.pool = createPoolMetrics(this.registry, readServing);
  }

  forget(worker: number): void {
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last !== undefined) this.#departed = joinFamilies([this.#departed, counted(last)]);
  }

  /** The families of a scrape. `reports`: of the workers that answered, by id. */
  async families(reports: ReadonlyMap<number, readonly FamilyData[]>): Promise<readonly FamilyData[]> {
    for (const [worker, families] of reports) this.#last.set(worker, families);
    const silent = [...this.#last].filter(([worker]) => !reports.has(worker)).map(([, last]) => counted(last));
    const own = (await familiesOf(this.registry)).map(asOwn);
    return joinFamilies([own, ...reports.values(), ...silent, this.#departed]);
  }
}

/** Families that only go up. */
function counted(families: readonly FamilyData[]): FamilyData[] {
  return families.filter(({ type }) => type === 'counter' || type === 'histogram');
}

/** The primary's start time is the gateway's; the library leaves it out of sums. */
function asOwn(family: FamilyData): FamilyData {
  return family.name === 'process_start_time_seconds' ? { ...family, aggregator: 'first' } : family;
}
