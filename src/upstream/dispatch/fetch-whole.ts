/**
 * One request to one node: the checks of its answer's head, the answer that is read to its end, and the loss of an idle
 * connection. A node may close one just when a request leaves on it: the node has not received the request, so an
 * idempotent one is sent once more.
 */
import { setImmediate } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { CancelToken, type HeaderValues } from '../../ledger/index.ts';
import { TooLargeError } from '../byte-budget.ts';
import {
  requestTo,
  sinceSent,
  wholeAnswer,
  type AnswerHead,
  type ExchangeContext,
  type NodeAnswer,
  BadAnswerError,
  findCoding,
} from './exchange.ts';
import type { NodeClient, Purpose, WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/** Most interim answers (1xx) of one request. */
const mostInterim = 16;

/** Handles one request, which aborts with the context's signal. Subclasses gather or stream the body. */
export abstract class AnswerHandler<A> implements Dispatcher.DispatchHandler {
  protected readonly context: ExchangeContext;
  protected readonly settled = Promise.withResolvers<A>();
  readonly #upstream: Upstream;
  readonly #purpose: Purpose;
  #controller: Dispatcher.DispatchController | undefined;
  #interim = 0;
  readonly #onAbort = (): void => this.abort(CancelToken.reasonOf(this.context.signal));

  constructor(upstream: Upstream, context: ExchangeContext, purpose: Purpose) {
    this.#upstream = upstream;
    this.context = context;
    this.#purpose = purpose;
    context.signal.addEventListener('abort', this.#onAbort);
  }

  /** Sends the request, at most once. Resolves with the answer; rejects when the exchange fails, or on abort. */
  send(client: NodeClient, request: WireRequest): Promise<A> {
    const { context } = this;
    if (context.signal.aborted) this.onFailure(CancelToken.reasonOf(context.signal));
    else client.dispatch(this.#purpose, requestTo(this.#upstream, request, context), this);
    return this.settled.promise;
  }

  /** Takes the head of the final answer. An error thrown here fails the exchange. */
  protected abstract onHead(head: AnswerHead, controller: Dispatcher.DispatchController): void;
  /** Takes the failure of the exchange. May be called again, to no effect. */
  protected abstract onFailure(error: Error): void;
  abstract onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void;
  abstract onResponseEnd(): void;

  /** Ends the exchange with `reason`. A request that still waits for a connection is never sent. */
  protected abort(reason: Error): void {
    if (this.#controller === undefined) this.onFailure(reason);
    else this.#controller.abort(reason);
  }

  protected unfollow(): void {
    this.context.signal.removeEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { context } = this;
    const { signal } = context;
    if (signal.aborted) {
      const reason = CancelToken.reasonOf(signal);
      // Thrown, because `controller.abort` would also close a connection that has carried nothing of this request.
      if (this.#purpose !== 'submission') throw reason;
      // Left open and idle, the connection would serve the next submission, which needs a new one.
      controller.abort(reason);
      return;
    }
    this.#controller = controller;
    context.sentAtMs = performance.now();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: HeaderValues): void {
    const { context } = this;
    if (this.#isFarewell(status, headers)) throw new LostConnectionError('the node closed an idle connection (408)');
    context.isAnswered = true;
    if (status < 200) {
      this.#interim += 1;
      if (status === 101 || this.#interim > mostInterim)
        throw new BadAnswerError('status 101, or too many interim answers');
      return;
    }
    if (status > 599) throw new BadAnswerError('status above 599');
    if (!hasCertainEnd(headers)) throw new BadAnswerError('transfer coding leaves the end of the body uncertain');
    const upstream = this.#upstream;
    const info = upstream.findInfo(headers, context.dialect);
    const tookMs = sinceSent(context);
    this.onHead({ status, headers, info, upstream, coding: findCoding(headers), tookMs }, controller);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.onFailure(error);
  }

  /**
   * Whether the answer belongs to no request: nodes and balancers send 408 with `close` on a connection that was idle too
   * long (RFC 9110 15.5.9), and it may cross a request. A repeated request has a new connection, which was never idle.
   */
  #isFarewell(status: number, { connection }: HeaderValues): boolean {
    if (status !== 408 || this.#purpose === 'submission') return false;
    const { context } = this;
    return context.isRepeat !== true && isFresh(context) && String(connection).toLowerCase().includes('close');
  }
}

/**
 * Whether the transfer coding ends the body with a last chunk (RFC 9112 6.1). undici passes on bytes of other codings, and
 * takes the end of the connection for the end of a body. It refuses a length that contradicts itself or the coding.
 */
function hasCertainEnd({ 'transfer-encoding': coding }: HeaderValues): boolean {
  return coding === undefined || (typeof coding === 'string' && coding.trimEnd().toLowerCase() === 'chunked');
}

/**
 * Reads the whole answer. Rejects when the connection or the body fails, or on abort. `client`: by default that of the
 * node.
 */
export function fetchWhole(
  upstream: Upstream,
  request: WireRequest,
  context: ExchangeContext,
  purpose: Purpose = 'read',
  client: NodeClient = upstream.client,
): Promise<NodeAnswer> {
  return new Collector(upstream, context, purpose).send(client, request);
}

/** Largest announced body, in bytes, that is allocated at once; others are allocated as they arrive. */
const mostAtOnce = 1024 * 1024;
const nothing = Buffer.alloc(0);

class Collector extends AnswerHandler<NodeAnswer> {
  readonly #share = this.context.budget.open((reason) => this.abort(reason));
  #head: AnswerHead | undefined;
  /** Begins with the bytes of the body that arrived. */
  #room = nothing;
  #filled = 0;

  protected onHead(head: AnswerHead): void {
    this.#head = head;
    const length = Number(head.headers['content-length']);
    if (length > this.#share.largest) throw new TooLargeError(`the node announces ${length} bytes`);
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
    // A list of chunks costs a hundred times the memory of a body that arrives byte by byte.
    chunk.copy(this.#room, from);
  }

  /** Doubles the room, up to the announced length. Throws `OverBudgetError`. */
  #makeRoom(filled: number): void {
    const { largest } = this.#share;
    const length = Number(this.#head?.headers['content-length']);
    const before = this.#room;
    const announced = length <= mostAtOnce ? length : 0;
    // Without an announced length, NaN, the share is the bound.
    const wanted = filled === 0 ? announced : Math.min(before.length * 2, length < largest ? length : largest);
    const size = Math.max(this.#filled, wanted);
    this.#share.take(size - before.length);
    this.#room = Buffer.allocUnsafe(size);
    before.copy(this.#room, 0, 0, filled);
  }

  onResponseEnd(): void {
    this.#close();
    const { context } = this;
    // A copy frees unused room at once. A small body stays a part of Node's buffer pool.
    const body = this.#filled === this.#room.length ? this.#room : Buffer.from(this.#room.subarray(0, this.#filled));
    this.settled.resolve(wholeAnswer(this.#head as AnswerHead, body, context, sinceSent(context)));
  }

  protected onFailure(error: Error): void {
    this.#close();
    this.settled.reject(error);
  }

  #close(): void {
    this.#share.close();
    this.unfollow();
  }
}

/** The connection was closing while the request went out, so a read may be sent again. */
class LostConnectionError extends Error {
  override readonly name = 'LostConnectionError';
  readonly code = 'ECONNRESET';
}

/** A FIN takes about as long as a request: a connection that is lost later than this was not idle. */
const newsMs = 1_000;

const lostCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * Whether an exchange failed because its idle connection was lost, and may be sent once more; then its progress is that
 * of the repeat. `mayRepeat` bounds repeats: nodes that close every connection must not get every request twice.
 */
export async function wasLostIdle(
  error: unknown,
  exchange: ExchangeContext,
  mayRepeat: () => boolean = () => true,
): Promise<boolean> {
  if (exchange.signal.aborted || exchange.isRepeat === true || exchange.isAnswered) return false;
  if (!wasLost(error, exchange) || !mayRepeat()) return false;
  // A node that closes one idle connection often closes all: the FINs of the others are read first.
  await setImmediate();
  exchange.sentAtMs = undefined;
  exchange.isRepeat = true;
  return true;
}

/** Whether the request was sent so recently that a FIN may have crossed it. */
function isFresh({ sentAtMs }: ExchangeContext): boolean {
  return sentAtMs !== undefined && performance.now() - sentAtMs <= newsMs;
}

/** Whether the error is the loss of an idle connection; undici may lose it before it sends the request. */
function wasLost(error: unknown, exchange: ExchangeContext): boolean {
  const mayBeNews = exchange.sentAtMs === undefined || isFresh(exchange);
  return mayBeNews && error instanceof Error && lostCodes.has((error as NodeJS.ErrnoException).code ?? '');
}
