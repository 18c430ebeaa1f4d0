/**
 * An answer that goes to the client while it arrives. It holds a connection to the node until the client has read it,
 * so there are fewer places for streams than connections, and a client that reads nothing loses its answer.
 */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { AnswerHandler } from './fetch-whole.ts';
import {
  decode,
  gather,
  wholeAnswer,
  type AnswerHead,
  type ExchangeContext,
  type NodeAnswer,
  type NodeCoding,
  type StreamedAnswer,
} from './exchange.ts';
import type { Purpose, WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';

/** Bounds of a stream: it fails when the node, or its reader, stands still. */
interface StreamBounds {
  /** Longest time without bytes from the node. */
  readonly idleMs: number;
  /** Longest time without a read although there are bytes; up to twice as long after a large read. */
  readonly stallMs: number;
}

/**
 * The kernel reads a megabyte and over at a time, when it has sent much of its buffer to the client: so bytes that it
 * has read count as in flight at this speed, in bytes a millisecond. The bound limits that time, because the kernel
 * reads as much for a client that reads nothing.
 */
const slowestSpeed = 32;

/** Bytes that wait for the reader at most; beyond them the socket exerts backpressure on the node. */
const bufferBytes = 64 * 1024;

/**
 * Resolves with the answer's head and its stream. Rejects when the connection fails before the head, or on abort, which
 * ends the stream as well.
 */
export function fetchStream(
  upstream: Upstream,
  request: WireRequest,
  context: ExchangeContext,
  bounds: StreamBounds,
  purpose: Purpose,
): Promise<StreamedAnswer> {
  return new Streamer(upstream, context, purpose, bounds).send(upstream.client, request);
}

/** Calls `then` when the stream closes, at once when it is closed already. */
export function onceClosed(stream: Readable, then: () => void): void {
  if (stream.closed) then();
  else stream.once('close', then);
}

/** Reads a streamed answer to its end, within the budget. Rejects as `fetchWhole` does. */
export async function readWhole(
  answer: StreamedAnswer,
  context: Pick<ExchangeContext, 'budget' | 'signal' | 'client'>,
): Promise<NodeAnswer> {
  const share = context.budget.open((reason) => answer.stream.destroy(reason));
  const sent = await gather(answer.stream, share, context.signal);
  const { stream: _, ...head } = answer;
  return wholeAnswer(head, sent, context);
}

class Streamer extends AnswerHandler<StreamedAnswer> {
  readonly #bounds: StreamBounds;
  #stream: NodeStream | undefined;

  constructor(upstream: Upstream, context: ExchangeContext, purpose: Purpose, bounds: StreamBounds) {
    super(upstream, context, purpose);
    this.#bounds = bounds;
  }

  protected onHead(head: AnswerHead, controller: Dispatcher.DispatchController): void {
    const stream = new NodeStream(controller, this.#bounds);
    stream.once('close', () => this.unfollow());
    this.#stream = stream;
    this.settled.resolve({ ...head, stream });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#stream?.give(chunk);
  }

  onResponseEnd(): void {
    this.#stream?.finish();
  }

  protected override abort(reason: Error): void {
    // Bytes that arrived and were not read are dropped, too.
    if (this.#stream === undefined) super.abort(reason);
    else this.#stream.destroy(reason);
  }

  protected onFailure(error: Error): void {
    if (this.#stream !== undefined) {
      this.#stream.destroy(error);
      return;
    }
    this.unfollow();
    this.settled.reject(error);
  }
}

/** The body of one answer. Its early close closes the connection to the node. */
class NodeStream extends Readable {
  readonly #controller: Dispatcher.DispatchController;
  readonly #stallMs: number;
  /** Runs while the node may send. */
  readonly #quiet: NodeJS.Timeout;
  #isWaiting = true;
  /** Runs while bytes wait for a read. */
  #stall: NodeJS.Timeout | undefined;
  #received = 0;
  #read = 0;
  /** Until then a slow client may be busy with bytes that were read, in ms of `performance.now()`. */
  #busyUntilMs = 0;

  constructor(controller: Dispatcher.DispatchController, { idleMs, stallMs }: StreamBounds) {
    super({ highWaterMark: bufferBytes });
    this.#controller = controller;
    this.#stallMs = stallMs;
    this.#quiet = setTimeout(() => {
      // Under backpressure the node cannot send.
      if (this.#isWaiting) this.destroy(new Error(`the node has sent nothing for ${idleMs} ms`));
    }, idleMs);
    // The stream may fail before its reader listens; a later read reports the error.
    this.on('error', () => undefined);
  }

  /** The bytes without their `coding`. Fails as `decode` does. */
  decoded(coding: NodeCoding): Readable {
    return Readable.from(decode(this, coding), { objectMode: false });
  }

  /** `chunk` is not copied: the socket allocated its bytes for this read alone. */
  give(chunk: Buffer): void {
    this.#received += chunk.length;
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
    this.#controller.abort(error ?? new Error('the reader closed the answer'));
    callback(error);
  }

  #watch(): void {
    clearTimeout(this.#stall);
    const boundMs = Math.ceil(this.#stallMs + this.#busyMs());
    this.#stall = setTimeout(() => {
      this.destroy(new Error(`the client has read nothing for ${boundMs} ms`));
    }, boundMs);
  }

  /** How long a slow client may still be busy with bytes that were read. */
  #busyMs(): number {
    const nowMs = performance.now();
    const read = this.#received - this.readableLength;
    const doneAtMs = Math.max(nowMs, this.#busyUntilMs) + (read - this.#read) / slowestSpeed;
    this.#read = read;
    this.#busyUntilMs = Math.min(doneAtMs, nowMs + this.#stallMs);
    return this.#busyUntilMs - nowMs;
  }
}
