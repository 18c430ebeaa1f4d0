/** One request to one node: headers and body in, nothing decided. */
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { JsonBody } from '../ledger/json-body.ts';
import type { Dialect, HeaderValues, LedgerInfo } from '../ledger/ledger-headers.ts';
import { stopReason, type StopSignal } from '../ledger/stop.ts';
import type { ByteBudget, Share } from './byte-budget.ts';
import { decodeWhole, findCoding, type NodeCoding } from './content-coding.ts';
import { BadAnswerError } from './wire/bad-answer.ts';
import type { Pool } from './pool.ts';
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
  /** The coding that the node gave the body. */
  readonly coding: NodeCoding | undefined;
  /** What the node took over it, the wait for a connection left out: to its end, of a streamed one to its head. */
  readonly tookMs: number;
}

/** An answer whose body was read to its end. */
export interface NodeAnswer extends AnswerHead {
  /** Decoded. */
  readonly body: Buffer;
  /** The body as the node sent it, in its `coding`. */
  readonly sent: Buffer;
  /** The decoded body as JSON: parsed once, whoever asks. */
  readonly json: JsonBody;
  /**
   * Whether the length of the body was announced, so that a cut connection cannot pass for its end. A body that ends
   * with the connection may be incomplete and is never stored.
   */
  readonly isFramed: boolean;
}

/** An answer whose body is still coming. */
export interface StreamedAnswer extends AnswerHead {
  /** In its `coding`. */
  readonly stream: Readable;
}

/** How far an exchange has got: what its failure says of the node depends on it. */
export interface Progress {
  /** When the request was sent, so that bytes of it may have left; in ms of `performance.now()`. */
  sentAtMs: number | undefined;
  /** The head of an answer came. */
  isAnswered: boolean;
}

export interface ExchangeContext {
  readonly dialect: Dialect;
  readonly signal: StopSignal;
  readonly progress: Progress;
  /** Bodies that are read whole are gathered within it. */
  readonly budget: ByteBudget;
  /** Sent beside the request's own: where its trace goes on. */
  readonly traceHeaders?: Readonly<Record<string, string>> | undefined;
}

/** Asks `upstream` and reads the whole answer. Rejects when the connection or the body fails, or on abort. */
export function fetchWhole(
  upstream: Upstream,
  request: WireRequest,
  context: ExchangeContext,
  pool: Pool = upstream.pool,
): Promise<NodeAnswer> {
  return new Promise((resolve, reject) => {
    if (context.signal.aborted) {
      reject(stopReason(context.signal));
      return;
    }
    const collector = new Collector(upstream, context, { resolve, reject });
    collector.waiting = pool.dispatch(requestTo(upstream, request, context), collector);
  });
}

/** The request with the node's base path and credentials. */
export function requestTo(
  upstream: Upstream,
  request: WireRequest,
  { traceHeaders }: Pick<ExchangeContext, 'traceHeaders'> = {},
): WireRequest {
  const below = upstream.basePath + request.path;
  // Nothing, or a query alone, where neither side has a base path.
  const path = below.startsWith('/') ? below : `/${below}`;
  const { method, body } = request;
  const isPlain = upstream.headers === undefined && traceHeaders === undefined;
  const headers = isPlain ? request.headers : { ...request.headers, ...traceHeaders, ...upstream.headers };
  return { method, path, headers, body };
}

/** Ms since the request was sent. */
export function sinceSent({ sentAtMs }: Progress): number {
  return sentAtMs === undefined ? 0 : performance.now() - sentAtMs;
}

/** Whether the end of the body was announced. */
export function isFramed(headers: HeaderValues): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
}

const refusals = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED', 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH']);

/** Whether an exchange failed because the request cannot be sent as it is: to no node, and no node's doing. */
export function isUnsendable(error: unknown, { sentAtMs }: Progress): boolean {
  if (error instanceof TypeError) return sentAtMs === undefined;
  return refusals.has((error as NodeJS.ErrnoException).code ?? '');
}

/**
 * The answer whose body is `sent`, decoded to be looked into. Rejects with `BadAnswerError` where the body is not in its
 * coding, with `OverBudgetError` where it decodes to more than is gathered, and on abort. At once where there is no coding.
 */
export function wholeAnswer(
  head: AnswerHead,
  sent: Buffer,
  context: Pick<ExchangeContext, 'budget' | 'signal'>,
): NodeAnswer | Promise<NodeAnswer> {
  const withBody = (body: Buffer): NodeAnswer => {
    return { ...head, body, sent, json: new JsonBody(body), isFramed: isFramed(head.headers) };
  };
  // An answer to HEAD names the coding that GET would have.
  if (head.coding === undefined || sent.length === 0) return withBody(sent);
  return decodeWhole(sent, head.coding, context).then(withBody);
}

interface Promised {
  resolve(answer: NodeAnswer | Promise<NodeAnswer>): void;
  reject(error: Error): void;
}

/** As much is made room for when the length of a body is announced; beyond it, for what has come. */
const mostAtOnce = 1024 * 1024;
const nothing = Buffer.alloc(0);

/** Gathers one answer into one Buffer: cheaper than any stream for bodies that are looked at whole. */
class Collector implements Dispatcher.DispatchHandler {
  readonly #upstream: Upstream;
  readonly #context: ExchangeContext;
  readonly #promised: Promised;
  /** Begins with what has come of the body. */
  #room = nothing;
  #filled = 0;
  /** What room was made for at once, because the node said so. */
  #announced: number | undefined;
  readonly #share: Share;
  #status = 0;
  #headers: HeaderValues = {};
  #coding: NodeCoding | undefined;
  /** What gives it up while it waits for a free connection; without it, only the wait is given up. */
  waiting: Pick<Dispatcher.DispatchController, 'abort'> | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  readonly #onAbort = (): void => {
    const reason = stopReason(this.#context.signal);
    const controller = this.#controller ?? this.waiting;
    if (controller === undefined) this.#promised.reject(reason);
    else controller.abort(reason);
  };

  constructor(upstream: Upstream, context: ExchangeContext, promised: Promised) {
    this.#upstream = upstream;
    this.#context = context;
    this.#promised = promised;
    this.#share = context.budget.open((reason) => this.#controller?.abort(reason));
    context.signal.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { progress, signal } = this.#context;
    this.#controller = controller;
    progress.sentAtMs = performance.now();
    if (signal.aborted) controller.abort(stopReason(signal));
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: HeaderValues): void {
    this.#context.progress.isAnswered = true;
    this.#status = status;
    this.#headers = headers;
    // An error that is thrown here fails the exchange.
    this.#coding = findCoding(headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const from = this.#filled;
    this.#filled += chunk.length;
    try {
      if (this.#filled > this.#room.length) this.#makeRoom(from);
    } catch (error) {
      controller.abort(error as Error);
      return;
    }
    // The chunk is only good until this returns. Kept one by one, chunks of a byte would take a hundred times as much.
    chunk.copy(this.#room, from);
  }

  /** Doubles the room, up to the announced length. Throws `OverBudgetError`. */
  #makeRoom(filled: number): void {
    const length = Number(this.#headers['content-length']);
    if (filled === 0 && length <= mostAtOnce) this.#announced = length;
    const before = this.#room;
    const wanted = filled === 0 ? (this.#announced ?? 0) : Math.min(before.length * 2, this.#longest(length));
    const size = Math.max(this.#filled, wanted);
    this.#share.take(size - before.length);
    this.#room = Buffer.allocUnsafe(size);
    before.copy(this.#room, 0, 0, filled);
  }

  /** The longest that the body may become, in bytes; `length`: the announced one, NaN where there is none. */
  #longest(length: number): number {
    const { largest } = this.#share;
    return length < largest ? length : largest;
  }

  onResponseEnd(): void {
    this.#end();
    if (this.#filled !== (this.#announced ?? this.#filled)) {
      this.#promised.reject(new BadAnswerError('its body is not as long as it says'));
      return;
    }
    // Room that was not needed goes at once. A small body is a part of Node's pool even so: who keeps it minds that.
    const body = this.#filled === this.#room.length ? this.#room : Buffer.from(this.#room.subarray(0, this.#filled));
    const head = {
      status: this.#status,
      headers: this.#headers,
      info: this.#upstream.infos.find(this.#headers, this.#context.dialect),
      upstream: this.#upstream,
      coding: this.#coding,
      tookMs: sinceSent(this.#context.progress),
    };
    this.#promised.resolve(wholeAnswer(head, body, this.#context));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end();
    this.#promised.reject(error);
  }

  #end(): void {
    this.#share.close();
    this.#context.signal.removeEventListener('abort', this.#onAbort);
  }
}
