/**
 * Traces by OpenTelemetry, through its API alone. The SDK that records is one that an operator registers ahead of the program
 * (`node --import`, docs/tracing.md), or that of `otlp.ts`; without either no span is made.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  propagation,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  defaultTextMapGetter,
  defaultTextMapSetter,
  type Span as ApiSpan,
  type TextMapPropagator,
  type Tracer as ApiTracer,
} from '@opentelemetry/api';
import { SilentSpan, type Attributes, type Span, type SpanName, type SpanStart } from './span.ts';

/** An SDK that records spans and exports them. */
export interface Sdk {
  readonly tracer: ApiTracer;
  /** Reads the trace of headers, and writes it. */
  readonly propagator: Pick<TextMapPropagator<unknown>, 'inject' | 'extract'>;
  /** Exports the spans that have ended. */
  flush(): Promise<void>;
}

/** Begins spans of an SDK. */
export interface Tracer {
  /** Begins the span of a client's request, within the trace of its headers. */
  serve(name: string, headers: object, attributes: Attributes): Span;
  /** Exports the latest spans: to be awaited before the process ends, for a second at most. */
  flush(): Promise<void>;
}

/** Name of the gateway's spans as a group (instrumentation scope). */
export const scope = 'ledgergate';
const longestFlushMs = 1_000;

/** The registered SDK. `undefined`: none is; one that is registered after the start records nothing. */
export function findSdk(): Sdk | undefined {
  const tracer = trace.getTracer(scope);
  return isRegistered(tracer) ? { tracer, propagator: propagation, flush: flushProvider } : undefined;
}

/** The tracer of `sdk`. */
export function createTracer(sdk: Sdk): Tracer {
  const { tracer, propagator } = sdk;
  return {
    serve(name, headers, attributes) {
      // Baggage of clients is untrusted, and no part of the gateway reads it.
      const parent = propagation.deleteBaggage(propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter));
      return spanOf(sdk, tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent), parent);
    },
    async flush() {
      await Promise.race([sdk.flush().catch(() => undefined), sleep(longestFlushMs, undefined, { ref: false })]);
    },
  };
}

/**
 * The API does not expose it. Without an SDK a span is its parent by another name; every SDK gives it an id of its own.
 * The parent is not sampled, so that hardly any sampler records this one, and as it never ends none exports it.
 */
function isRegistered(tracer: ApiTracer): boolean {
  const parent = { traceId: '1'.padStart(32, '0'), spanId: '1'.padStart(16, '0'), traceFlags: TraceFlags.NONE };
  const context = trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true });
  return tracer.startSpan('probe', {}, context).spanContext().spanId !== parent.spanId;
}

/** No part of the API, and every SDK's provider has it. */
async function flushProvider(): Promise<void> {
  const known = trace.getTracerProvider();
  const provider = known instanceof ProxyTracerProvider ? known.getDelegate() : known;
  await (provider as { forceFlush?: () => Promise<void> }).forceFlush?.();
}

function spanOf(sdk: Sdk, span: ApiSpan, parent: Context): Span {
  const context = trace.setSpan(parent, span);
  return span.isRecording() ? new RecordedSpan(sdk, span, context) : new SilentSpan(() => carried(sdk, context));
}

function carried({ propagator }: Sdk, context: Context): Record<string, string> {
  const headers: Record<string, string> = {};
  propagator.inject(context, headers, defaultTextMapSetter);
  return headers;
}

class RecordedSpan implements Span {
  readonly recorded: SpanName | undefined;
  readonly #sdk: Sdk;
  readonly #span: ApiSpan;
  readonly #context: Context;

  constructor(sdk: Sdk, span: ApiSpan, context: Context) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    // Some samplers record spans that are not sampled: no exporter gets such a span.
    this.recorded = (traceFlags & TraceFlags.SAMPLED) === 0 ? undefined : { traceId, spanId };
    this.#sdk = sdk;
    this.#span = span;
    this.#context = context;
  }

  headers(): Record<string, string> {
    return carried(this.#sdk, this.#context);
  }

  begin(name: string, { kind, attributes = {}, link }: SpanStart = {}): Span {
    const linked = link?.recorded;
    const options = {
      kind: kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL,
      attributes,
      links: linked === undefined ? [] : [{ context: { ...linked, traceFlags: TraceFlags.SAMPLED } }],
    };
    return spanOf(this.#sdk, this.#sdk.tracer.startSpan(name, options, this.#context), this.#context);
  }

  note(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  fail(kind: string): void {
    this.#span.setAttribute('error.type', kind);
    this.#span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(): void {
    this.#span.end();
  }
}
