/** Metrics of what keeps requests answered: hedges, retries, nodes passed over, requests refused for want of a place. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** `lost`: the first node answered all the same. `failed`: neither answered. `refused`: not earned by other reads. */
export type HedgeOutcome = 'won' | 'lost' | 'failed' | 'refused';

export interface SenderMetrics {
  hedge(outcome: HedgeOutcome): void;
  /** A retry of a failed attempt was sent, or not earned by other requests. */
  retry(outcome: 'sent' | 'refused'): void;
  ejected(upstream: string, readClass: string, reason: string): void;
  /** The upstream is gone: its series end. */
  forgetEjections(upstream: string): void;
  /** A request got no place at a node: too many waited, or none became free in time. */
  refused(reason: 'full' | 'late'): void;
}

/** What is read at each scrape. */
export interface SenderGauges {
  readonly waiting: number;
  readonly nodes: readonly {
    readonly name: string;
    readonly limit: number;
    /** Classes of reads that it is passed over for. */
    readonly ejected: readonly string[];
  }[];
}

export function createSenderMetrics(registry: Registry, read: () => SenderGauges): SenderMetrics {
  const registers = [registry];
  const hedges = new Counter({
    name: 'ledgergate_hedges_total',
    help: 'Second attempts beside a slow first, by outcome: won, lost, failed (both), refused (share used up).',
    labelNames: ['outcome'] as const,
    registers,
  });
  const retries = new Counter({
    name: 'ledgergate_retries_total',
    help: 'Attempts after a failed one, by outcome: sent, refused (share used up).',
    labelNames: ['outcome'] as const,
    registers,
  });
  const ejections = new Counter({
    name: 'ledgergate_upstream_ejections_total',
    help: 'Times an upstream began to be passed over for a class of reads, by reason.',
    labelNames: ['upstream', 'class', 'reason'] as const,
    registers,
  });
  const refusals = new Counter({
    name: 'ledgergate_upstream_queue_refusals_total',
    help: 'Requests that got no place at an upstream: full (too many waited), late (none became free in time).',
    labelNames: ['reason'] as const,
    registers,
  });
  createGauges(registry, read);
  /** What has been counted of each upstream: classes and reasons are few. */
  const counted = new Map<string, Map<string, { readonly upstream: string; class: string; reason: string }>>();
  return {
    hedge: (outcome) => hedges.inc({ outcome }),
    retry: (outcome) => retries.inc({ outcome }),
    ejected: (upstream, readClass, reason) => {
      const labels = { upstream, class: readClass, reason };
      const series = counted.get(upstream) ?? new Map<string, typeof labels>();
      counted.set(upstream, series.set(`${readClass} ${reason}`, labels));
      ejections.inc(labels);
    },
    forgetEjections(upstream) {
      for (const labels of counted.get(upstream)?.values() ?? []) ejections.remove(labels);
      counted.delete(upstream);
    },
    refused: (reason) => refusals.inc({ reason }),
  };
}

function createGauges(registry: Registry, read: () => SenderGauges): void {
  const registers = [registry];
  new Gauge({
    name: 'ledgergate_upstream_queue_requests',
    help: 'Requests that wait for a place at an upstream.',
    registers,
    collect() {
      this.set(read().waiting);
    },
  });
  new Gauge({
    name: 'ledgergate_upstream_concurrency_limit',
    help: 'Requests that the upstream is given at once.',
    labelNames: ['upstream'] as const,
    registers,
    collect() {
      this.reset();
      for (const { name, limit } of read().nodes) this.set({ upstream: name }, limit);
    },
  });
  new Gauge({
    name: 'ledgergate_upstream_ejected',
    help: '1 while the upstream is passed over for a class of reads.',
    labelNames: ['upstream', 'class'] as const,
    aggregator: 'max',
    registers,
    collect() {
      this.reset();
      for (const { name, ejected } of read().nodes) {
        for (const readClass of ['head', 'archive', 'view']) {
          this.set({ upstream: name, class: readClass }, ejected.includes(readClass) ? 1 : 0);
        }
      }
    },
  });
}
