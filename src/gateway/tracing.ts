/** Builds the recorder of traces that the config asks for. */
import { hostname } from 'node:os';
import type { TracingConfig } from '../config/config.ts';
import { createTraceMetrics } from '../metrics/log-metrics.ts';
import { createOtlpSdk } from '../trace/otlp.ts';
import type { Sdk } from '../trace/span.ts';
import { packageVersion } from '../config/package-version.ts';
import type { ServingContext } from './settings.ts';

/** Counts exports, and logs when they begin to fail and when they succeed again. */
export function buildTracing({ endpoint, headers = {}, share }: TracingConfig, { log, registry }: ServingContext): Sdk {
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
