/** What is done for a request, as a trace tells it. Handed down with the request; who gets none has nothing to tell. */

/** 64-bit numbers are text. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface SpanStart {
  /** `client`: another process is asked. */
  readonly kind?: 'client';
  readonly attributes?: Attributes;
  /** Work that this one only waits for, or shares the outcome of. */
  readonly link?: Span | undefined;
}

/** How logs and metrics name a span: lower-case hex. */
export interface SpanName {
  readonly traceId: string;
  readonly spanId: string;
}

/** One piece of work. */
export interface Span {
  /** `undefined`: it is recorded nowhere. */
  readonly recorded: SpanName | undefined;
  /** What a request has to carry that continues the trace from here. */
  headers(): Readonly<Record<string, string>>;
  /** Begins a piece of work within this one; its end is the caller's. */
  begin(name: string, start?: SpanStart): Span;
  note(attributes: Attributes): void;
  /** The work came to nothing. `kind`: of a small set of words. */
  fail(kind: string): void;
  /** To be called once. */
  end(): void;
}

/** The trace goes on at whom is asked, and what is done here is no part of it. */
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

/** Runs `work` as a span within `span`, where there is one; what it rejects with has failed it. */
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
