/**
 * Traces by OpenTelemetry, through its API alone. The SDK that records is one that an operator registers ahead of the program
 * (`node --import`, docs/tracing.md), or that of `otlp.ts`; without either no span is made.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import * as api from '@opentelemetry/api';
import { SilentSpan, type Attributes, type Span, type SpanName, type SpanStart } from './span.ts';

/** An SDK that records spans and exports them. */
export interface Sdk {
  readonly tracer: api.Tracer;
  /** Reads the trace of headers, and writes it. */
  readonly propagator: Pick<api.TextMapPropagator<unknown>, 'inject' | 'extract'>;
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
  const tracer = api.trace.getTracer(scope);
  return isRegistered(tracer) ? { tracer, propagator: api.propagation, flush: flushProvider } : undefined;
}

/** The tracer of `sdk`. */
export function createTracer(sdk: Sdk): Tracer {
  const { tracer, propagator } = sdk;
  return {
    serve(name, headers, attributes) {
      // Baggage of clients is untrusted, and no part of the gateway reads it.
      const parent = api.propagation.deleteBaggage(
        propagator.extract(api.ROOT_CONTEXT, headers, api.defaultTextMapGetter),
      );
      return spanOf(sdk, tracer.startSpan(name, { kind: api.SpanKind.SERVER, attributes }, parent), parent);
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
function isRegistered(tracer: api.Tracer): boolean {
  const parent = { traceId: '1'.padStart(32, '0'), spanId: '1'.padStart(16, '0'), traceFlags: api.TraceFlags.NONE };
  const context = api.trace.setSpanContext(api.ROOT_CONTEXT, { ...parent, isRemote: true });
  return tracer.startSpan('probe', {}, context).spanContext().spanId !== parent.spanId;
}

/** No part of the API, and every SDK's provider has it. */
async function flushProvider(): Promise<void> {
  const known = api.trace.getTracerProvider();
  const provider = known instanceof api.ProxyTracerProvider ? known.getDelegate() : known;
  await (provider as { forceFlush?: () => Promise<void> }).forceFlush?.();
}

function spanOf(sdk: Sdk, span: api.Span, parent: api.Context): Span {
  const context = api.trace.setSpan(parent, span);
  return span.isRecording() ? new RecordedSpan(sdk, span, context) : new SilentSpan(() => carried(sdk, context));
}

function carried({ propagator }: Sdk, context: api.Context): Record<string, string> {
  const headers: Record<string, string> = {};
  propagator.inject(context, headers, api.defaultTextMapSetter);
  return headers;
}

class RecordedSpan implements Span {
  readonly recorded: SpanName | undefined;
  readonly #sdk: Sdk;
  readonly #span: api.Span;
  readonly #context: api.Context;

  constructor(sdk: Sdk, span: api.Span, context: api.Context) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    // Some samplers record spans that are not sampled: no exporter gets such a span.
    this.recorded = (traceFlags & api.TraceFlags.SAMPLED) === 0 ? undefined : { traceId, spanId };
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
      kind: kind === 'client' ? api.SpanKind.CLIENT : api.SpanKind.INTERNAL,
      attributes,
      links: linked === undefined ? [] : [{ context: { ...linked, traceFlags: api.TraceFlags.SAMPLED } }],
    };
    return spanOf(this.#sdk, this.#sdk.tracer.startSpan(name, options, this.#context), this.#context);
  }

  note(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  fail(kind: string): void {
    this.#span.setAttribute('error.type', kind);
    this.#span.setStatus({ code: api.SpanStatusCode.ERROR });
  }

  end(): void {
    this.#span.end();
  }
}
