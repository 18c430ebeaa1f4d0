/** Metrics of event streams. */
import type { Registry } from 'prom-client';
import { type Count, Counter, Gauge } from '../../metrics/index.ts';
import type { EndReason, StreamKind } from '../reads/index.ts';

const kinds = ['transactions', 'ledger_info', 'changes'] as const satisfies readonly StreamKind[];
const endReasons = [
  'client',
  'slow',
  'drain',
  'revoked',
  'reload',
  'pruned',
  'failed',
] as const satisfies readonly EndReason[];

/** Counts of one kind, looked up once. */
export interface StreamCounts {
  readonly events: Count;
  readonly bytes: Count;
}

/** Registers the families of event streams. `open`: called at each scrape. */
export function createStreamMetrics(registry: Registry, open: (kind: StreamKind) => number) {
  const labels = { kind: kinds };
  new Gauge(registry, {
    name: 'ledgergate_streams',
    help: 'Open event streams, by kind.',
    labels,
    read: () => kinds.map((kind) => [{ kind }, open(kind)] as const),
  });
  const events = new Counter(registry, {
    name: 'ledgergate_stream_events_total',
    help: 'Events that were written to streams, by kind.',
    labels,
  });
  const bytes = new Counter(registry, {
    name: 'ledgergate_stream_bytes_total',
    help: 'Bytes of events and comments that were written to streams, by kind.',
    labels,
  });
  const closed = new Counter(registry, {
    name: 'ledgergate_streams_closed_total',
    help: 'Event streams that ended, by kind and reason: client (it left), slow (1 MiB unread, or stalled where all streams together have 128 MiB), drain, revoked (its key or right), reload, pruned (no node holds what it needs next), failed.',
    labels: { kind: kinds, reason: endReasons },
  });
  const refused = new Counter(registry, {
    name: 'ledgergate_streams_refused_total',
    help: 'Event streams that were refused, by bound: max (streams.max), plan (streams of the plan).',
    labels: { reason: ['max', 'plan'] },
  }).by('reason');
  const countsOf = (kind: StreamKind): StreamCounts => ({ events: events.of({ kind }), bytes: bytes.of({ kind }) });
  return {
    counts: {
      transactions: countsOf('transactions'),
      ledger_info: countsOf('ledger_info'),
      changes: countsOf('changes'),
    },
    closed: (kind: StreamKind, reason: EndReason) => closed.inc({ kind, reason }),
    refused,
  };
}
