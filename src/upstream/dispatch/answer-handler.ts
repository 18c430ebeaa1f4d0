/** Handler of an undici request, for whole and streamed answers: abort, progress, and checks of an answer's head. */
import type { Dispatcher } from 'undici';
import type { HeaderValues } from '../../ledger/ledger-headers.ts';
import { stopReason } from '../../ledger/stop.ts';
import { BadAnswerError, LostConnectionError } from './bad-answer.ts';
import { findCoding } from './content-coding.ts';
import { sinceSent, type AnswerHead, type ExchangeContext } from './exchange.ts';
import { isFresh } from '../node/lost-connection.ts';
import type { Purpose } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/** Most interim answers (1xx) of one request. */
const mostInterim = 16;

/** Settles the promise of an exchange. */
export interface Settle<A> {
  resolve(answer: A | Promise<A>): void;
  reject(error: Error): void;
}

/** Parts of one exchange: the node, its time and memory bounds, and the set of connections. */
export interface HandlerParts<C extends ExchangeContext = ExchangeContext> {
  readonly upstream: Upstream;
  readonly context: C;
  readonly purpose: Purpose;
}

/** Handles one request, which aborts with the context's signal. Subclasses gather or stream the body. */
export abstract class AnswerHandler<C extends ExchangeContext = ExchangeContext> implements Dispatcher.DispatchHandler {
  protected readonly context: C;
  readonly #upstream: Upstream;
  readonly #purpose: Purpose;
  #controller: Dispatcher.DispatchController | undefined;
  #interim = 0;
  readonly #onAbort = (): void => this.abort(stopReason(this.context.signal));

  constructor({ upstream, context, purpose }: HandlerParts<C>) {
    this.#upstream = upstream;
    this.context = context;
    this.#purpose = purpose;
    context.signal.addEventListener('abort', this.#onAbort);
  }

  /** Takes the head of the final answer. An error thrown here fails the exchange. */
  protected abstract onHead(head: AnswerHead, controller: Dispatcher.DispatchController): void;
  /** Takes the failure of the exchange. May be called again, to no effect. */
  protected abstract onFailure(error: Error): void;
  /** Takes a part of the body. */
  abstract onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void;
  /** Takes the end of the body. */
  abstract onResponseEnd(): void;

  /** Ends the exchange with `reason`. A request that still waits for a connection is never sent. */
  protected abort(reason: Error): void {
    if (this.#controller === undefined) this.onFailure(reason);
    else this.#controller.abort(reason);
  }

  /** Removes the listener of the signal. */
  protected unfollow(): void {
    this.context.signal.removeEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const { progress, signal } = this.context;
    if (signal.aborted) {
      const reason = stopReason(signal);
      // Thrown, because `controller.abort` would also close a connection that has carried nothing of this request.
      if (this.#purpose !== 'submission') throw reason;
      // Left open and idle, the connection would serve the next submission, which needs a new one.
      controller.abort(reason);
      return;
    }
    this.#controller = controller;
    progress.sentAtMs = performance.now();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: HeaderValues): void {
    const { progress, dialect } = this.context;
    if (this.#isFarewell(status, headers)) throw new LostConnectionError('the node closed an idle connection (408)');
    progress.isAnswered = true;
    if (status < 200) {
      this.#interim += 1;
      if (status === 101 || this.#interim > mostInterim)
        throw new BadAnswerError('status 101, or too many interim answers');
      return;
    }
    if (status > 599) throw new BadAnswerError('status above 599');
    if (!hasCertainEnd(headers)) throw new BadAnswerError('transfer coding leaves the end of the body uncertain');
    const upstream = this.#upstream;
    const info = upstream.infos.find(headers, dialect);
    const tookMs = sinceSent(progress);
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
    const { progress } = this.context;
    return progress.isRepeat !== true && isFresh(progress) && String(connection).toLowerCase().includes('close');
  }
}

/**
 * Whether the transfer coding ends the body with a last chunk (RFC 9112 6.1). undici passes on bytes of other codings, and
 * takes the end of the connection for the end of a body. It refuses a length that contradicts itself or the coding.
 */
function hasCertainEnd({ 'transfer-encoding': coding }: HeaderValues): boolean {
  return coding === undefined || (typeof coding === 'string' && coding.trimEnd().toLowerCase() === 'chunked');
}
