/** Answers the requests of one connection, one at a time: a prepared hit, or the route's answer. */
import { type AdmittedRequest, clientOf } from '../../../access/index.ts';
import type { GatewayError } from '../../../ledger/index.ts';
import { stateOf } from '../server/connection-state.ts';
import { type BodyReservation, uncountedBytes } from '../bodies.ts';
import type { FastPathMetrics } from '../http-metrics.ts';
import type { Incoming, MatchedRoute } from '../message.ts';
import { answerDecided } from '../serve.ts';
import type { ServerParts } from '../service.ts';
import { CachedTarget, type DirectMatches, postedName } from '../target-cache.ts';
import { longestTarget, ownCopy } from '../target.ts';
import { type AnswerQueue, type AnswerTurn, FastResponse } from './answer-queue.ts';
import type { PreparedHits, PreparedInfo } from './prepared-hits.ts';
import type { HeaderBlocks, PlainHead } from './request-head.ts';

/** Parts shared by all connections of the fast path. */
export interface FastPathParts {
  readonly proxy: ServerParts;
  readonly metrics: FastPathMetrics;
  readonly blocks: HeaderBlocks;
  readonly turn: AnswerTurn;
  readonly directMatches: DirectMatches;
  readonly hits: PreparedHits<AnswerQueue>;
  readonly info: PreparedInfo;
}

/** Characters of a target without a fragment; Node's parser decides on all others. */
const plainTarget = /^[!-"$-~]*$/;

/** One request and its bytes. */
interface PlainRequest {
  readonly head: PlainHead;
  /** The fault of a body that was ended for lack of memory. */
  readonly body: Buffer | GatewayError;
  /** Memory of a body large enough to count. */
  readonly reservation?: BodyReservation | undefined;
}

/** The request in flight on one connection, and those that are answered at once. */
export class RequestAnswers {
  readonly #parts: FastPathParts;
  readonly #sink: AnswerQueue;
  readonly #onDone: (isKept: boolean) => void;
  #inFlight: FastResponse | undefined;

  /** `onDone`: called when the socket has an answer that was in flight, or the last one (`isKept` is false). */
  constructor(sink: AnswerQueue, parts: FastPathParts, onDone: (isKept: boolean) => void) {
    this.#sink = sink;
    this.#parts = parts;
    this.#onDone = onDone;
  }

  /** The answer that is not complete. */
  get inFlight(): FastResponse | undefined {
    return this.#inFlight;
  }

  /** Whether the answer depends on the body. The server answers other requests ahead of their bodies. */
  needsBody(head: PlainHead): boolean {
    const match = this.#match(head);
    return (
      match !== undefined && this.#parts.proxy.service.faultAheadOfBody(this.#requestOf(head), match) === undefined
    );
  }

  /**
   * Reserves memory for the body of `head`; `undefined`: the server answers ahead of the body. The pool calls `onEnded`
   * when it ends the body.
   */
  reserve(head: PlainHead, onEnded: (fault: GatewayError) => void): BodyReservation | undefined {
    const { access, bodies } = this.#parts.proxy;
    const request = this.#requestOf(head);
    const client = access === undefined ? clientOf(request.socket) : access.tenantOf(request, head.block.known);
    return client === undefined ? undefined : bodies.reserve(client, onEnded);
  }

  /**
   * Answers the request at `head` in `chunk`, whose text is `text`, now or later. `reserved`: memory of its body, if that
   * arrived in pieces. False: it is unsupported.
   */
  answer(head: PlainHead, text: string, chunk: Buffer, reserved?: BodyReservation): boolean {
    const { access } = this.#parts.proxy;
    const isPosted = head.method === 'POST';
    const match = isPosted ? this.#matchPosted(head, text) : this.#matchRead(head);
    if (match === undefined) return false;
    if (access === undefined && this.#answerHit(head, match)) {
      reserved?.close();
      return true;
    }
    const body = isPosted ? chunk.subarray(head.bodyFrom, head.end) : noBody;
    const isCounted = reserved !== undefined || body.length > uncountedBytes;
    this.#route(isCounted ? this.#counted(head, body, reserved) : { head, body }, match);
    return true;
  }

  /** Answers a request whose body was ended. */
  refuse(head: PlainHead, fault: GatewayError): void {
    const match = this.#match(head);
    if (match !== undefined) this.#route({ head, body: fault }, match);
  }

  /** Whether a submission may be among the bytes, which its client expects to take effect. */
  hasSubmission(ahead: Buffer | undefined): boolean {
    const targets = ahead?.toString('latin1').matchAll(postLine) ?? [];
    const { service } = this.#parts.proxy;
    for (const [, target = ''] of targets) if (service.match('POST', target).route.kind === 'submit') return true;
    return false;
  }

  /** Gives the answer in flight up, because its connection ends. */
  abandon(): void {
    const response = this.#inFlight;
    this.#inFlight = undefined;
    response?.close();
  }

  #counted(head: PlainHead, body: Buffer, reserved: BodyReservation | undefined): PlainRequest {
    let fault: GatewayError | undefined;
    const reservation = reserved ?? this.reserve(head, (error) => (fault = error));
    if (reserved === undefined) reservation?.arrive(body.length);
    reservation?.arrived();
    return fault === undefined ? { head, body, reservation } : { head, body: fault };
  }

  #route({ head, body, reservation }: PlainRequest, match: MatchedRoute | CachedTarget): void {
    const { metrics, proxy } = this.#parts;
    const decision = proxy.access?.decide(this.#requestOf(head), match, head.block.known);
    if (typeof decision === 'object' && Buffer.isBuffer(body) && this.#answerHit(head, match, decision)) {
      reservation?.close();
      return;
    }
    metrics.read.inc();
    const sink = this.#sink;
    const response = new FastResponse(sink, head.method === 'HEAD', (done) => this.#end(done));
    response.shouldKeepAlive = head.block.isKept;
    if (reservation !== undefined) response.once('close', () => reservation.release());
    this.#inFlight = response;
    // A slice would keep the text of all bytes received with the request for as long as a node is asked.
    const target = match instanceof CachedTarget ? ownCopy(head.target) : match.target;
    answerDecided(proxy, { request: this.#requestOf(head, target), response, body, reservation }, match, decision);
    if (this.#inFlight !== undefined) stateOf(sink.socket).isAnswering = true;
  }

  #answerHit(head: PlainHead, match: MatchedRoute | CachedTarget, admitted?: AdmittedRequest): boolean {
    if (!this.#answerPrepared(head, match, admitted)) return false;
    this.#parts.metrics.known.inc();
    return true;
  }

  #answerPrepared(head: PlainHead, match: MatchedRoute | CachedTarget, admitted?: AdmittedRequest): boolean {
    const { hits, info } = this.#parts;
    const connection = this.#sink;
    if (match instanceof CachedTarget) {
      const { method, block, bodyFrom, end } = head;
      return hits.answer(block, match, connection, admitted, end - bodyFrom, method === 'HEAD');
    }
    const { route } = match;
    return route.kind === 'ledger info' && info.answer(head, route, connection, admitted);
  }

  #matchRead(head: PlainHead): MatchedRoute | CachedTarget | undefined {
    return this.#parts.proxy.targets.find(head.target, head.block.form) ?? this.#match(head);
  }

  #matchPosted(head: PlainHead, text: string): MatchedRoute | CachedTarget | undefined {
    const { directMatches, proxy } = this.#parts;
    const known = directMatches.find(head.target) ?? proxy.targets.findNamed(nameOf(head, text));
    if (known !== undefined) return known;
    const match = this.#match(head);
    if (match !== undefined) directMatches.add(match);
    return match;
  }

  /** The route of a new request; `undefined`: the server decides on its target. */
  #match({ method, target }: PlainHead): MatchedRoute | undefined {
    if (target.length > longestTarget || !plainTarget.test(target)) return undefined;
    return this.#parts.proxy.service.match(method, ownCopy(target));
  }

  #end(response: FastResponse): void {
    if (this.#inFlight !== response) return;
    this.#inFlight = undefined;
    stateOf(this.#sink.socket).isAnswering = false;
    this.#onDone(response.shouldKeepAlive);
  }

  #requestOf({ method, target: received, block: { headers } }: PlainHead, target = received): Incoming {
    return { method, url: target, headers, socket: this.#sink.socket, httpVersion: '1.1', httpVersionMajor: 1 };
  }
}

function nameOf({ target, block, bodyFrom, end }: PlainHead, text: string): string {
  return postedName(target, block.headers['content-type'] ?? '', block.form, text.slice(bodyFrom, end));
}

const noBody = Buffer.alloc(0);
const postLine = /POST (\/[!-~]{0,200}) HTTP/g;
