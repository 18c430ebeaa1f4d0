/**
 * The fast path accepts connections ahead of Node's HTTP server and answers plain reads, with one request in flight at a
 * time. The first unsupported bytes hand the connection over to the server for good, with every unanswered byte
 * (docs/fast-path.md).
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { clientOf } from '../../../access/index.ts';
import type { GatewayError } from '../../../ledger/index.ts';
import { ArrivingBody, type BodyReservation, Pieces } from '../bodies.ts';
import { keepAliveMs } from '../heads.ts';
import type { FastPathMetrics } from '../http-metrics.ts';
import { stateOf, survivesHalfClose, type ConnectionState } from '../server/connection-state.ts';
import { endInput, intercept } from '../server/paced-input.ts';
import type { PacedWork } from '../server/turn-shares.ts';
import type { ServerParts } from '../service.ts';
import { DirectMatches } from '../target-cache.ts';
import { ownCopy } from '../target.ts';
import { AnswerQueue, AnswerTurn } from './answer-queue.ts';
import { FastStreams } from './h2-hits.ts';
import { HitText, PreparedHits, PreparedInfo, SharedHeads } from './prepared-hits.ts';
import { type FastPathParts, RequestAnswers } from './request-answers.ts';
import { HeaderBlocks, readHead, type PlainHead } from './request-head.ts';

/** Node's code for a request that did not arrive in time. */
const lateCode = 'ERR_HTTP_REQUEST_TIMEOUT';
/** Requests answered at once from a chunk within `longestUnpaced`. */
const mostAtOnce = 16;
/** Bytes; the requests of a longer chunk are answered within the client's share of a turn. */
const longestUnpaced = 4 * 1024;
/** Bytes ahead of an answer that pause the socket, and unread bytes of answers under TLS. */
const mostAhead = 64 * 1024;

/** The fast path of one server. */
export class FastPath {
  readonly #server: Server;
  readonly #proxy: ServerParts;
  readonly #metrics: FastPathMetrics;
  readonly #open = new Set<FastConnection>();
  readonly #timer: NodeJS.Timeout;
  readonly #passOn: (socket: Socket) => void;

  /** Throws when `server` has a connection listener besides its own. */
  constructor(server: Server, proxy: ServerParts, metrics: FastPathMetrics) {
    this.#server = server;
    this.#proxy = proxy;
    this.#metrics = metrics;
    const { tls } = proxy;
    const turn = new AnswerTurn();
    const sharedHeads = new SharedHeads();
    const hitText = new HitText(proxy, turn);
    const parts: FastPathParts = {
      proxy,
      metrics,
      blocks: new HeaderBlocks(),
      turn,
      directMatches: new DirectMatches(),
      hits: new PreparedHits(proxy, hitText, sharedHeads),
      info: new PreparedInfo(proxy, hitText),
    };
    const accept = (socket: Socket): void => void this.#open.add(new FastConnection(socket, parts, this));
    this.#passOn = tls === undefined ? intercept(server, accept) : tls.intercept(accept);
    if (tls !== undefined) new FastStreams(tls, parts, sharedHeads);
    this.#timer = setInterval(() => this.#closeQuiet(), proxy.times.checkMs).unref();
    server.once('close', () => clearInterval(this.#timer));
  }

  /** Moves the connection to the HTTP server, with `rest` as its next bytes. */
  handOver(connection: FastConnection, rest: Buffer): void {
    this.#open.delete(connection);
    this.#metrics.handovers.inc();
    const { socket } = connection;
    this.#passOn(socket);
    if (socket.readableEnded) endInput(socket, rest);
    else {
      socket.unshift(rest);
      socket.resume();
    }
  }

  /** Refuses an incomplete request with the error that Node's server would emit for it. */
  refuse(socket: Socket, code: string): void {
    this.#server.emit('clientError', Object.assign(new Error('incomplete request'), { code }), socket);
  }

  onClose(connection: FastConnection): void {
    this.#open.delete(connection);
  }

  /** Closes the connections between two requests. */
  closeIdle(): void {
    for (const connection of this.#open) {
      if (stateOf(connection.socket).isOnFastPath && connection.isIdle) connection.socket.destroy();
    }
  }

  /** Closes connections quiet for as long as Node's server would wait, and watches the busy ones. */
  #closeQuiet(): void {
    const nowMs = performance.now();
    const { headMs, requestMs, inactivityMs: usualMs } = this.#proxy.times;
    // A reload may change it.
    const inactivityMs = this.#server.timeout || usualMs;
    for (const connection of this.#open) {
      const { socket } = connection;
      connection.watch(inactivityMs);
      connection.refuseLate(requestMs, nowMs);
      const quietMs = connection.quietMs(nowMs);
      const { isOnFastPath, isRefused } = stateOf(socket);
      if (isOnFastPath) {
        if (quietMs > keepAliveMs) socket.destroy();
      } else if (quietMs > headMs && !isRefused) {
        this.refuse(socket, lateCode);
      }
    }
  }
}

/** A request whose body is arriving. */
interface PartialRequest {
  readonly head: PlainHead;
  /** In ms of `performance.now()`. */
  readonly sinceMs: number;
  /** Head and body. */
  readonly bytes: ArrivingBody;
  /** Bytes that have not arrived. */
  left: number;
}

/** Reads requests from one socket, until it hands the socket over. */
export class FastConnection implements PacedWork {
  readonly socket: Socket;
  readonly queue: AnswerQueue;
  readonly #answers: RequestAnswers;
  readonly #state: ConnectionState;
  readonly #parts: FastPathParts;
  readonly #owner: FastPath;
  readonly #listeners;
  /** A request or an answer since the last call of `quietMs`. */
  #isActive = true;
  #quietSinceMs = 0;
  /** A request whose body is still arriving. */
  #partial: PartialRequest | undefined;
  /** Bytes received while an answer is in flight, or a turn is awaited. */
  #ahead: Pieces | undefined;
  /** The next request is answered in a later turn. */
  #isWaiting = false;

  constructor(socket: Socket, parts: FastPathParts, owner: FastPath) {
    this.socket = socket;
    this.queue = new AnswerQueue(socket, parts.turn, parts.proxy.unsent);
    this.#answers = new RequestAnswers(this.queue, parts, (isKept) => this.#onAnswered(isKept));
    this.#parts = parts;
    this.#owner = owner;
    this.#state = stateOf(socket);
    this.#listeners = {
      data: (chunk: Buffer) => this.#onData(chunk),
      end: () => this.#onEnd(),
      // The connection may have become idle since `watch`.
      timeout: () => void (this.isIdle || socket.destroy()),
      error: () => socket.destroy(),
      close: () => this.#onClose(),
    };
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
  }

  get client(): string {
    return clientOf(this.socket);
  }

  /** No request and no answer in flight, and no bytes that the client has not read. */
  get isIdle(): boolean {
    if (this.#isWaiting) return false;
    return this.#answers.inFlight === undefined && this.#partial === undefined && this.queue.isEmpty;
  }

  /** Refuses a request whose rest has been awaited for longer than `boundMs`. `nowMs`: `performance.now()`. */
  refuseLate(boundMs: number, nowMs: number): void {
    if (this.#partial === undefined || nowMs - this.#partial.sinceMs <= boundMs) return;
    // A second answer would be that of the next request.
    if (this.#partial.bytes.isDropped) this.socket.destroy();
    else this.#refuseRest(lateCode);
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
   * ahead of each `quietMs`: a call with each answer would slow hits. No timeout on a connection with requests or answers
   * since the last call: Node would restart it with each read and write.
   */
  watch(inactivityMs: number): void {
    const timeoutMs = this.isIdle || this.#isActive ? 0 : inactivityMs;
    if (timeoutMs !== (this.socket.timeout ?? 0)) this.socket.setTimeout(timeoutMs);
  }

  #onData(chunk: Buffer): void {
    // Bytes behind the last answer are no request (RFC 9112 9.6).
    if (this.socket.writableEnded) return;
    this.#isActive = true;
    this.#state.isOnFastPath = true;
    if (this.#answers.inFlight !== undefined || this.#isWaiting) this.#keepAhead(chunk);
    else if (this.#partial !== undefined) this.#fill(this.#partial, chunk);
    else if (chunk.length > longestUnpaced) this.#pace(chunk);
    else this.#serve(chunk);
  }

  #pace(chunk: Buffer): void {
    this.#keepAhead(chunk);
    this.#beginAhead();
  }

  #beginAhead(): void {
    if (this.#isWaiting || this.#ahead === undefined) return;
    this.#isWaiting = true;
    this.#parts.proxy.turns.begin(this);
    if (this.#isWaiting) this.socket.pause();
  }

  work(isOver: () => boolean): boolean {
    this.#isWaiting = false;
    this.#serveAhead(isOver);
    return this.#isWaiting;
  }

  #serveOrKeep(chunk: Buffer): void {
    if (chunk.length === 0 || this.socket.writableEnded) return undefined;
    return this.#answers.inFlight === undefined ? this.#serve(chunk) : this.#keepAhead(chunk);
  }

  /**
   * Answers the requests in `chunk` in order, until the first unsupported one, or until `isOver`. `reserved`: memory of
   * the first one's body.
   */
  #serve(chunk: Buffer, reserved?: BodyReservation, isOver?: () => boolean): void {
    const text = chunk.toString('latin1');
    let answered = 0;
    for (let from = 0; from < text.length; answered += 1) {
      if (answered > 0 && (isOver === undefined ? answered >= mostAtOnce : isOver())) {
        return this.#awaitTurn(chunk.subarray(from), isOver === undefined);
      }
      const head = this.#mayAnswer() ? readHead(text, from, this.#parts.blocks) : undefined;
      const isWhole = head !== undefined && head.end <= text.length;
      if (head !== undefined && !isWhole && this.#answers.needsBody(head)) {
        return this.#await(head, head.end - from, chunk.subarray(from));
      }
      if (
        head === undefined ||
        !isWhole ||
        !this.#answers.answer(head, text, chunk, from === 0 ? reserved : undefined)
      ) {
        if (from === 0) reserved?.close();
        return this.#handOver(from === 0 ? chunk : chunk.subarray(from));
      }
      from = head.end;
      if (this.socket.destroyed || this.socket.writableEnded) return undefined;
      if (this.#answers.inFlight !== undefined && from < text.length) this.#keepAhead(chunk.subarray(from));
      if (this.#answers.inFlight !== undefined) return undefined;
    }
    return undefined;
  }

  #awaitTurn(rest: Buffer, isDeferred: boolean): void {
    this.#keepAhead(rest);
    this.socket.pause();
    this.#isWaiting = true;
    if (isDeferred) this.#parts.proxy.turns.defer(this);
  }

  /** Waits for the rest of a request of `left` bytes, of which `begun` have arrived. */
  #await(received: PlainHead, left: number, begun: Buffer): void {
    // A slice would keep the text of the whole chunk in memory.
    const head = { ...received, target: ownCopy(received.target) };
    const bytes = new ArrivingBody(() => this.#answers.reserve(head, (fault) => this.#refuse(partial, fault)));
    const partial: PartialRequest = { head, sinceMs: performance.now(), bytes, left };
    this.#partial = partial;
    this.#state.isAnswering = true;
    this.#fill(partial, begun);
  }

  #fill(partial: PartialRequest, chunk: Buffer): void {
    const { bytes } = partial;
    const taken = chunk.subarray(0, partial.left);
    const rest = chunk.subarray(taken.length);
    partial.left -= taken.length;
    if (!bytes.add(taken)) return this.#handOver(Buffer.concat([bytes.whole(), rest]));
    if (partial.left > 0) return undefined;
    this.#partial = undefined;
    this.#state.isAnswering = this.#answers.inFlight !== undefined;
    if (bytes.isDropped) return this.#serveOrKeep(rest);
    const received = bytes.whole();
    return this.#serve(rest.length === 0 ? received : Buffer.concat([received, rest]), bytes.reservation);
  }

  /** Answers a request whose body was ended for lack of memory; the rest of the body is dropped. */
  #refuse({ head, bytes }: PartialRequest, fault: GatewayError): void {
    bytes.drop();
    this.#answers.refuse(head, fault);
  }

  /** The server answers on refused connections, and to clients that read no answers. */
  #mayAnswer(): boolean {
    return this.socket.writableLength <= (this.queue.isEncrypted ? mostAhead : 0) && !this.#state.isRefused;
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead ??= new Pieces();
    this.#ahead.add(bytes);
    if (this.#ahead.length > mostAhead) this.socket.pause();
  }

  #serveAhead(isOver: () => boolean): void {
    const ahead = this.#ahead?.whole();
    if (ahead === undefined) return undefined;
    this.#ahead = undefined;
    // Behind a half-close, requests that wait for a node are given up, and others answered.
    if (this.socket.readableEnded) return this.#partial === undefined ? this.#handOver(ahead) : this.#end();
    // `#keepAhead` pauses it again if too much remains.
    this.socket.resume();
    return this.#partial === undefined ? this.#serve(ahead, undefined, isOver) : this.#fill(this.#partial, ahead);
  }

  #onAnswered(isKept: boolean): void {
    this.#isActive = true;
    if (isKept) this.#beginAhead();
    else this.queue.finish();
  }

  #handOver(rest: Buffer): void {
    this.queue.flush();
    if (this.#partial !== undefined) this.#state.isAnswering = false;
    this.#partial?.bytes.drop();
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    this.#owner.handOver(this, rest);
  }

  /** Treats a half-close as a hang-up, as the HTTP server does. */
  #onEnd(): void {
    // The server gets the rest, with the end.
    if (this.#isWaiting) return;
    const { inFlight } = this.#answers;
    if (inFlight !== undefined && survivesHalfClose(inFlight)) {
      // The answer goes on at the client's pace, then the connection ends; bytes behind the request are the server's.
      if (this.#ahead === undefined) inFlight.shouldKeepAlive = false;
      return;
    }
    // The submission and its answer are the server's, behind the answer in flight.
    if (inFlight !== undefined && this.#answers.hasSubmission(this.#ahead?.whole())) return;
    if (this.#partial?.bytes.isDropped === false) {
      this.#refuseRest('HPE_INVALID_EOF_STATE');
      return;
    }
    this.#end();
  }

  /** Refuses the incomplete request behind the answers of this turn. */
  #refuseRest(code: string): void {
    this.queue.flush();
    this.#owner.refuse(this.socket, code);
  }

  #end(): void {
    this.#abandon();
    this.queue.flush();
    this.socket.end();
  }

  #onClose(): void {
    this.#abandon();
    this.#owner.onClose(this);
  }

  #abandon(): void {
    this.#partial?.bytes.drop();
    this.#partial = undefined;
    this.#ahead = undefined;
    this.#answers.abandon();
  }
}
