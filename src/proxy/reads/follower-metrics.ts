/** Metrics of the follower and of the standing proof of its pages. */
import type { Registry } from 'prom-client';
import { Counter, Gauge } from '../../metrics/index.ts';

/** Readings of each scrape. */
interface FollowerGauges {
  readonly isRunning: boolean;
  readonly lagSeconds: number;
}

/** Counts pages. */
export type FollowerMetrics = ReturnType<typeof createFollowerMetrics>;

/** Registers the families of the follower; `read` is called at each scrape. */
export function createFollowerMetrics(registry: Registry, read: () => FollowerGauges) {
  new Gauge(registry, {
    name: 'ledgergate_follower_running',
    help: '1 while a process reads new transactions for waits and streams: at most one, unless the one that does for all hangs.',
    read: () => Number(read().isRunning),
  });
  new Gauge(registry, {
    name: 'ledgergate_follower_lag_seconds',
    help: 'How long transactions that a node has reported are missing at the follower; 0 when none are, or it does not run.',
    join: 'max',
    read: () => read().lagSeconds,
  });
  const transactions = new Counter(registry, {
    name: 'ledgergate_follower_transactions_total',
    help: 'New transactions that the follower has read.',
  }).of({});
  const page = new Counter(registry, {
    name: 'ledgergate_follower_pages_total',
    help: 'Pages that the follower has looked for, by result: taken, refused (of another history, or of an upstream that is not believed), failed (also: no upstream that answers has the next transaction).',
    labels: { result: ['taken', 'refused', 'failed'] },
  }).by('result');
  return { transactions, page };
}

/** Registers the families of the proof, and returns the counter of checks; `readDistrusted` is called at each scrape. */
export function createPageProofMetrics(registry: Registry, readDistrusted: () => boolean) {
  new Gauge(registry, {
    name: 'ledgergate_follower_distrusted',
    help: '1 once a transaction of a page has differed from its own answer of the same upstream: nothing is answered by the follower until the restart.',
    join: 'max',
    read: () => Number(readDistrusted()),
  });
  return new Counter(registry, {
    name: 'ledgergate_follower_checks_total',
    help: 'Transactions of pages that were compared with their own answers of the same upstream, by result; mismatch must stay 0.',
    // `inconclusive`: no final answer, or modules were upgraded in between. `skipped`: too many are in flight.
    labels: { result: ['equal', 'mismatch', 'inconclusive', 'skipped'] },
  }).by('result');
}
