/** Metrics of dispatch: hedges, retries, ejections, and the queue for nodes. */
import type { Registry } from 'prom-client';
import { combinations, Counter, Gauge, Histogram, labelSources } from '../../metrics/index.ts';

/** Classes of reads that an upstream is ejected from. */
const readClassNames = ['head', 'archive', 'view'] as const;
type ReadClassName = (typeof readClassNames)[number];
const ejectionReasons = ['timeout', 'error', 'outpaced', 'refused', 'error share'] as const;

/** Counts hedges, retries, ejections and queue events. */
export type SenderMetrics = ReturnType<typeof createSenderMetrics>;

/** Readings of each scrape. */
interface SenderGauges {
  readonly waiting: number;
  readonly nodes: readonly {
    readonly name: string;
    readonly limit: number;
    readonly ejected: readonly ReadClassName[];
  }[];
}

/** Registers the families of dispatch; `read` is called at each scrape. */
export function createSenderMetrics(registry: Registry, read: () => SenderGauges) {
  const hedge = new Counter(registry, {
    name: 'ledgergate_hedges_total',
    help: 'Second attempts beside a slow first, by outcome: won, lost, failed (both), refused (share used up).',
    // `lost`: the first node won. `failed`: neither answered. `refused`: over the retry budget.
    labels: { outcome: ['won', 'lost', 'failed', 'refused'] },
  }).by('outcome');
  const retry = new Counter(registry, {
    name: 'ledgergate_retries_total',
    help: 'Attempts after a failed one, by outcome: sent, refused (share used up).',
    labels: { outcome: ['sent', 'refused'] },
  }).by('outcome');
  const byReason = { upstream: labelSources.upstream, class: readClassNames, reason: ejectionReasons };
  const ejections = new Counter(registry, {
    name: 'ledgergate_upstream_ejections_total',
    help: 'Times an upstream began to be passed over for a class of reads, by reason: what others answered in its place it did not in time (timeout), not well (error, error share), far later (outpaced), or not at all by its own word (refused).',
    labels: byReason,
    known: () => read().nodes.flatMap(({ name }) => combinations(byReason, { upstream: name })),
  });
  createGauges(registry, read);
  return {
    ...createQueueMetrics(registry, read),
    hedge,
    retry,
    ejected: (upstream: string, readClass: ReadClassName, reason: (typeof ejectionReasons)[number]) =>
      ejections.inc({ upstream, class: readClass, reason }),
    /** Ends the series of an upstream that left the fleet. */
    forgetEjections: (gone: string) => ejections.remove(({ upstream }) => upstream === gone),
  };
}

function createQueueMetrics(registry: Registry, read: () => SenderGauges) {
  new Gauge(registry, {
    name: 'ledgergate_upstream_queue_requests',
    help: 'Requests that wait for a place at an upstream.',
    read: () => read().waiting,
  });
  const waits = new Histogram(registry, {
    name: 'ledgergate_upstream_queue_wait_seconds',
    help: 'How long requests waited for a place at an upstream, got or not; those that found one at once are not counted.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2],
  }).of({});
  const refused = new Counter(registry, {
    name: 'ledgergate_upstream_queue_refusals_total',
    help: 'Requests that got no place at an upstream: full (too many waited), late (none became free in time).',
    // `full`: the queue was full. `late`: no permit became free in time.
    labels: { reason: ['full', 'late'] },
  }).by('reason');
  return {
    /** A queued request got a permit, or gave up. */
    waited: (seconds: number) => waits.observe(seconds),
    refused,
  };
}

function createGauges(registry: Registry, read: () => SenderGauges): void {
  new Gauge(registry, {
    name: 'ledgergate_upstream_concurrency_limit',
    help: 'Requests that the upstream is given at once.',
    labels: { upstream: labelSources.upstream },
    read: () => read().nodes.map(({ name, limit }) => [{ upstream: name }, limit] as const),
  });
  new Gauge(registry, {
    name: 'ledgergate_upstream_ejected',
    help: '1 while the upstream is passed over for a class of reads, by any worker.',
    labels: { upstream: labelSources.upstream, class: readClassNames },
    join: 'max',
    read: () =>
      read().nodes.flatMap(({ name, ejected }) =>
        readClassNames.map(
          (readClass) => [{ upstream: name, class: readClass }, Number(ejected.includes(readClass))] as const,
        ),
      ),
  });
}
