/** Builds the recorder of traces that the config asks for. */
import { hostname } from 'node:os';
import { type Config, packageVersion } from '../config/index.ts';
import { createTraceMetrics, loadOtlp, type Sdk } from '../metrics/index.ts';
import type { ServingContext } from './settings.ts';

/** Loads the recorder's builder. */
export async function loadTracing() {
  const { createOtlpSdk } = await loadOtlp();
  return (config: NonNullable<Config['tracing']>, context: ServingContext): Sdk =>
    buildTracing(createOtlpSdk, config, context);
}

/** Counts exports, and logs when they begin to fail and when they succeed again. */
function buildTracing(
  createOtlpSdk: Awaited<ReturnType<typeof loadOtlp>>['createOtlpSdk'],
  { endpoint, headers = {}, share }: NonNullable<Config['tracing']>,
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
