/**
 * A client's connection on the fast path, with one request in flight at a time. The first unsupported bytes hand the
 * connection over to the HTTP server for good, before any answer to that request.
 */
import type { Socket } from 'node:net';
import { isRefused, noteFastPath, setAnswering, survivesHalfClose } from '../server/connection-state.ts';
import { AnswerQueue, type AnswerQueueParts } from './answer-queue.ts';
import { RequestAnswers, type RequestAnswersParts } from './request-answers.ts';
import { readHead, type HeaderBlocks } from './request-head.ts';

/** Parts shared by all connections. */
export interface FastPathParts extends RequestAnswersParts, Pick<AnswerQueueParts, 'turnEnd' | 'arenas'> {
  readonly blocks: HeaderBlocks;
  /** Moves the connection to the HTTP server, with `rest` as its next bytes. */
  handOver(connection: FastConnection, rest: Buffer): void;
  /** Refuses an incomplete request with the error that Node's server would emit for it. */
  refuse(connection: FastConnection, code: string): void;
  onClose(connection: FastConnection): void;
}

/** Requests answered from one chunk; the server bounds longer pipelines. */
const mostAtOnce = 16;
/** Bytes ahead of an answer that pause the socket, and unread bytes of answers under TLS. */
const mostAhead = 64 * 1024;

/** A request of `bytes.length` bytes, of which `filled` have arrived. */
interface PartialRequest {
  readonly bytes: Buffer;
  filled: number;
  /** In ms of `performance.now()`. */
  readonly sinceMs: number;
}

/** Reads requests from one socket, until it hands the socket over. */
export class FastConnection {
  readonly socket: Socket;
  readonly queue: AnswerQueue;
  readonly #answers: RequestAnswers;
  readonly #parts: FastPathParts;
  readonly #listeners;
  #hasRequest = false;
  /** A request or an answer since the last call of `quietMs`. */
  #isActive = true;
  #quietSinceMs = 0;
  /** A request whose body is still arriving. */
  #partial: PartialRequest | undefined;
  /** Bytes received while an answer is in flight. */
  #ahead: Buffer | undefined;

  constructor(socket: Socket, parts: FastPathParts) {
    this.socket = socket;
    this.queue = new AnswerQueue(socket, parts);
    this.#answers = new RequestAnswers(this.queue, parts, (isKept) => this.#onAnswered(isKept));
    this.#parts = parts;
    this.#listeners = {
      data: (chunk: Buffer) => this.#onData(chunk),
      end: () => this.#onEnd(),
      timeout: () => this.#onTimeout(),
      error: () => socket.destroy(),
      close: () => this.#onClose(),
    };
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
  }

  /** No request and no answer in flight, and no bytes that the client has not read. */
  get isIdle(): boolean {
    return this.#answers.inFlight === undefined && this.#partial === undefined && this.queue.isEmpty;
  }

  /** Whether the rest of a request has been awaited for longer than `boundMs`. `nowMs`: `performance.now()`. */
  isLate(boundMs: number, nowMs: number): boolean {
    return this.#partial !== undefined && nowMs - this.#partial.sinceMs > boundMs;
  }

  /** Whether the connection has carried a request. */
  get hasRequest(): boolean {
    return this.#hasRequest;
  }

  /** Milliseconds of idleness, as of the calls so far. Call it every few seconds with `performance.now()`. */
  quietMs(nowMs: number): number {
    if (this.#isActive || !this.isIdle) {
      this.#isActive = false;
      this.#quietSinceMs = nowMs;
    }
    return nowMs - this.#quietSinceMs;
  }

  /**
   * Sets the socket's timeout while an answer is in flight: only the socket sees the progress of a large body. Called
   * as often as `quietMs`: a call with each answer would slow hits.
   */
  watch(inactivityMs: number): void {
    const timeoutMs = this.isIdle ? 0 : inactivityMs;
    if (timeoutMs !== (this.socket.timeout ?? 0)) this.socket.setTimeout(timeoutMs);
  }

  #onTimeout(): void {
    // The connection may have become idle since `watch`.
    if (!this.isIdle) this.socket.destroy();
  }

  #onData(chunk: Buffer): void {
    // Bytes behind the last answer are no request (RFC 9112 9.6).
    if (this.socket.writableEnded) return;
    this.#isActive = true;
    if (!this.#hasRequest) {
      this.#hasRequest = true;
      noteFastPath(this.socket);
    }
    if (this.#answers.inFlight !== undefined) this.#keepAhead(chunk);
    else if (this.#partial !== undefined) this.#fill(this.#partial, chunk);
    else this.#serve(chunk);
  }

  /** Answers the requests in `chunk` in order, until the first unsupported one. */
  #serve(chunk: Buffer): void {
    const text = chunk.toString('latin1');
    let answered = 0;
    for (let from = 0; from < text.length; answered += 1) {
      const head = answered < mostAtOnce && this.#mayAnswer() ? readHead(text, from, this.#parts.blocks) : undefined;
      const isWhole = head !== undefined && head.end <= text.length;
      if (head !== undefined && !isWhole && this.#answers.needsBody(head)) {
        return this.#await(chunk.subarray(from), head.end - from);
      }
      if (head === undefined || !isWhole || !this.#answers.answer(head, text, chunk)) {
        return this.#handOver(from === 0 ? chunk : chunk.subarray(from));
      }
      from = head.end;
      if (this.socket.destroyed || this.socket.writableEnded) return undefined;
      if (this.#answers.inFlight !== undefined && from < text.length) this.#keepAhead(chunk.subarray(from));
      if (this.#answers.inFlight !== undefined) return undefined;
    }
    return undefined;
  }

  /** Waits for the rest of a request of `length` bytes, of which `begun` have arrived. */
  #await(begun: Buffer, length: number): void {
    // One buffer: a list of pieces would take a hundred bytes for each byte that arrives alone.
    const bytes = Buffer.allocUnsafeSlow(length);
    begun.copy(bytes);
    this.#partial = { bytes, filled: begun.length, sinceMs: performance.now() };
    setAnswering(this.socket, true);
  }

  #fill(partial: PartialRequest, chunk: Buffer): void {
    const taken = chunk.copy(partial.bytes, partial.filled);
    partial.filled += taken;
    if (partial.filled < partial.bytes.length) return;
    this.#partial = undefined;
    setAnswering(this.socket, false);
    this.#serve(taken === chunk.length ? partial.bytes : Buffer.concat([partial.bytes, chunk.subarray(taken)]));
  }

  /** The server answers on refused connections, and to clients that read no answers. */
  #mayAnswer(): boolean {
    return this.socket.writableLength <= (this.queue.isEncrypted ? mostAhead : 0) && !isRefused(this.socket);
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead = this.#ahead === undefined ? bytes : Buffer.concat([this.#ahead, bytes]);
    if (this.#ahead.length > mostAhead) this.socket.pause();
  }

  #serveAhead(): void {
    const ahead = this.#ahead;
    if (ahead === undefined) return undefined;
    this.#ahead = undefined;
    // Behind a half-close, requests that wait for a node are given up, and others answered.
    if (this.socket.readableEnded) return this.#handOver(ahead);
    // `#keepAhead` pauses it again if too much remains.
    this.socket.resume();
    return this.#serve(ahead);
  }

  #onAnswered(isKept: boolean): void {
    this.#isActive = true;
    if (isKept) this.#serveAhead();
    else this.queue.finish();
  }

  #handOver(rest: Buffer): void {
    this.queue.flush();
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    this.#parts.handOver(this, rest);
  }

  /** Treats a half-close as a hang-up, as the HTTP server does. */
  #onEnd(): void {
    const { inFlight } = this.#answers;
    if (inFlight !== undefined && survivesHalfClose(inFlight)) {
      // The answer goes on at the client's pace, then the connection ends; bytes behind the request are the server's.
      if (this.#ahead === undefined) inFlight.shouldKeepAlive = false;
      return;
    }
    // The submission and its answer are the server's, behind the answer in flight.
    if (inFlight !== undefined && this.#holdsSubmission(this.#ahead)) return;
    if (this.#partial !== undefined) {
      this.#parts.refuse(this, 'HPE_INVALID_EOF_STATE');
      return;
    }
    this.#abandon();
    this.queue.flush();
    this.socket.end();
  }

  /** Whether a submission may be among the bytes ahead, which its client expects to take effect. */
  #holdsSubmission(ahead: Buffer | undefined): boolean {
    const targets = ahead?.toString('latin1').matchAll(postLine) ?? [];
    const { router } = this.#parts.proxy;
    for (const [, target = ''] of targets) if (router.match('POST', target).route.kind === 'submit') return true;
    return false;
  }

  #onClose(): void {
    this.#abandon();
    this.#parts.onClose(this);
  }

  #abandon(): void {
    this.#partial = undefined;
    this.#ahead = undefined;
    this.#answers.abandon();
  }
}

const postLine = /POST (\/[!-~]{0,200}) HTTP/g;
