/**
 * An SDK that exports spans by OTLP over HTTP, in JSON, for `tracing` of the config. Its packages are loaded for that section
 * alone. OpenTelemetry's own variables set compression and certificates.
 */
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace';
import type { Registry } from 'prom-client';
import type { Logger } from 'pino';
import { Counter } from '../family.ts';
import { type Attributes, scope, type Sdk } from './span.ts';

/**
 * Called for each batch of spans, or dropped span. `exported`: the collector took it. `failed`: it did not. `dropped`: too
 * many spans waited for the collector. `cause`: of a failure, without headers.
 */
type OnSpans = (outcome: 'exported' | 'failed' | 'dropped', spans: number, cause?: string) => void;

/** Collector, and share of traces. */
interface OtlpOptions {
  /** Base address of the collector. */
  readonly endpoint: string;
  /** Headers of each export, read at each. */
  readonly headers: () => Readonly<Record<string, string>>;
  /** Share of traces that are recorded, 0 to 1. */
  readonly share: number;
  /** Attributes of the process. */
  readonly resource: Attributes;
}

/** Spans that wait, and that are on their way to the collector. */
const mostWaiting = 2_048;
const delayMs = 1_000;
/** The bound of one export with its retries. */
const timeoutMs = 10_000;

/**
 * An SDK that records a share of all traces, and exports each second. Its exports are counted, and logged when they begin
 * to fail and when they succeed again.
 */
export function createTracing(
  { endpoint, headers, share, resource }: OtlpOptions,
  { log, registry }: { readonly log: Logger; readonly registry: Registry },
): Sdk {
  const spans = new Counter(registry, {
    name: 'ledgergate_trace_spans_total',
    help: 'Recorded spans by outcome: exported, failed (the collector did not take them, after retries), dropped (2,048 waited for the collector).',
    labels: { outcome: ['exported', 'failed', 'dropped'] },
  });
  let isFailing = false;
  const onSpans: OnSpans = (outcome, count, cause) => {
    spans.inc({ outcome }, count);
    if (outcome === 'dropped' || isFailing === (outcome === 'failed')) return;
    isFailing = outcome === 'failed';
    if (isFailing) log.warn({ cause }, 'the collector takes no spans: they are dropped until it does');
    else log.info('the collector takes spans again');
  };
  const ratio = new TraceIdRatioBasedSampler(share);
  const exporter = new OTLPTraceExporter({
    url: `${endpoint}/v1/traces`,
    headers: () => Promise.resolve({ ...headers() }),
    timeoutMillis: timeoutMs,
  });
  const provider = new TracerProvider({
    // The variables last: they are of this process alone.
    resource: defaultResource()
      .merge(resourceFromAttributes(resource))
      .merge(detectResources({ detectors: [envDetector] })),
    // A client's decision to record counts for no more than none; its trace id may still fall into the share.
    sampler: new ParentBasedSampler({ root: ratio, remoteParentSampled: ratio }),
    spanProcessors: [new BoundedSpans(exporter, onSpans)],
  });
  return {
    tracer: provider.getTracer(scope),
    propagator: new W3CTraceContextPropagator(),
    flush: () => provider.forceFlush(),
  };
}

/** Batches spans. The bound of those that wait includes batches that the exporter sends again. */
class BoundedSpans implements SpanProcessor {
  readonly #exporter: SpanExporter;
  readonly #batches: BatchSpanProcessor;
  readonly #onSpans: OnSpans;
  #waiting = 0;

  constructor(exporter: SpanExporter, onSpans: OnSpans) {
    this.#exporter = exporter;
    this.#onSpans = onSpans;
    this.#batches = new BatchSpanProcessor({
      exporter: { export: (spans, onResult) => this.#export(spans, onResult), shutdown: () => exporter.shutdown() },
      maxQueueSize: mostWaiting,
      scheduledDelayMillis: delayMs,
    });
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting >= mostWaiting) return this.#onSpans('dropped', 1);
    this.#waiting += 1;
    this.#batches.onEnd(span);
  }

  #export(spans: ReadableSpan[], onResult: Parameters<SpanExporter['export']>[1]): void {
    this.#exporter.export(spans, (result) => {
      this.#waiting -= spans.length;
      const isExported = result.code === ExportResultCode.SUCCESS;
      this.#onSpans(isExported ? 'exported' : 'failed', spans.length, result.error?.message);
      onResult(result);
    });
  }

  /** Waits for batches that are on their way, too: the first promise ends with the first batch that fails. */
  async forceFlush(): Promise<void> {
    await Promise.allSettled([this.#batches.forceFlush(), this.#exporter.forceFlush?.()]);
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }
}
