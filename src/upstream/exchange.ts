/** One request to one node, over undici: headers and body in, nothing decided. */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { findLedgerInfo, type Dialect, type HeaderValues, type LedgerInfo } from '../ledger/ledger-headers.ts';
import type { Upstream } from './upstream.ts';

/** What goes over the wire. `path` is below the base path, percent-encoded, with its query. */
export interface WireRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'OPTIONS';
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body?: Buffer | undefined;
}

interface AnswerHead {
  readonly status: number;
  readonly headers: HeaderValues;
  /** The node's snapshot, when all seven ledger headers are there. */
  readonly info: LedgerInfo | undefined;
  readonly upstream: Upstream;
}

/** An answer whose body was read to its end. */
export interface NodeAnswer extends AnswerHead {
  readonly body: Buffer;
  /**
   * Whether the length of the body was announced, so that a cut connection cannot pass for its end. A body that ends
   * with the connection may be incomplete and is never stored.
   */
  readonly isFramed: boolean;
}

/** An answer whose body is still coming. */
export interface StreamedAnswer extends AnswerHead {
  readonly stream: Readable;
}

/** Node bodies above this are refused: the largest answers nodes give are a few MB. */
const maxBodyBytes = 64 * 1024 * 1024;

/** Asks `upstream` and reads the whole answer. Rejects when the connection or the body fails, or on abort. */
export function fetchWhole(
  upstream: Upstream,
  request: WireRequest,
  dialect: Dialect,
  signal: AbortSignal,
): Promise<NodeAnswer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(abortReason(signal));
      return;
    }
    const collector = new Collector(upstream, dialect, signal, resolve, reject);
    upstream.pool.dispatch(optionsOf(upstream, request), collector);
  });
}

/** Asks `upstream` and hands the body on as it comes; the stream fails when nothing comes for `idleMs`. */
export async function fetchStream(
  upstream: Upstream,
  request: WireRequest,
  dialect: Dialect,
  bounds: { readonly signal: AbortSignal; readonly idleMs: number },
): Promise<StreamedAnswer> {
  const response = await upstream.pool.request({
    ...optionsOf(upstream, request),
    signal: bounds.signal,
    bodyTimeout: bounds.idleMs,
  });
  const headers = response.headers as HeaderValues;
  return {
    status: response.statusCode,
    headers,
    info: findLedgerInfo(headers, dialect),
    upstream,
    stream: response.body,
  };
}

/** Reads a streamed answer to its end, as `fetchWhole` would have. */
export async function readWhole(answer: StreamedAnswer): Promise<NodeAnswer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer.stream) {
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size > maxBodyBytes) throw new Error(`answer of ${answer.upstream.name} is larger than ${maxBodyBytes} bytes`);
    chunks.push(bytes);
  }
  const { stream: _, ...head } = answer;
  return { ...head, body: Buffer.concat(chunks), isFramed: isFramed(answer.headers) };
}

function optionsOf(upstream: Upstream, request: WireRequest): Dispatcher.DispatchOptions {
  return {
    method: request.method,
    path: upstream.basePath + request.path || '/',
    headers: request.headers,
    body: request.body ?? null,
  };
}

function isFramed(headers: HeaderValues): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason });
}

/** Gathers one answer into one Buffer: cheaper than any stream for bodies that are looked at whole. */
class Collector implements Dispatcher.DispatchHandler {
  readonly #upstream: Upstream;
  readonly #dialect: Dialect;
  readonly #signal: AbortSignal;
  readonly #resolve: (answer: NodeAnswer) => void;
  readonly #reject: (error: Error) => void;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #status = 0;
  #headers: HeaderValues = {};
  #controller: Dispatcher.DispatchController | undefined;
  /** A request may wait for a free connection, with nothing to abort yet: then only the wait is given up. */
  readonly #onAbort = (): void => {
    if (this.#controller === undefined) this.#reject(abortReason(this.#signal));
    else this.#controller.abort(abortReason(this.#signal));
  };

  constructor(
    upstream: Upstream,
    dialect: Dialect,
    signal: AbortSignal,
    resolve: (answer: NodeAnswer) => void,
    reject: (error: Error) => void,
  ) {
    this.#upstream = upstream;
    this.#dialect = dialect;
    this.#signal = signal;
    this.#resolve = resolve;
    this.#reject = reject;
    signal.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal.aborted) controller.abort(abortReason(this.#signal));
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: HeaderValues): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size > maxBodyBytes) {
      controller.abort(new Error(`answer of ${this.#upstream.name} is larger than ${maxBodyBytes} bytes`));
      return;
    }
    this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.#forgetAbort();
    const [first] = this.#chunks;
    this.#resolve({
      status: this.#status,
      headers: this.#headers,
      info: findLedgerInfo(this.#headers, this.#dialect),
      upstream: this.#upstream,
      // A lone chunk may be a view on a large shared receive buffer, which a stored entry must not keep alive.
      body: this.#chunks.length === 1 && first !== undefined ? Buffer.from(first) : Buffer.concat(this.#chunks),
      isFramed: isFramed(this.#headers),
    });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#forgetAbort();
    this.#reject(error);
  }

  #forgetAbort(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
  }
}
