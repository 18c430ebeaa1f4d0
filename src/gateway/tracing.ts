/** Builds the recorder of traces that the config asks for. */
import { hostname } from 'node:os';
import { packageVersion, type TracingConfig } from '../config/index.ts';
import { Counter, loadOtlp, type Sdk } from '../metrics/index.ts';
import type { Registry } from 'prom-client';
import type { ServingContext } from './settings.ts';

/** Loads the recorder's builder. */
export async function loadTracing() {
  const { createOtlpSdk } = await loadOtlp();
  return (config: TracingConfig, context: ServingContext): Sdk => buildTracing(createOtlpSdk, config, context);
}

/** Counts exports, and logs when they begin to fail and when they succeed again. */
function buildTracing(
  createOtlpSdk: Awaited<ReturnType<typeof loadOtlp>>['createOtlpSdk'],
  { endpoint, headers = {}, share }: TracingConfig,
  { log, registry }: ServingContext,
): Sdk {
  const count = createTraceMetrics(registry);
  let isFailing = false;
  return createOtlpSdk({
    endpoint,
    headers,
    share,
    resource: {
      'service.name': 'ledgergate',
      'service.version': packageVersion(),
      'service.instance.id': `${hostname()}-${process.pid}`,
    },
    onSpans(outcome, spans, cause) {
      count(outcome, spans);
      if (outcome === 'dropped' || isFailing === (outcome === 'failed')) return;
      isFailing = outcome === 'failed';
      if (isFailing) log.warn({ cause }, 'the collector takes no spans: they are dropped until it does');
      else log.info('the collector takes spans again');
    },
  });
}

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
