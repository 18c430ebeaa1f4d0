/**
 * The fast path accepts connections ahead of Node's HTTP server and answers plain requests, one in flight at a time. The
 * first unsupported bytes hand the connection over to the server for good, with every unanswered byte (docs/fast-path.md).
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { LRUCache } from 'lru-cache';
import { type AdmittedRequest, clientOf } from '../../../access/index.ts';
import type { GatewayError } from '../../../ledger/index.ts';
import { ArrivingBody, type BodyReservation, Pieces, uncountedBytes } from '../bodies.ts';
import { keepAliveMs } from '../heads.ts';
import type { FastPathMetrics } from '../http-metrics.ts';
import type { Incoming, MatchedRoute } from '../message.ts';
import { answerDecided, type ServerParts } from '../serve.ts';
import { stateOf, survivesHalfClose, type ConnectionState } from '../server/connection-state.ts';
import { endInput, intercept } from '../server/paced-input.ts';
import type { PacedWork } from '../server/turn-shares.ts';
import { CachedTarget, ownCopy, postedName } from '../target-cache.ts';
import { longestTarget } from '../target.ts';
import { AnswerQueue, AnswerTurn, FastResponse } from './answer-queue.ts';
import { FastStreams } from './h2-hits.ts';
import { HitText, PreparedHits, PreparedInfo, SharedHeads } from './prepared-hits.ts';
import { HeaderBlocks, readHead, type PlainHead } from './request-head.ts';

/** Node's code for a request that did not arrive in time. */
const lateCode = 'ERR_HTTP_REQUEST_TIMEOUT';
/** Requests answered at once from a chunk within `longestUnpaced`. */
const mostAtOnce = 16;
/** Bytes; the requests of a longer chunk are answered within the client's share of a turn. */
const longestUnpaced = 4 * 1024;
/** Bytes ahead of an answer that pause the socket, and unread bytes of answers under TLS. */
const mostAhead = 64 * 1024;
/** Clients use a handful of targets whose answers are not cached; queries make others. */
const mostUncached = 64;

/** The fast path of one server, with what its connections share. */
export class FastPath {
  readonly proxy: ServerParts;
  readonly metrics: FastPathMetrics;
  readonly blocks = new HeaderBlocks();
  readonly turn = new AnswerTurn();
  readonly hits: PreparedHits<AnswerQueue>;
  readonly info: PreparedInfo;
  /** Matches of signing messages and submissions: no name with the whole body is looked up for them. */
  readonly uncached = new LRUCache<string, MatchedRoute>({ max: mostUncached });
  readonly #server: Server;
  readonly #open = new Set<FastConnection>();
  readonly #passOn: (socket: Socket) => void;

  /** Throws when `server` has a connection listener besides its own. */
  constructor(server: Server, proxy: ServerParts, metrics: FastPathMetrics) {
    this.#server = server;
    this.proxy = proxy;
    this.metrics = metrics;
    const { tls } = proxy;
    const sharedHeads = new SharedHeads();
    const hitText = new HitText(proxy, this.turn);
    this.hits = new PreparedHits(proxy, hitText, sharedHeads);
    this.info = new PreparedInfo(proxy, hitText);
    const accept = (socket: Socket): void => void this.#open.add(new FastConnection(socket, this));
    this.#passOn = tls === undefined ? intercept(server, accept) : tls.intercept(accept);
    if (tls !== undefined) new FastStreams(tls, this, sharedHeads);
    const timer = setInterval(() => this.#closeQuiet(), proxy.times.checkMs).unref();
    server.once('close', () => clearInterval(timer));
  }

  /** Moves the connection to the HTTP server, with `rest` as its next bytes. */
  handOver(connection: FastConnection, rest: Buffer): void {
    this.#open.delete(connection);
    this.metrics.handovers.inc();
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
    const { headMs, requestMs, inactivityMs: usualMs } = this.proxy.times;
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
  /** `performance.now()`. */
  readonly sinceMs: number;
  /** Head and body. */
  readonly bytes: ArrivingBody;
  /** Bytes that have not arrived. */
  left: number;
}

/** Reads requests from one socket and answers each, by a prepared hit or its route, until it hands the socket over. */
export class FastConnection implements PacedWork {
  readonly socket: Socket;
  readonly client: string;
  readonly queue: AnswerQueue;
  readonly #path: FastPath;
  readonly #state: ConnectionState;
  readonly #listeners;
  /** A request or an answer since the last call of `quietMs`. */
  #isActive = true;
  #quietSinceMs = 0;
  #partial: PartialRequest | undefined;
  /** The answer that is not complete. */
  #inFlight: FastResponse | undefined;
  /** Bytes received while an answer is in flight, or a turn is awaited. */
  #ahead: Pieces | undefined;
  /** The next request is answered in a later turn. */
  #isWaiting = false;

  constructor(socket: Socket, path: FastPath) {
    this.socket = socket;
    this.client = clientOf(socket);
    this.queue = new AnswerQueue(socket, path.turn, path.proxy.unsent);
    this.#path = path;
    this.#state = stateOf(socket);
    this.#listeners = {
      data: (chunk: Buffer) => this.#onData(chunk),
      end: () => this.#onEnd(),
      // The connection may have become idle since `watch`.
      timeout: () => void (this.isIdle || socket.destroy()),
      error: () => socket.destroy(),
      close: () => {
        this.#abandon();
        path.onClose(this);
      },
    };
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
  }

  /** No request and no answer in flight, and no bytes that the client has not read. */
  get isIdle(): boolean {
    if (this.#isWaiting) return false;
    return this.#inFlight === undefined && this.#partial === undefined && this.queue.isEmpty;
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
    if (this.#inFlight !== undefined || this.#isWaiting) this.#keepAhead(chunk);
    else if (this.#partial !== undefined) this.#fill(this.#partial, chunk);
    else if (chunk.length > longestUnpaced) {
      this.#keepAhead(chunk);
      this.#beginAhead();
    } else this.#serve(chunk);
  }

  #beginAhead(): void {
    if (this.#isWaiting || this.#ahead === undefined) return;
    this.#isWaiting = true;
    this.#path.proxy.turns.begin(this);
    if (this.#isWaiting) this.socket.pause();
  }

  work(isOver: () => boolean): boolean {
    this.#isWaiting = false;
    this.#serveAhead(isOver);
    return this.#isWaiting;
  }

  #serveOrKeep(chunk: Buffer): void {
    if (chunk.length === 0 || this.socket.writableEnded) return undefined;
    return this.#inFlight === undefined ? this.#serve(chunk) : this.#keepAhead(chunk);
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
      const head = this.#mayAnswer() ? readHead(text, from, this.#path.blocks) : undefined;
      const isWhole = head !== undefined && head.end <= text.length;
      if (head !== undefined && !isWhole && this.#needsBody(head)) {
        return this.#await(head, head.end - from, chunk.subarray(from));
      }
      if (!isWhole || !this.#answer(head, text, chunk, from === 0 ? reserved : undefined)) {
        if (from === 0) reserved?.close();
        return this.#handOver(from === 0 ? chunk : chunk.subarray(from));
      }
      from = head.end;
      if (this.socket.destroyed || this.socket.writableEnded) return undefined;
      if (this.#inFlight !== undefined && from < text.length) this.#keepAhead(chunk.subarray(from));
      if (this.#inFlight !== undefined) return undefined;
    }
    return undefined;
  }

  #awaitTurn(rest: Buffer, isDeferred: boolean): void {
    this.#keepAhead(rest);
    this.socket.pause();
    this.#isWaiting = true;
    if (isDeferred) this.#path.proxy.turns.defer(this);
  }

  /** Waits for the rest of a request of `left` bytes, of which `begun` have arrived. */
  #await(received: PlainHead, left: number, begun: Buffer): void {
    // A slice would keep the text of the whole chunk in memory.
    const head = { ...received, target: ownCopy(received.target) };
    const refuse = (fault: GatewayError): void => {
      // For lack of memory; the rest of the body is dropped.
      partial.bytes.drop();
      const match = this.#match(head);
      if (match !== undefined) this.#route(head, match, fault);
    };
    const bytes = new ArrivingBody(() => this.#reserve(head, refuse));
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
    this.#state.isAnswering = this.#inFlight !== undefined;
    if (bytes.isDropped) return this.#serveOrKeep(rest);
    const received = bytes.whole();
    return this.#serve(rest.length === 0 ? received : Buffer.concat([received, rest]), bytes.reservation);
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

  /** Whether the answer depends on the body. The server answers other requests ahead of their bodies. */
  #needsBody(head: PlainHead): boolean {
    const match = this.#match(head);
    return match !== undefined && this.#path.proxy.service.faultAheadOfBody(this.#requestOf(head), match) === undefined;
  }

  /**
   * Memory for the body of `head`; `undefined`: the server answers ahead of the body. The pool calls `onEnded` when it ends
   * the body.
   */
  #reserve(head: PlainHead, onEnded: (fault: GatewayError) => void): BodyReservation | undefined {
    const { access, bodies } = this.#path.proxy;
    const client = access === undefined ? this.client : access.tenantOf(this.#requestOf(head), head.block.known);
    return client === undefined ? undefined : bodies.reserve(client, onEnded);
  }

  /**
   * Answers the request at `head` in `chunk`, whose text is `text`, now or later. `reserved`: memory of its body, if that
   * arrived in pieces. False: it is unsupported.
   */
  #answer(head: PlainHead, text: string, chunk: Buffer, reserved: BodyReservation | undefined): boolean {
    const isPosted = head.method === 'POST';
    const match = isPosted
      ? this.#matchPosted(head, text)
      : (this.#path.proxy.targets.find(head.target, head.block.form) ?? this.#match(head));
    if (match === undefined) return false;
    const body = isPosted ? chunk.subarray(head.bodyFrom, head.end) : noBody;
    let fault: GatewayError | undefined;
    let reservation = reserved;
    if (reserved === undefined && body.length > uncountedBytes) {
      reservation = this.#reserve(head, (error) => (fault = error));
      reservation?.arrive(body.length);
    }
    reservation?.arrived();
    if (fault === undefined) this.#route(head, match, body, reservation);
    else this.#route(head, match, fault);
    return true;
  }

  /** `body`: the whole one, or the fault of one that was ended for lack of memory. */
  #route(
    head: PlainHead,
    match: MatchedRoute | CachedTarget,
    body: Buffer | GatewayError,
    reservation?: BodyReservation,
  ): void {
    const { metrics, proxy } = this.#path;
    const decision = proxy.access?.decide(this.#requestOf(head), match, head.block.known);
    const admitted = typeof decision === 'object' ? decision : undefined;
    const isAdmitted = proxy.access === undefined || admitted !== undefined;
    if (isAdmitted && Buffer.isBuffer(body) && this.#answerHit(head, match, admitted)) {
      metrics.known.inc();
      reservation?.close();
      return;
    }
    metrics.read.inc();
    const response = new FastResponse(this.queue, head.method === 'HEAD', (done) => this.#onAnswered(done));
    response.shouldKeepAlive = head.block.isKept;
    if (reservation !== undefined) response.once('close', () => reservation.release());
    this.#inFlight = response;
    // A slice would keep the text of all bytes received with the request for as long as a node is asked.
    const target = match instanceof CachedTarget ? ownCopy(head.target) : match.target;
    const request = this.#requestOf(head, target);
    answerDecided(proxy, { request, response, client: this.client, body, reservation }, match, decision);
    if (this.#inFlight !== undefined) this.#state.isAnswering = true;
  }

  #answerHit(head: PlainHead, match: MatchedRoute | CachedTarget, admitted: AdmittedRequest | undefined): boolean {
    const { hits, info } = this.#path;
    if (match instanceof CachedTarget) {
      const { method, block, bodyFrom, end } = head;
      return hits.answer(block, match, this.queue, admitted, end - bodyFrom, method === 'HEAD');
    }
    const { route } = match;
    return route.kind === 'ledger info' && info.answer(head, route, this.queue, admitted);
  }

  #matchPosted(head: PlainHead, text: string): MatchedRoute | CachedTarget | undefined {
    const { uncached, proxy } = this.#path;
    const { target, block, bodyFrom, end } = head;
    const type = block.headers['content-type'] ?? '';
    const known =
      uncached.get(target) ?? proxy.targets.findNamed(postedName(target, type, block.form, text.slice(bodyFrom, end)));
    if (known !== undefined) return known;
    const match = this.#match(head);
    const kind = match?.fault === undefined ? match?.route.kind : undefined;
    if (match !== undefined && (kind === 'encode' || kind === 'submit')) uncached.set(match.target, match);
    return match;
  }

  /** The route of a new request; `undefined`: the server decides on its target. */
  #match({ method, target }: PlainHead): MatchedRoute | undefined {
    if (target.length > longestTarget || !plainTarget.test(target)) return undefined;
    return this.#path.proxy.service.match(method, ownCopy(target));
  }

  #requestOf({ method, target: received, block: { headers } }: PlainHead, target = received): Incoming {
    return { method, url: target, headers, socket: this.socket, httpVersion: '1.1', httpVersionMajor: 1 };
  }

  #onAnswered(response: FastResponse): void {
    if (this.#inFlight !== response) return;
    this.#inFlight = undefined;
    this.#state.isAnswering = false;
    this.#isActive = true;
    if (response.shouldKeepAlive) this.#beginAhead();
    else this.queue.finish();
  }

  #handOver(rest: Buffer): void {
    this.queue.flush();
    if (this.#partial !== undefined) this.#state.isAnswering = false;
    this.#partial?.bytes.drop();
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    this.#path.handOver(this, rest);
  }

  /** Treats a half-close as a hang-up, as the HTTP server does. */
  #onEnd(): void {
    // The server gets the rest, with the end.
    if (this.#isWaiting) return;
    const inFlight = this.#inFlight;
    if (inFlight !== undefined && survivesHalfClose(inFlight)) {
      // The answer goes on at the client's pace, then the connection ends; bytes behind the request are the server's.
      if (this.#ahead === undefined) inFlight.shouldKeepAlive = false;
      return;
    }
    // The submission and its answer are the server's, behind the answer in flight.
    if (inFlight !== undefined && this.#hasSubmissionAhead()) return;
    if (this.#partial?.bytes.isDropped === false) this.#refuseRest('HPE_INVALID_EOF_STATE');
    else this.#end();
  }

  /** Whether a submission may be among the bytes ahead, which its client expects to take effect. */
  #hasSubmissionAhead(): boolean {
    const targets = this.#ahead?.whole().toString('latin1').matchAll(postLine) ?? [];
    const { service } = this.#path.proxy;
    for (const [, target = ''] of targets) if (service.match('POST', target).route.kind === 'submit') return true;
    return false;
  }

  /** Refuses the incomplete request behind the answers of this turn. */
  #refuseRest(code: string): void {
    this.queue.flush();
    this.#path.refuse(this.socket, code);
  }

  #end(): void {
    this.#abandon();
    this.queue.flush();
    this.socket.end();
  }

  #abandon(): void {
    this.#partial?.bytes.drop();
    this.#partial = undefined;
    this.#ahead = undefined;
    const response = this.#inFlight;
    this.#inFlight = undefined;
    response?.close();
  }
}

const noBody = Buffer.alloc(0);
/** Characters of a target without a fragment; Node's parser decides on all others. */
const plainTarget = /^[!-"$-~]*$/;
const postLine = /POST (\/[!-~]{0,200}) HTTP/g;
