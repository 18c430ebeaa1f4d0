/** One set of metrics for all processes. */
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { MetricsJson } from './protocol.ts';

interface Sampled {
  readonly name: string;
  readonly type: unknown;
}

/**
 * Joins what workers tell, each metric in the way it was declared with. Counters of a worker that is gone, or does not
 * answer, stay in the sum as they were told last: a sum that goes down would be read as a restart of all.
 */
export class WorkerMetrics {
  readonly restarts: Counter;
  readonly hangs: Counter;
  readonly #own = new Registry();
  readonly #lastTold = new Map<number, MetricsJson>();
  #departed: MetricsJson = [];

  /** `readServing` is called at each scrape. */
  constructor(readServing: () => number) {
    // The processor time and memory of the primary are the gateway's as well; its event loop serves nobody.
    collectDefaultMetrics({ register: this.#own });
    for (const { name } of this.#own.getMetricsAsArray()) {
      if (!/^process_(cpu|resident|start)/.test(name)) this.#own.removeSingleMetric(name);
    }
    const registers = [this.#own];
    this.restarts = new Counter({
      name: 'ledgergate_worker_restarts_total',
      help: 'Workers that ended and were started again.',
      registers,
    });
    this.hangs = new Counter({
      name: 'ledgergate_worker_hangs_total',
      help: 'Workers that gave no sign of life for 10 s and were ended.',
      registers,
    });
    new Gauge({
      name: 'ledgergate_workers',
      help: 'Workers that serve.',
      registers,
      collect() {
        this.set(readServing());
      },
    });
  }

  /** Of what is counted here and not by workers. */
  get registry(): Registry {
    return this.#own;
  }

  get contentType(): string {
    return this.#own.contentType;
  }

  /** The worker is gone: it will tell no more. */
  forget(worker: number): void {
    const last = this.#lastTold.get(worker);
    this.#lastTold.delete(worker);
    if (last === undefined) return;
    this.#departed = AggregatorRegistry.aggregate([this.#departed, counted(last)]).getMetricsAsArray();
  }

  /** What a scrape reads. `told`: by worker, those that are there and answered. */
  async text(told: ReadonlyMap<number, MetricsJson>): Promise<string> {
    for (const [worker, metrics] of told) this.#lastTold.set(worker, metrics);
    const silent = [...this.#lastTold].filter(([worker]) => !told.has(worker)).map(([, last]) => counted(last));
    const own = (await this.#own.getMetricsAsJSON()).map(asTold);
    return AggregatorRegistry.aggregate([own, ...told.values(), ...silent, this.#departed]).metrics();
  }
}

/** What only goes up. */
function counted(metrics: MetricsJson): Sampled[] {
  return (metrics as readonly Sampled[]).filter(({ type }) => type === 'counter' || type === 'histogram');
}

/** The start of the gateway is that of its primary; the library leaves it out of sums. */
function asTold(metric: Sampled): Sampled {
  return metric.name === 'process_start_time_seconds' ? Object.assign(metric, { aggregator: 'first' }) : metric;
}
