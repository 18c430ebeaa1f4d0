/**
 * Traces by OpenTelemetry, through its API alone. Spans are handed down with a request; without one nothing is recorded. The
 * SDK that records is one that an operator registers ahead of the program (`node --import`, docs/tracing.md), or that of
 * `otlp.ts`.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as api from '@opentelemetry/api';
import type { TraceReference } from '../family.ts';

/** 64-bit numbers are text. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Kind, attributes and link of a new span. */
interface SpanStart {
  /** `client`: another process is asked. */
  readonly kind?: 'client';
  readonly attributes?: Attributes;
  /** Work that this one only waits for, or shares the outcome of. */
  readonly link?: Span | undefined;
}

/** One piece of work. */
export interface Span {
  /** `undefined`: it is recorded nowhere. */
  readonly recorded: TraceReference | undefined;
  /** Headers that continue the trace from here. */
  headers(): Readonly<Record<string, string>>;
  /** Begins a piece of work within this one; its end is the caller's. */
  begin(name: string, start?: SpanStart): Span;
  note(attributes: Attributes): void;
  /** The work failed. `kind`: of a small closed set. */
  fail(kind: string): void;
  /** To be called once. */
  end(): void;
}

/** Carries the trace on to the next process and records nothing here. */
class SilentSpan implements Span {
  readonly recorded = undefined;
  readonly headers: () => Readonly<Record<string, string>>;

  constructor(headers: () => Readonly<Record<string, string>>) {
    this.headers = headers;
  }

  begin(): Span {
    return this;
  }

  note(): void {}

  fail(): void {}

  end(): void {}
}

/** Runs `work` as a span within `span`, where there is one; a rejection fails the span. */
export async function within<T>(
  span: Span | undefined,
  name: string,
  work: (part: Span | undefined) => Promise<T>,
): Promise<T> {
  if (span === undefined) return work(undefined);
  const part = span.begin(name);
  try {
    return await work(part);
  } catch (error) {
    part.fail(error instanceof Error ? error.name : 'error');
    throw error;
  } finally {
    part.end();
  }
}

/** Version, trace, parent, flags; `ff` is no version, and all zeros are no trace and no parent (section 3.2). */
const parentForm = /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;

/** Every receiver has to take this much, and none more (section 3.3.1.5). */
const longestState = 512;
const mostMembers = 32;
/** A malformed state is left out whole; the trace goes on without it. */
function isState(text: unknown): text is string {
  if (typeof text !== 'string' || text.length > longestState) return false;
  const members = text.split(',').map((member) => member.trim());
  return members.length <= mostMembers && members.some(Boolean) && members.every(isMember);
}

/** An empty one is allowed; of a malformed one the API keeps nothing. */
function isMember(member: string): boolean {
  return api.createTraceState(member).serialize() === member;
}

/** An SDK that records spans and exports them. */
export interface Sdk {
  readonly tracer: api.Tracer;
  /** Reads the trace of headers, and writes it. */
  readonly propagator: Pick<api.TextMapPropagator<unknown>, 'inject' | 'extract'>;
  /** Exports the spans that have ended. */
  flush(): Promise<void>;
}

/** Name of the gateway's spans as a group (instrumentation scope). */
export const scope = 'ledgergate';
const longestFlushMs = 1_000;

/** Begins spans of an SDK. */
export class Tracer {
  readonly #sdk: Sdk;

  constructor(sdk: Sdk) {
    this.#sdk = sdk;
  }

  /** The registered SDK. `undefined`: none is; one that is registered after the start records nothing. */
  static findSdk(): Sdk | undefined {
    const tracer = api.trace.getTracer(scope);
    return isRegistered(tracer) ? { tracer, propagator: api.propagation, flush: flushProvider } : undefined;
  }

  /**
   * The trace of a client's request (W3C Trace Context) while the gateway records none: it is handed on to the node as it
   * came, so that the trace is not cut. Both headers are untrusted. `undefined`: there is none, or nothing that can be one.
   */
  static passedOn({ traceparent, tracestate }: IncomingHttpHeaders): Span | undefined {
    if (typeof traceparent !== 'string' || !parentForm.test(traceparent)) return undefined;
    const headers = isState(tracestate) ? { traceparent, tracestate } : { traceparent };
    return new SilentSpan(() => headers);
  }

  /** Begins the span of a client's request, within the trace of its headers. */
  serve(name: string, headers: object, attributes: Attributes): Span {
    const { tracer, propagator } = this.#sdk;
    // Baggage of clients is untrusted, and no part of the gateway reads it.
    const parent = api.propagation.deleteBaggage(
      propagator.extract(api.ROOT_CONTEXT, headers, api.defaultTextMapGetter),
    );
    return spanOf(this.#sdk, tracer.startSpan(name, { kind: api.SpanKind.SERVER, attributes }, parent), parent);
  }

  /** Exports the latest spans: to be awaited before the process ends, for a second at most. */
  async flush(): Promise<void> {
    await Promise.race([this.#sdk.flush().catch(() => undefined), sleep(longestFlushMs, undefined, { ref: false })]);
  }
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
  readonly recorded: TraceReference | undefined;
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
