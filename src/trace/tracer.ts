/**
 * Traces by OpenTelemetry, through its API alone: without an SDK, which an operator registers ahead of the program
 * (`node --import`, docs/tracing.md), nothing is recorded and no span is made.
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
  type Span as ApiSpan,
  type Tracer as ApiTracer,
} from '@opentelemetry/api';
import { SilentSpan, type Attributes, type Span, type SpanName, type SpanStart } from './span.ts';

/** The tracer of the registered SDK. */
export interface Tracer {
  /** Begins the span of a client's request, within the trace of its headers. */
  serve(name: string, headers: object, attributes: Attributes): Span;
  /** Exports the latest spans: to be awaited before the process ends, for a second at most. */
  flush(): Promise<void>;
}

const scope = 'ledgergate';
const longestFlushMs = 1_000;

/** `undefined`: no SDK is registered. Looked at once, at the start: what is registered later records nothing. */
export function findTracer(): Tracer | undefined {
  const tracer = trace.getTracer(scope);
  if (!isRegistered(tracer)) return undefined;
  return {
    serve(name, headers, attributes) {
      // Baggage of clients is untrusted, and no part of the gateway reads it.
      const parent = propagation.deleteBaggage(propagation.extract(ROOT_CONTEXT, headers));
      return spanOf(tracer, tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent), parent);
    },
    async flush() {
      await Promise.race([flushProvider().catch(() => undefined), sleep(longestFlushMs, undefined, { ref: false })]);
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

function spanOf(tracer: ApiTracer, span: ApiSpan, parent: Context): Span {
  const context = trace.setSpan(parent, span);
  return span.isRecording() ? new RecordedSpan(tracer, span, context) : new SilentSpan(() => carried(context));
}

function carried(context: Context): Record<string, string> {
  const headers: Record<string, string> = {};
  propagation.inject(context, headers);
  return headers;
}

class RecordedSpan implements Span {
  readonly recorded: SpanName | undefined;
  readonly #tracer: ApiTracer;
  readonly #span: ApiSpan;
  readonly #context: Context;

  constructor(tracer: ApiTracer, span: ApiSpan, context: Context) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    // Some samplers record spans that are not sampled: no exporter gets such a span.
    this.recorded = (traceFlags & TraceFlags.SAMPLED) === 0 ? undefined : { traceId, spanId };
    this.#tracer = tracer;
    this.#span = span;
    this.#context = context;
  }

  headers(): Record<string, string> {
    return carried(this.#context);
  }

  begin(name: string, { kind, attributes = {}, link }: SpanStart = {}): Span {
    const linked = link?.recorded;
    const options = {
      kind: kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL,
      attributes,
      links: linked === undefined ? [] : [{ context: { ...linked, traceFlags: TraceFlags.SAMPLED } }],
    };
    return spanOf(this.#tracer, this.#tracer.startSpan(name, options, this.#context), this.#context);
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
