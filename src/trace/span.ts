/** The work for a request, as a trace records it. Spans are handed down with the request; without one nothing is recorded. */

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
