/** One request to one node whose answer is read to its end. */
import type { Dispatcher } from 'undici';
import { stopReason } from '../../ledger/stop.ts';
import { AnswerHandler, type HandlerParts, type Settle } from './answer-handler.ts';
import { TooLargeError, type Share } from '../byte-budget.ts';
import {
  requestTo,
  sinceSent,
  wholeAnswer,
  type AnswerHead,
  type ExchangeContext,
  type NodeAnswer,
} from './exchange.ts';
import type { NodeClient, Purpose, WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/**
 * Sends `request` and reads the whole answer. Rejects when the connection or the body fails, or on abort. `client`: the
 * connections, by default those of the node.
 */
export function fetchWhole(
  upstream: Upstream,
  request: WireRequest,
  context: ExchangeContext,
  purpose: Purpose = 'read',
  client: NodeClient = upstream.client,
): Promise<NodeAnswer> {
  return new Promise((resolve, reject) => {
    if (context.signal.aborted) {
      reject(stopReason(context.signal));
      return;
    }
    const handler = new Collector({ upstream, context, purpose }, { resolve, reject });
    client.dispatch(purpose, requestTo(upstream, request, context), handler);
  });
}

/** Largest announced body, in bytes, that is allocated at once; others are allocated as they arrive. */
const mostAtOnce = 1024 * 1024;
const nothing = Buffer.alloc(0);

/** Gathers one body into one Buffer. */
class Collector extends AnswerHandler {
  readonly #settle: Settle<NodeAnswer>;
  readonly #share: Share;
  #head: AnswerHead | undefined;
  /** Begins with the bytes of the body that arrived. */
  #room = nothing;
  #filled = 0;

  constructor(parts: HandlerParts, settle: Settle<NodeAnswer>) {
    super(parts);
    this.#settle = settle;
    this.#share = parts.context.budget.open((reason) => this.abort(reason));
  }

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
    const length = Number(this.#head?.headers['content-length']);
    const before = this.#room;
    const announced = length <= mostAtOnce ? length : 0;
    const wanted = filled === 0 ? announced : Math.min(before.length * 2, this.#longest(length));
    const size = Math.max(this.#filled, wanted);
    this.#share.take(size - before.length);
    this.#room = Buffer.allocUnsafe(size);
    before.copy(this.#room, 0, 0, filled);
  }

  /** Bound of the body in bytes. `length`: the announced one, NaN without. */
  #longest(length: number): number {
    const { largest } = this.#share;
    return length < largest ? length : largest;
  }

  onResponseEnd(): void {
    this.#close();
    const { context } = this;
    // A copy frees unused room at once. A small body stays a part of Node's buffer pool.
    const body = this.#filled === this.#room.length ? this.#room : Buffer.from(this.#room.subarray(0, this.#filled));
    const head = { ...(this.#head as AnswerHead), tookMs: sinceSent(context.progress) };
    this.#settle.resolve(wholeAnswer(head, body, context));
  }

  protected onFailure(error: Error): void {
    this.#close();
    this.#settle.reject(error);
  }

  #close(): void {
    this.#share.close();
    this.unfollow();
  }
}
