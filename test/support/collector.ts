/** A small real collector of traces: OTLP over HTTP, in JSON. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { listen } from './listen.ts';

/** One span as it came. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Ids of the spans that it is linked to. */
  readonly links: readonly string[];
  readonly service: unknown;
  readonly durationMs: number;
}

export interface Collector {
  /** For `tracing.endpoint`. */
  readonly url: string;
  /** Status of its answers: 200 at first. Spans of other ones are not kept. `hang`: it does not answer. */
  status: number | 'hang';
  /** Headers of the last request. */
  readonly headers: IncomingHttpHeaders;
  /** In the order in which they came. */
  readonly spans: readonly CollectedSpan[];
  /** Requests that came. */
  readonly requests: number;
  /** The spans of a trace, when `isComplete` says that all are there; the test's own bound ends the wait. */
  trace(traceId: string, isComplete: (spans: readonly CollectedSpan[]) => boolean): Promise<readonly CollectedSpan[]>;
  /** The names of a span's children, each with its own children's in brackets, in order of their names. */
  tree(spans: readonly CollectedSpan[], root: CollectedSpan): string;
}

export async function collector(t: TestContext): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  let requests = 0;
  let headers: IncomingHttpHeaders = {};
  const server = createServer((request, response) => {
    requests += 1;
    ({ headers } = request);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { status } = made;
      if (status === 'hang') return;
      if (status === 200 && request.url === '/v1/traces') {
        spans.push(...spansOf(JSON.parse(Buffer.concat(chunks).toString()) as Exported));
      }
      response.writeHead(status, { 'Content-Type': 'application/json' }).end('{}');
    });
  });
  const port = await listen(t, server);
  const made: Collector = {
    url: `http://127.0.0.1:${port}`,
    status: 200,
    spans,
    get headers() {
      return headers;
    },
    get requests() {
      return requests;
    },
    async trace(traceId, isComplete) {
      for (;;) {
        const found = spans.filter((span) => span.traceId === traceId);
        if (isComplete(found)) return found;
        await sleep(10);
      }
    },
    tree: treeOf,
  };
  return made;
}

function treeOf(spans: readonly CollectedSpan[], root: CollectedSpan): string {
  const children = spans.filter(({ parentSpanId }) => parentSpanId === root.spanId);
  const below = children.map((child) => treeOf(spans, child)).sort();
  return below.length === 0 ? root.name : `${root.name} [${below.join(', ')}]`;
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly boolValue?: boolean;
  readonly doubleValue?: number;
}

type Attribute = { readonly key: string; readonly value: Value };

/** The parts of an export request that are looked at (OTLP 1, trace service). */
interface Exported {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        readonly traceId: string;
        readonly spanId: string;
        readonly parentSpanId?: string;
        readonly name: string;
        readonly kind: number;
        readonly startTimeUnixNano: string;
        readonly endTimeUnixNano: string;
        readonly attributes: readonly Attribute[];
        readonly links?: readonly { readonly spanId: string }[];
        readonly status?: { readonly code?: number };
      }[];
    }[];
  }[];
}

const kinds = { 2: 'server', 3: 'client' } as const;

function spansOf({ resourceSpans }: Exported): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ traceId, spanId, parentSpanId, name, kind, attributes, links = [], status, ...times }) => ({
        traceId,
        spanId,
        parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
        name,
        kind: kinds[kind as keyof typeof kinds] ?? 'internal',
        isError: status?.code === 2,
        attributes: valuesOf(attributes),
        links: links.map((link) => link.spanId),
        service: valuesOf(resource.attributes)['service.name'],
        durationMs: Number(BigInt(times.endTimeUnixNano) - BigInt(times.startTimeUnixNano)) / 1e6,
      })),
    ),
  );
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value: { stringValue, intValue, boolValue, doubleValue } }) => {
      return [key, stringValue ?? boolValue ?? doubleValue ?? (intValue === undefined ? undefined : Number(intValue))];
    }),
  );
}
