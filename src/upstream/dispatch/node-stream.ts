/**
 * An answer that is handed on while it comes. It holds a connection to the node for as long as the client takes over
 * it, so there are fewer places for streams than connections, and a client that takes nothing loses its answer.
 */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { stopReason } from '../../ledger/stop.ts';
import { AnswerHandler, type HandlerParts } from './answer-handler.ts';
import {
  requestTo,
  wholeAnswer,
  type AnswerHead,
  type ExchangeContext,
  type NodeAnswer,
  type StreamedAnswer,
} from './exchange.ts';
import type { Purpose, WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

export interface StreamBounds {
  /** The stream fails when the node sends nothing for this long. */
  readonly idleMs: number;
  /**
   * The stream fails when its reader takes nothing for this long although there is more; up to twice as long after it
   * took much at once.
   */
  readonly stallMs: number;
}

/**
 * The kernel takes in steps of a megabyte and over, when much of what it holds for a client has gone out. So what was
 * taken counts as being under way at this speed, in bytes a millisecond (32 kB a second), but for no longer than the
 * bound: for who reads nothing at all it takes as much.
 */
const slowestSpeed = 32;

/** Held for a reader at once; beyond it the node is made to wait. */
const bufferBytes = 64 * 1024;

/**
 * Asks `upstream` and hands the body on as it comes. Rejects when the connection fails before the answer's head, or on
 * abort, which ends the stream as well.
 */
export function fetchStream(
  upstream: Upstream,
  request: WireRequest,
  context: ExchangeContext & StreamBounds,
  purpose: Purpose,
): Promise<StreamedAnswer> {
  return new Promise((resolve, reject) => {
    if (context.signal.aborted) {
      reject(stopReason(context.signal));
      return;
    }
    const handler = new Streamer({ upstream, context, purpose }, { resolve, reject });
    upstream.client.dispatch(purpose, requestTo(upstream, request, context), handler);
  });
}

/** Calls `then` when the stream is closed, at once if it is: it may have been before anybody could listen. */
export function onceClosed(stream: Readable, then: () => void): void {
  if (stream.closed) then();
  else stream.once('close', then);
}

/** Reads a streamed answer to its end, as `fetchWhole` would have. */
export async function readWhole(
  answer: StreamedAnswer,
  context: Pick<ExchangeContext, 'budget' | 'signal'>,
): Promise<NodeAnswer> {
  const chunks: Buffer[] = [];
  const share = context.budget.open((reason) => answer.stream.destroy(reason));
  try {
    for await (const chunk of answer.stream) {
      share.take((chunk as Buffer).length);
      chunks.push(chunk as Buffer);
    }
  } finally {
    share.close();
  }
  const { stream: _, ...head } = answer;
  return wholeAnswer(head, Buffer.concat(chunks), context);
}

interface Settle {
  resolve(answer: StreamedAnswer): void;
  reject(error: Error): void;
}

/** Makes a stream of one exchange. */
class Streamer extends AnswerHandler<ExchangeContext & StreamBounds> {
  readonly #settle: Settle;
  #stream: NodeStream | undefined;

  constructor(parts: HandlerParts<ExchangeContext & StreamBounds>, settle: Settle) {
    super(parts);
    this.#settle = settle;
  }

  protected onHead(head: AnswerHead, controller: Dispatcher.DispatchController): void {
    const stream = new NodeStream(controller, this.context);
    stream.once('close', () => this.unfollow());
    this.#stream = stream;
    this.#settle.resolve({ ...head, stream });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#stream?.give(chunk);
  }

  onResponseEnd(): void {
    this.#stream?.finish();
  }

  protected override abort(reason: Error): void {
    // Parts that arrived and were not taken yet are dropped, too.
    if (this.#stream === undefined) super.abort(reason);
    else this.#stream.destroy(reason);
  }

  protected onFailure(error: Error): void {
    if (this.#stream !== undefined) {
      this.#stream.destroy(error);
      return;
    }
    this.unfollow();
    this.#settle.reject(error);
  }
}

/** The body on its way. Closing it early closes the connection to the node. */
class NodeStream extends Readable {
  readonly #controller: Dispatcher.DispatchController;
  readonly #stallMs: number;
  /** Runs while the node is to send something. */
  readonly #quiet: NodeJS.Timeout;
  #isWaiting = true;
  /** Runs while there is something to take and nobody takes it. */
  #stall: NodeJS.Timeout | undefined;
  #given = 0;
  #taken = 0;
  /** Until then a slow client may be busy with what was taken, in ms of `performance.now()`. */
  #busyUntilMs = 0;

  constructor(controller: Dispatcher.DispatchController, { idleMs, stallMs }: StreamBounds) {
    super({ highWaterMark: bufferBytes });
    this.#controller = controller;
    this.#stallMs = stallMs;
    this.#quiet = setTimeout(() => {
      // One that is made to wait has nothing to send.
      if (this.#isWaiting) this.destroy(new Error(`the node has sent nothing for ${idleMs} ms`));
    }, idleMs);
    // It may fail before anybody reads it; whoever does hears of it then.
    this.on('error', () => undefined);
  }

  /** `chunk` is not copied: undici hands on the bytes that the socket allocated for this read alone. */
  give(chunk: Buffer): void {
    this.#given += chunk.length;
    this.#quiet.refresh();
    if (this.push(chunk)) return;
    this.#isWaiting = false;
    this.#controller.pause();
    this.#watch();
  }

  finish(): void {
    clearTimeout(this.#quiet);
    this.push(null);
    this.#watch();
  }

  override _read(): void {
    clearTimeout(this.#stall);
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#quiet.refresh();
    this.#controller.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearTimeout(this.#stall);
    clearTimeout(this.#quiet);
    this.#controller.abort(error ?? new Error('nobody reads the answer any more'));
    callback(error);
  }

  #watch(): void {
    clearTimeout(this.#stall);
    const boundMs = Math.ceil(this.#stallMs + this.#busyMs());
    this.#stall = setTimeout(() => {
      this.destroy(new Error(`nothing of the answer was taken for ${boundMs} ms`));
    }, boundMs);
  }

  /** How long a slow client may still be busy with what was taken so far. */
  #busyMs(): number {
    const nowMs = performance.now();
    const taken = this.#given - this.readableLength;
    const doneAtMs = Math.max(nowMs, this.#busyUntilMs) + (taken - this.#taken) / slowestSpeed;
    this.#taken = taken;
    this.#busyUntilMs = Math.min(doneAtMs, nowMs + this.#stallMs);
    return this.#busyUntilMs - nowMs;
  }
}
