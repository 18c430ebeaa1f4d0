/** The work for a request, as a trace records it. Spans are handed down with the request; without one nothing is recorded. */
import type { IncomingHttpHeaders } from 'node:http';

/** 64-bit numbers are text. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Kind, attributes and link of a new span. */
export interface SpanStart {
  /** `client`: another process is asked. */
  readonly kind?: 'client';
  readonly attributes?: Attributes;
  /** Work that this one only waits for, or shares the outcome of. */
  readonly link?: Span | undefined;
}

/** Identity of a span in logs and metrics: lower-case hex. */
export interface SpanName {
  readonly traceId: string;
  readonly spanId: string;
}

/** One piece of work. */
export interface Span {
  /** `undefined`: it is recorded nowhere. */
  readonly recorded: SpanName | undefined;
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
export class SilentSpan implements Span {
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
const keyForm = /^(?:[a-z][\w*/-]{0,255}|[a-z\d][\w*/-]{0,240}@[a-z][\w*/-]{0,13})$/;
/** Printable, no comma, no equals sign, no space at its end (section 3.3.1.3.2). */
const valueForm = /^[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/**
 * The trace of a client's request (W3C Trace Context) while the gateway records none: it is handed on to the node as it
 * came, so that the trace is not cut. Both headers are untrusted. `undefined`: there is none, or nothing that can be one.
 */
export function passedOn({ traceparent, tracestate }: IncomingHttpHeaders): Span | undefined {
  if (typeof traceparent !== 'string' || !parentForm.test(traceparent)) return undefined;
  const headers = isState(tracestate) ? { traceparent, tracestate } : { traceparent };
  return new SilentSpan(() => headers);
}

/** A malformed state is left out whole; the trace goes on without it. */
function isState(text: unknown): text is string {
  if (typeof text !== 'string' || text.length > longestState) return false;
  const members = text.split(',').map((member) => member.trim());
  return members.length <= mostMembers && members.some(Boolean) && members.every((member) => isMember(member));
}

/** An empty one is allowed. */
function isMember(member: string): boolean {
  const [key = '', value, ...rest] = member.split('=');
  return member === '' || (rest.length === 0 && value !== undefined && isKey(key) && valueForm.test(value));
}

function isKey(key: string): boolean {
  return keyForm.test(key) && key === key.toLowerCase();
}
