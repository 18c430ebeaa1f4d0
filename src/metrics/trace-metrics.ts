/** Metrics of traces that the gateway exports itself. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';

const outcomes = ['exported', 'failed', 'dropped'] as const;

/** Registers the family of recorded spans; the result counts spans. */
export function createTraceMetrics(registry: Registry): (outcome: (typeof outcomes)[number], spans: number) => void {
  const spans = new Counter(registry, {
    name: 'ledgergate_trace_spans_total',
    help: 'Recorded spans by outcome: exported, failed (the collector did not take them, after retries), dropped (2,048 waited for the collector).',
    labels: { outcome: outcomes },
  });
  return (outcome, count) => spans.inc({ outcome }, count);
}
