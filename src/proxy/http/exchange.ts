/** One client request and its answer: stored bodies with live ledger headers, passed answers, and errors. */
import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import { type Access, type AdmittedRequest, clientOf } from '../../access/index.ts';
import type { ContentCoding } from '../../cache/index.ts';
import { type CancelSignal, CancelToken, GatewayError, type LedgerVersion } from '../../ledger/index.ts';
import { type Outcome, type Span, Tracer } from '../../metrics/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import type { Caller, EventSink, InfoBody, ReadResult, Reads, StreamKind } from '../reads/index.ts';
import type { BodyReservation } from './bodies.ts';
import type { EventStreams } from './event-streams.ts';
import { type AnswerHeads, hasField, unchangedHead } from './heads.ts';
import type { Incoming, Outgoing, ReceivedHead, Route } from './message.ts';
import { acceptedCodings, conditionalTag, matchesTag, smallestCompressed } from './negotiate.ts';
import type { ExchangeObserver, RequestSummary } from './observer.ts';
import { answerDespiteHalfClose } from './server/connection-state.ts';
import { pieceBytes, type UnsentAnswers } from './unsent-answers.ts';

/** Parts that every exchange of a process answers with. */
export interface ExchangeParts {
  readonly observer: ExchangeObserver;
  /** Sheds reads while the event loop has more work than it completes. */
  readonly overload: {
    isOverloaded(): boolean;
    /** Called for each refused read. */
    onShed(): void;
  };
  readonly fleet: Pick<Fleet, 'view'>;
  readonly heads: AnswerHeads;
  readonly unsent: UnsentAnswers;
  readonly reader: Reads['reader'];
  readonly streams: EventStreams;
  /** Absent: requests need no key. */
  readonly access: Access | undefined;
}

/** One client request from its admission to its end. */
export class Exchange implements Caller, RequestSummary {
  readonly request: Incoming;
  readonly response: Outgoing;
  readonly route: string;
  readonly admitted: AdmittedRequest | undefined;
  outcome: Outcome = 'local';
  upstream: string | undefined;
  version: LedgerVersion | undefined;
  upstreamMs = 0;
  gasUsed: string | undefined;
  bytes = 0;
  bodyBytes = 0;
  /** The request came with its body, over the fast path. */
  isWhole = false;
  /** Memory of a body large enough to count. */
  reservation: BodyReservation | undefined;
  bug: unknown;
  failure: GatewayError | undefined;
  readonly #parts: ExchangeParts;
  readonly #client: string | undefined;
  readonly #startedMs = performance.now();
  /** Absent: tracing is off. */
  readonly #span: Span | undefined;
  #abort: CancelToken | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #hasEnded = false;

  /** Begins after admission and, for routes with a body, after its last byte. */
  constructor(received: ReceivedHead, route: Route, parts: ExchangeParts) {
    const { request, response, client, admitted } = received;
    this.request = request;
    this.response = response;
    this.#client = client;
    this.route = route.name;
    this.admitted = admitted;
    admitted?.follow(this);
    this.#parts = parts;
    const { observer } = parts;
    this.#span = observer.spans?.begin(request, route);
    observer.metrics.started();
  }

  /**
   * Aborts on a hang-up, or past the deadline before the answer's head. Created on demand: a listener for each cached
   * hit would cost more than the lookup.
   */
  get signal(): CancelSignal {
    if (this.#abort === undefined) {
      const abort = new CancelToken();
      this.#abort = abort;
      this.admitted?.noteWait();
      const onClose = (): void => {
        if (!this.#hasEnded) abort.abort(new Error('the client hung up'));
        this.end();
      };
      if (this.response.destroyed) onClose();
      else {
        this.response.once('close', onClose);
        const late = (): void =>
          abort.abort(
            new GatewayError('unavailable', 'there was no answer in time; try again', { reason: 'time-out' }),
          );
        this.#deadline = setTimeout(late, this.#parts.observer.limits.deadlineMs + graceMs);
      }
    }
    return this.#abort;
  }

  get headers(): Incoming['headers'] {
    return this.request.headers;
  }

  get socket(): Incoming['socket'] {
    return this.request.socket;
  }

  get client(): string {
    const { admitted } = this;
    return (admitted === undefined ? this.#client : undefined) ?? clientOf(this.request.socket, admitted);
  }

  /** The request's own span, or without tracing one that propagates the client's trace to nodes. */
  get span(): Span | undefined {
    const { headers } = this.request;
    return this.#span ?? (headers['traceparent'] === undefined ? undefined : Tracer.passedOn(headers));
  }

  /** Name of a sampled span, for metrics and log lines. */
  get trace(): Span['recorded'] {
    return this.#span?.recorded;
  }

  /**
   * Throws `GatewayError` 503 while the process is overloaded. Callers need a node, Redis or the encoder next: an answer
   * from memory costs less than the refusal, and submissions go on.
   */
  requireTime(): void {
    const { overload } = this.#parts;
    if (!overload.isOverloaded()) return;
    overload.onShed();
    throw new GatewayError('unavailable', 'the gateway is overloaded; try again', { reason: 'overload' });
  }

  /** Whether the client's plan has rights by function of a view. */
  get isRestricted(): boolean {
    return this.admitted?.principal.plan.views !== undefined;
  }

  /** Throws `GatewayError` 403 for a view that the plan does not admit. `functionId`: see `Read`. */
  requireFunction(functionId: string | undefined): void {
    if (this.admitted !== undefined) this.#parts.access?.requireFunction(this.admitted, functionId);
  }

  /** Keeps the answer alive after a half-close: a node may act on the request. */
  answerDespiteHalfClose(): void {
    answerDespiteHalfClose(this.response);
  }

  /** Codings that the client prefers to the plain body, best first. */
  get codings(): readonly ContentCoding[] {
    return acceptedCodings(this.headers['accept-encoding']?.toString());
  }

  get vary(): string {
    return this.#parts.heads.vary;
  }

  /** Answers a read in the client's preferred coding. Returns a promise only if the body must be coded. */
  answerRead(served: ReadResult): void | Promise<void> {
    const { entry } = served;
    // Ahead of the wait for a coding: a hang-up meanwhile does not undo the node's work.
    this.note(served);
    const isCodable = entry.body.length >= smallestCompressed;
    const coding = isCodable ? this.codings[0] : undefined;
    if (coding === undefined) return this.#answerReadAs(served, entry.body, undefined);
    const coded = this.#isKnown(served, coding) ? entry.body : entry.coded[coding];
    if (coded !== undefined) return this.#answerReadAs(served, coded, coding);
    const { unsent, reader } = this.#parts;
    // Coding takes longer than a read from a node: waiting bodies would pile up.
    unsent.hold(this.response, entry.body);
    return reader.codedBody(served, coding, this).then((body) => this.#answerReadAs(served, body, coding));
  }

  #answerReadAs(served: ReadResult, body: Buffer, coding: ContentCoding | undefined): void {
    const { heads } = this.#parts;
    const { entry } = served;
    const scope = !this.#isConditional ? 'none' : this.admitted?.isPrivate === true ? 'private' : 'public';
    const common = heads.commonHeadOf(served, scope);
    const own = heads.ownHeadOf(served, coding);
    if (this.#isKnown(served, coding)) return this.answer(304, [...unchangedHead(common), ...own], undefined);
    const head = [...common, ...own];
    if (coding !== undefined) head.push('Content-Encoding', coding);
    return this.answer(entry.status, head, body);
  }

  /** Records the source of the answer to a read. */
  note({ source, isCollapsed, entry, version }: ReadResult): void {
    this.version = version;
    if (typeof source === 'object') this.upstream = source.upstream;
    if (isCollapsed) this.outcome = 'collapsed';
    else if (typeof source === 'string') this.outcome = source;
    else this.noteUpstream('miss', { upstream: source.upstream, tookMs: source.tookMs, gasUsed: entry.gasUsed });
  }

  /** Whether conditions apply to the method. */
  get #isConditional(): boolean {
    return this.method === 'GET' || this.isHead;
  }

  /** Whether the client holds the answer in `coding`, by its tag. A 304 then needs no body, coded or not. */
  #isKnown({ entry }: ReadResult, coding: ContentCoding | undefined): boolean {
    return this.#isConditional && matchesTag(this.headers['if-none-match'], conditionalTag(entry, coding));
  }

  answerInfo({ body, version }: InfoBody): void {
    this.version = version;
    this.answer(200, this.#parts.heads.infoHead(version), body);
  }

  /** Answers with a page of the gateway's own, which no cache stores. `head`: further headers, names and values in turn. */
  answerOwn(status: number, contentType: string, body: string, head: readonly string[] = []): void {
    this.answer(status, this.#parts.heads.unstoredHead(contentType, head), body);
  }

  /** Answers with the head of an event stream, and ends. Throws, or rejects with, `GatewayError` 429 or 503. */
  openEvents(kind: StreamKind): EventSink | Promise<EventSink> {
    this.requireTime();
    const free = this.#parts.streams.take(this.admitted);
    return free instanceof Promise
      ? free.then((taken) => this.#beginEvents(kind, taken))
      : this.#beginEvents(kind, free);
  }

  #beginEvents(kind: StreamKind, free: () => void): EventSink {
    const { streams, heads } = this.#parts;
    try {
      this.#writeHead(200, heads.eventsHead());
    } catch (error) {
      free();
      throw error;
    }
    const stream = streams.begin(kind, this, free);
    this.end();
    return stream;
  }

  /** Answers a preflight; false: the request is none. */
  answerPreflight(): boolean {
    const head = this.#parts.heads.cors.preflight(this.request);
    if (head === undefined) return false;
    this.#endWhereHttpDoes(head);
    this.response.writeHead(204, head);
    this.response.end(undefined);
    this.end();
    return true;
  }

  /**
   * Answers with head and body at once. Node joins a text body to the head; a Buffer takes a second write, which costs
   * more than the conversion to text.
   */
  answer(status: number, head: string[], body: Buffer | string | undefined): void {
    const { response, isHead } = this;
    const { unsent } = this.#parts;
    const length = body === undefined ? 0 : Buffer.byteLength(body);
    const long = typeof body === 'object' && length > pieceBytes && !isHead ? body : undefined;
    if (long !== undefined) unsent.hold(response, long);
    if (body !== undefined) head.push('Content-Length', String(length));
    if (!isHead) this.bytes = length;
    this.#writeHead(status, head);
    if (long !== undefined) unsent.send(response, long);
    else if (isHead || body === undefined) response.end(undefined);
    // Equal lengths mean ASCII, which Node writes faster as latin1.
    else if (typeof body === 'string') response.end(body, body.length === length ? 'latin1' : 'utf8');
    // Latin-1 maps every byte to one character, so the bytes stay the same.
    else if (length <= largestJoined) response.end(body.toString('latin1'), 'latin1');
    else response.end(body);
    if (long === undefined && response.writableLength > 0) unsent.trackShort(response, length);
    this.end();
  }

  /**
   * Passes a node's answer on: a whole body at once, a stream at the client's pace. Rejects with `GatewayError` 503 if
   * the stream breaks off.
   */
  pass(status: number, head: string[], body: Buffer | Readable): void | Promise<void> {
    const { response } = this;
    this.#writeHead(status, head);
    // The body goes at the client's pace.
    clearTimeout(this.#deadline);
    if (!Buffer.isBuffer(body)) return this.#stream(body);
    this.bytes = body.length;
    this.reservation?.add(body.length);
    response.end(this.isHead ? undefined : body);
    if (response.writableLength > 0) this.#parts.unsent.trackShort(response, body.length);
    this.end();
    return undefined;
  }

  /**
   * Ends the response with the bytes of `body`, behind a head that is written. A hang-up ends `body`. Rejects if `body`
   * breaks off: only a cut connection reports an incomplete answer.
   */
  #stream(body: Readable): Promise<void> {
    const { response } = this;
    return new Promise((resolve, reject) => {
      let isWhole = false;
      const stop = (cause?: unknown): void => {
        if (isWhole) return;
        body.destroy();
        reject(new GatewayError('unavailable', 'the answer broke off', { cause, reason: 'broken off' }));
      };
      body.on('data', (piece: Buffer) => {
        this.bytes += piece.length;
        if (response.write(piece)) return;
        body.pause();
        response.once('drain', () => body.resume());
      });
      body.once('end', () => {
        isWhole = true;
        response.end(undefined);
        this.end();
        resolve();
      });
      body.on('error', stop);
      body.once('close', stop);
      if (response.destroyed) stop();
      else response.once('close', stop);
    });
  }

  /** Answers with a `GatewayError`; an unexpected exception becomes 500 without details. */
  fail(error: unknown): void {
    if (error instanceof GatewayError) this.failure = error;
    else this.bug = error;
    if (this.response.headersSent) {
      // The head of a streamed answer is out: only a cut connection can signal the error.
      this.outcome = 'failed';
      this.#cutOff();
      return;
    }
    const known = error instanceof GatewayError ? error : new GatewayError('internal', 'internal error');
    this.outcome = known.status < 500 ? 'refused' : 'failed';
    // Node writes `Connection: close`, and `refuseBehind` reads the flag.
    if (known.closesConnection) this.response.shouldKeepAlive = false;
    try {
      this.answer(known.status, this.#parts.heads.unstoredHead('application/json', known.headers), known.body);
    } catch {
      // The error itself cannot be written (a header value that HTTP forbids): close the connection, keep the process.
      this.#cutOff();
    }
  }

  #cutOff(): void {
    this.response.destroy();
    this.end();
  }

  /** Adds `Retry-After` where clients have to wait, limit, CORS and ledger headers; closes the connection while draining. */
  #writeHead(status: number, head: string[]): void {
    const { fleet, heads } = this.#parts;
    const ledger = fleet.view.headers;
    const { origin } = this.headers;
    // A node's own refusal mostly names no time, and clients without one repeat at once.
    if ((status === 503 || status === 429) && !hasField(head, 'retry-after')) head.push('Retry-After', '1');
    if (this.admitted !== undefined) head.push(...this.admitted.headers);
    if (origin !== undefined) head.push(...heads.cors.grant(origin, heads.cors.furtherIn([...head, ...ledger])));
    if (heads.isDraining) this.response.shouldKeepAlive = false;
    this.#endWhereHttpDoes(head);
    // Last: prepared hits join them with the date and the connection's headers, once for all requests of a moment.
    if (this.response.writeHeadOfLedger !== undefined) this.response.writeHeadOfLedger(status, head, ledger);
    else this.response.writeHead(status, [...head, ...ledger]);
  }

  /**
   * An HTTP/1.0 answer without a length ends with its connection (RFC 9112 6.3). Node decides that late: an answer to
   * bytes behind the request would become part of this one.
   */
  #endWhereHttpDoes(head: readonly string[]): void {
    if (this.request.httpVersion === '1.0' && !hasField(head, 'content-length')) this.response.shouldKeepAlive = false;
  }

  /** Records a node's work for this request alone. `gasUsed`: text of its header. */
  noteUpstream(
    outcome: 'miss' | 'passed',
    { upstream, tookMs, gasUsed }: { upstream: string; tookMs: number; gasUsed: unknown },
  ): void {
    this.outcome = outcome;
    this.upstream = upstream;
    this.upstreamMs = tookMs;
    if (typeof gasUsed === 'string') this.gasUsed = gasUsed;
  }

  /** Reports the end, once: the socket has the answer, or none will come. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#deadline);
    const seconds = (performance.now() - this.#startedMs) / 1000;
    const { observer } = this.#parts;
    if (this.#span !== undefined) observer.spans?.end(this.#span, this);
    observer.metrics.finished(this, seconds);
    this.admitted?.settle(this.response);
    observer.onEnd(this, seconds);
  }

  get status(): number {
    return this.response.statusCode;
  }

  get method(): string | undefined {
    return this.request.method;
  }

  get isHeadSent(): boolean {
    return this.response.headersSent;
  }

  get isHead(): boolean {
    return this.request.method === 'HEAD';
  }

  /** Request target as received: percent-encoded, with its query. */
  get target(): string {
    return this.request.url ?? '/';
  }
}

/** Milliseconds in which the work itself, under the same deadline, may report a more precise error. */
const graceMs = 200;

/** Bytes; larger bodies are cheaper written beside the head than copied behind it. */
const largestJoined = 4 * 1024;
