/**
 * A client's connection on the fast path, with one request in flight at a time. The first unsupported bytes hand the
 * connection over to the HTTP server for good, before any answer to that request.
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { FastPathMetrics } from '../../../metrics/http-metrics.ts';
import { isRefused, noteFastPath, setAnswering, survivesHalfClose } from '../server/connection-state.ts';
import type { AccessControl, AwaitedTicket } from '../../routes/access-control.ts';
import { AdmittedRequest } from '../admitted-request.ts';
import { answer, faultAheadOfBody, refuse, type WholeRequest } from '../../routes/handle.ts';
import type { Match } from '../../routes/router.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import { CachedTarget, postedName } from '../../routes/target-cache.ts';
import { longestTarget } from '../target.ts';
import type { Incoming } from '../message.ts';
import type { Flushable, TurnEnd } from './turn-end.ts';
import { arenaBytes, type Arena, type Arenas } from './arena.ts';
import { FastResponse, type AnswerSink } from './response.ts';
import type { LiveHeaders } from './head-text.ts';
import type { PreparedHits } from './prepared-hits.ts';
import { readHead, type HeaderBlocks, type PlainHead } from './request-head.ts';

/** Parts shared by all connections. */
export interface FastPathParts {
  readonly proxy: ServerParts;
  readonly metrics: FastPathMetrics;
  readonly blocks: HeaderBlocks;
  readonly live: LiveHeaders;
  readonly hits: PreparedHits<AnswerSink>;
  readonly turnEnd: TurnEnd;
  readonly arenas: Arenas;
  /** Moves the connection to the HTTP server, with `rest` as its next bytes. */
  handOver(connection: FastConnection, rest: Buffer): void;
  /** Refuses an incomplete request with the error that Node's server would emit for it. */
  refuse(connection: FastConnection, code: string): void;
  onClose(connection: FastConnection): void;
}

/** Requests answered from one chunk; the server bounds longer pipelines. */
const mostAtOnce = 16;
/** Characters of a target without a fragment; Node's parser decides on all others. */
const plainTarget = /^[!-"$-~]*$/;
/** Bytes ahead of an answer that pause the socket, and unread bytes of answers under TLS. */
const mostAhead = 64 * 1024;

/** Answers one request. */
type Begin = (received: WholeRequest) => void;

/** One request and its bytes. */
interface PlainRequest {
  readonly head: PlainHead;
  readonly body: Buffer;
}

/** A request of `bytes.length` bytes, of which `filled` have arrived. */
interface PartialRequest {
  readonly bytes: Buffer;
  filled: number;
  /** In ms of `performance.now()`. */
  readonly sinceMs: number;
}

/** Reads requests from one socket, and writes their answers at the end of each turn of the event loop. */
export class FastConnection implements AnswerSink, Flushable {
  readonly socket: Socket;
  readonly #isEncrypted: boolean;
  readonly #parts: FastPathParts;
  readonly #listeners;
  #hasRequest = false;
  /** A request or an answer since the last call of `quietMs`. */
  #isActive = true;
  #quietSinceMs = 0;
  #inFlight: FastResponse | undefined;
  /** A request whose body is still arriving. */
  #partial: PartialRequest | undefined;
  /** Bytes received while an answer is in flight. */
  #ahead: Buffer | undefined;
  /** Answers queued for the end of the turn. */
  #text = '';
  #encoding: 'latin1' | 'utf8' = 'latin1';
  #arena: Arena | undefined;
  /** Large body that follows the queued answers, in a buffer of its own. */
  #body: Buffer | undefined;
  #from = 0;
  #to = 0;

  constructor(socket: Socket, parts: FastPathParts) {
    this.socket = socket;
    this.#isEncrypted = socket instanceof TLSSocket;
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
    const isWaiting = this.#inFlight !== undefined || this.#partial !== undefined;
    return !isWaiting && !this.#isSending && this.socket.writableLength === 0;
  }

  /** Whether the rest of a request has been awaited for longer than `boundMs`. `nowMs`: `performance.now()`. */
  isLate(boundMs: number, nowMs: number): boolean {
    return this.#partial !== undefined && nowMs - this.#partial.sinceMs > boundMs;
  }

  get #isSending(): boolean {
    return this.#text !== '' || this.#arena !== undefined;
  }

  send(text: string, encoding: 'latin1' | 'utf8'): void {
    // Answers of another form must not overtake the queued ones.
    if (this.#arena !== undefined || this.#body !== undefined || encoding !== this.#encoding) this.flush();
    if (this.#text === '') this.#parts.turnEnd.add(this);
    this.#text += text;
    this.#encoding = encoding;
  }

  sendFrom(arena: Arena, from: number): void {
    const to = arena.used;
    const isNext = this.#arena === arena && this.#to === from && this.#body === undefined;
    if (!isNext) {
      // Ahead of the flush, which would otherwise free the arena.
      this.#parts.arenas.hold(arena);
      this.flush();
      this.#parts.turnEnd.add(this);
      this.#arena = arena;
      this.#from = from;
    }
    this.#to = to;
  }

  sendBehind(body: Buffer): void {
    this.#body = body;
  }

  sendPiece(piece: Buffer, onSent?: () => void): boolean {
    return this.socket.write(piece, onSent);
  }

  finish(): void {
    this.flush();
    this.socket.destroySoon();
  }

  flush(): void {
    const text = this.#text;
    const arena = this.#arena;
    const body = this.#body;
    this.#text = '';
    this.#arena = undefined;
    this.#body = undefined;
    // TLS reports a write as done in a later turn, and keeps its own copy of the bytes until then.
    const isBehind = !this.#isEncrypted || this.socket.writableLength > 0;
    if (body !== undefined) this.socket.cork();
    if (text !== '') this.#write(text);
    else if (arena !== undefined) this.#writeFrom(arena, body !== undefined || this.#isEncrypted);
    if (body !== undefined) {
      this.#write(body);
      this.socket.uncork();
    }
    if (!isBehind || this.socket.writableLength === 0) return;
    // An unread short answer keeps its whole arena.
    this.#parts.proxy.unsent.trackSocket(this.socket, this.#isEncrypted ? 0 : arenaBytes);
  }

  /** `isCopied`: a body follows, which the client may read slowly, so the arena is released at once. */
  #writeFrom(arena: Arena, isCopied: boolean): void {
    const bytes = arena.bytes.subarray(this.#from, this.#to);
    this.#write(isCopied ? Buffer.from(bytes) : bytes);
    this.#parts.arenas.release(arena, isCopied || this.socket.writableLength === 0);
  }

  #write(bytes: string | Buffer): void {
    if (!this.socket.destroyed) this.socket.write(bytes, this.#encoding);
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
    if (this.#inFlight !== undefined) this.#keepAhead(chunk);
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
      if (head !== undefined && !isWhole && this.#needsBody(head)) {
        return this.#await(chunk.subarray(from), head.end - from);
      }
      if (head === undefined || !isWhole || !this.#answer(head, text, chunk)) {
        return this.#handOver(from === 0 ? chunk : chunk.subarray(from));
      }
      from = head.end;
      if (this.socket.destroyed || this.socket.writableEnded) return undefined;
      if (this.#inFlight !== undefined && from < text.length) this.#keepAhead(chunk.subarray(from));
      if (this.#inFlight !== undefined) return undefined;
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
    return this.socket.writableLength <= (this.#isEncrypted ? mostAhead : 0) && !isRefused(this.socket);
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

  /** Whether the answer depends on the body. The server answers other requests ahead of their bodies. */
  #needsBody(head: PlainHead): boolean {
    const { proxy } = this.#parts;
    const match = this.#match(head);
    return match !== undefined && faultAheadOfBody(proxy, this.#requestOf(head), match) === undefined;
  }

  /** False: the request is unsupported. */
  #answer(head: PlainHead, text: string, chunk: Buffer): boolean {
    const { metrics, proxy } = this.#parts;
    const { access, targets } = proxy;
    const isPosted = head.method === 'POST';
    const known = isPosted ? targets.findNamed(nameOf(head, text)) : targets.find(head.target, head.block.form);
    if (access === undefined && known !== undefined && this.#answerHit(head, known)) return true;
    const match = known ?? this.#match(head);
    if (match === undefined) return false;
    const request = { head, body: isPosted ? chunk.subarray(head.bodyFrom, head.end) : noBody };
    if (access === undefined) {
      metrics.read.inc();
      this.#begin(request, (received) => answer(proxy, received, match));
    } else this.#admit(request, match, access);
    return true;
  }

  #answerHit(head: PlainHead, target: CachedTarget, admitted?: AdmittedRequest): boolean {
    const { hits, metrics } = this.#parts;
    const { method, block, bodyFrom, end } = head;
    if (method === 'HEAD' || !hits.answer(block, target, this, admitted, end - bodyFrom)) return false;
    metrics.known.inc();
    return true;
  }

  /** Answers a request by its key or address and its limits, as `handle` does. */
  #admit({ head, body }: PlainRequest, match: Match | CachedTarget, access: AccessControl): void {
    const { metrics, proxy } = this.#parts;
    const { block } = head;
    let admitted: AdmittedRequest | AwaitedTicket;
    try {
      const request = this.#requestOf(head);
      admitted = access.enter(access.identify(request, block.known), request, match.operation);
    } catch (error) {
      metrics.read.inc();
      this.#begin({ head, body }, (received) => refuse(proxy, received, error));
      return;
    }
    if (admitted instanceof AdmittedRequest && match instanceof CachedTarget) {
      if (this.#answerHit(head, match, admitted)) return;
    }
    metrics.read.inc();
    this.#begin({ head, body }, (received) => {
      if (admitted instanceof AdmittedRequest) return answer(proxy, { ...received, admitted }, match);
      return access.await(admitted, received.response, {
        serve: (late) => answer(proxy, { ...received, admitted: late }, match),
        refuse: (error) => refuse(proxy, received, error),
      });
    });
  }

  /** The route of a new request; `undefined`: the server decides on its target. */
  #match({ method, target }: PlainHead): Match | undefined {
    if (target.length > longestTarget || !plainTarget.test(target)) return undefined;
    return this.#parts.proxy.router.match(method, target);
  }

  #begin({ head, body }: PlainRequest, begin: Begin): void {
    const { socket } = this;
    const { live } = this.#parts;
    const isHead = head.method === 'HEAD';
    const response = new FastResponse({ connection: this, live, isHead, onDone: (done) => this.#onDone(done) });
    response.shouldKeepAlive = head.block.isKept;
    this.#inFlight = response;
    begin({ request: this.#requestOf(head), response, body });
    if (this.#inFlight !== undefined) setAnswering(socket, true);
  }

  #requestOf({ method, target, block: { headers } }: PlainHead): Incoming {
    return { method, url: target, headers, socket: this.socket, httpVersion: '1.1', httpVersionMajor: 1 };
  }

  #onDone(response: FastResponse): void {
    if (this.#inFlight !== response) return;
    this.#inFlight = undefined;
    this.#isActive = true;
    setAnswering(this.socket, false);
    if (!response.shouldKeepAlive) {
      this.finish();
      return;
    }
    this.#serveAhead();
  }

  #handOver(rest: Buffer): void {
    this.flush();
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    this.#parts.handOver(this, rest);
  }

  /** Treats a half-close as a hang-up, as the HTTP server does. */
  #onEnd(): void {
    if (this.#inFlight !== undefined && survivesHalfClose(this.#inFlight)) {
      // The answer goes on at the client's pace, then the connection ends; bytes behind the request are the server's.
      if (this.#ahead === undefined) this.#inFlight.shouldKeepAlive = false;
      return;
    }
    // The submission and its answer are the server's, behind the answer in flight.
    if (this.#inFlight !== undefined && this.#holdsSubmission(this.#ahead)) return;
    if (this.#partial !== undefined) {
      this.#parts.refuse(this, 'HPE_INVALID_EOF_STATE');
      return;
    }
    this.#abandon();
    this.flush();
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
    const response = this.#inFlight;
    this.#inFlight = undefined;
    this.#partial = undefined;
    this.#ahead = undefined;
    response?.close();
  }
}

function nameOf({ target, block, bodyFrom, end }: PlainHead, text: string): string {
  return postedName(target, block.headers['content-type'] ?? '', block.form, text.slice(bodyFrom, end));
}

const noBody = Buffer.alloc(0);
const postLine = /POST (\/[!-~]{0,200}) HTTP/g;
