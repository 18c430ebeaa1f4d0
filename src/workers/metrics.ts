/** One set of metrics for all processes. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import { Counter, type Count } from '../metrics/counter.ts';
import { familiesOf, type FamilyData } from '../metrics/family.ts';
import { Gauge } from '../metrics/gauge.ts';
import { joinFamilies } from '../metrics/join.ts';

export interface CrewMetrics {
  readonly restarts: Count;
  readonly hangs: Count;
}

/** Metrics of the workers themselves, counted by the primary. `readServing` is called at each scrape. */
export function createCrewMetrics(registry: Registry, readServing: () => number): CrewMetrics {
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
 * Joins what workers tell, each metric in the way it was declared with. Counters of a worker that is gone, or does not
 * answer, stay in the sum as they were told last: a sum that goes down would be read as a restart of all.
 */
export class WorkerMetrics implements CrewMetrics {
  readonly restarts: Count;
  readonly hangs: Count;
  /** Of what is counted in the primary and not by workers. */
  readonly registry = new Registry();
  readonly #lastTold = new Map<number, readonly FamilyData[]>();
  #departed: readonly FamilyData[] = [];

  /** `readServing` is called at each scrape. */
  constructor(readServing: () => number) {
    // The processor time and memory of the primary are the gateway's as well; its event loop serves nobody.
    collectDefaultMetrics({ register: this.registry });
    for (const { name } of this.registry.getMetricsAsArray()) {
      if (!/^process_(cpu|resident|start)/.test(name)) this.registry.removeSingleMetric(name);
    }
    const { restarts, hangs } = createCrewMetrics(this.registry, readServing);
    this.restarts = restarts;
    this.hangs = hangs;
  }

  /** The worker is gone: it will tell no more. */
  forget(worker: number): void {
    const last = this.#lastTold.get(worker);
    this.#lastTold.delete(worker);
    if (last !== undefined) this.#departed = joinFamilies([this.#departed, counted(last)]);
  }

  /** What a scrape reads. `told`: by worker, those that are there and answered. */
  async families(told: ReadonlyMap<number, readonly FamilyData[]>): Promise<readonly FamilyData[]> {
    for (const [worker, families] of told) this.#lastTold.set(worker, families);
    const silent = [...this.#lastTold].filter(([worker]) => !told.has(worker)).map(([, last]) => counted(last));
    const own = (await familiesOf(this.registry)).map(asTold);
    return joinFamilies([own, ...told.values(), ...silent, this.#departed]);
  }
}

/** What only goes up. */
function counted(families: readonly FamilyData[]): FamilyData[] {
  return families.filter(({ type }) => type === 'counter' || type === 'histogram');
}

/** The start of the gateway is that of its primary; the library leaves it out of sums. */
function asTold(family: FamilyData): FamilyData {
  return family.name === 'process_start_time_seconds' ? { ...family, aggregator: 'first' } : family;
}
