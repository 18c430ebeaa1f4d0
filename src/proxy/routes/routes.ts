/** The routes of the client port: each request is a read, a passed request, or an answer of the gateway's own. */
import type { Access } from '../../access/index.ts';
import { ownBytes } from '../../cache/index.ts';
import { type AnswerForm, bodyTurns, GatewayError } from '../../ledger/index.ts';
import { LargeAnswerError } from '../../upstream/index.ts';
import { answerForm, CachedTarget, type Exchange, type Service, TargetCache, wantsEvents } from '../http/index.ts';
import { isOfLatest, type Read, type ReadResult, type Reads, type SharedRead } from '../reads/index.ts';
import { canonicalBytes, digestedBytes, digestInTurns, turnlessBytes } from './canonical-body.ts';
import { Encoder, type EncoderContext } from './encoder.ts';
import { OwnPages } from './own-pages.ts';
import { type BodyRead, requireJson } from './parse-read.ts';
import { PassThrough } from './pass-through.ts';
import { Push } from './push.ts';
import { noRoute, routeNames } from './route-table.ts';
import { type Match, Router } from './router.ts';
import { Submissions } from './submissions.ts';

interface RoutesContext extends EncoderContext {
  readonly reads: Reads;
  /** Absent: the endpoint is open. */
  readonly access: Access | undefined;
  readonly isOverloaded: () => boolean;
  /** Empty, or `/v1`. */
  readonly basePath: string;
  /** Publishes an accepted transaction; the client's answer waits for its promise. */
  readonly onSubmitted: ConstructorParameters<typeof Submissions>[0];
}

type Head = Parameters<Service['faultAheadOfBody']>[0];

/** The router of one process, which also serves the requests that it matches; with the encoder and its standing proof. */
export class Routes extends Router implements Service {
  readonly targets = new TargetCache();
  readonly unrouted = noRoute;
  readonly routeNames = routeNames;
  readonly #reads: Reads;
  readonly #passThrough: PassThrough;
  readonly #encoder: Encoder;
  readonly #push: Push;
  readonly #ownPages: OwnPages;

  constructor(context: RoutesContext) {
    super(context.basePath, new Submissions(context.onSubmitted));
    this.#reads = context.reads;
    this.#passThrough = new PassThrough(context.fleet, context.reads, this);
    this.#encoder = new Encoder(context, this.#passThrough);
    this.#push = new Push(context.reads);
    this.#ownPages = new OwnPages(context.fleet, context.access, context.isOverloaded);
  }

  faultAheadOfBody(request: Head, match: Match): GatewayError | undefined {
    try {
      this.#checkHead(request, match);
      return undefined;
    } catch (error) {
      if (error instanceof GatewayError) return error;
      throw error;
    }
  }

  serve(exchange: Exchange, match: Match | CachedTarget, body: Buffer | undefined): void | Promise<void> {
    if (match instanceof CachedTarget) return this.#answerRead(exchange, match.read);
    if (wantsEvents(exchange.request.headers.accept)) {
      const opening = this.#push.serve(exchange, match, body);
      if (opening !== undefined) return opening;
    }
    switch (match.route.kind) {
      case 'read':
        return this.#answerTarget(exchange, match);
      case 'wait':
        return this.#answerWait(exchange, match);
      case 'posted':
        return this.#answerPosted(exchange, match, body ?? noBody);
      case 'encode':
        return this.#answerEncode(exchange, match, body ?? noBody);
      case 'submit':
        exchange.answerDespiteHalfClose();
        return this.#passThrough.submit(exchange, match, body);
      case 'ledger info':
        return this.#answerLedgerInfo(exchange, match);
      case 'health':
        return this.#ownPages.serveHealth(exchange);
      case 'usage':
        return this.#ownPages.serveUsage(exchange);
      case 'passed':
        return this.#answerPassed(exchange, match, body);
      case 'preflight':
        if (exchange.answerPreflight()) return undefined;
        throw this.notAllowed(exchange.target);
      case 'none':
        throw match.fault ?? new Error('a refused request has no fault');
    }
  }

  /** Records a transaction that a node accepted from another process. */
  recordSubmission(hash: string, upstream: string): void {
    this.submissions.record(hash, upstream);
  }

  /** Leaves a function to nodes. */
  distrust(functionId: string): void {
    this.#encoder.proof.trust.distrust(functionId);
  }

  /** Functions that are left to nodes. */
  get distrusted(): readonly string[] {
    return [...this.#encoder.proof.trust.distrusted];
  }

  #checkHead(request: Head, match: Match): void {
    const { 'content-type': type, 'content-encoding': coding } = request.headers;
    const { fault } = match;
    if (fault !== undefined) throw fault;
    // Compressed bodies of reads are passed.
    if (match.route.kind === 'posted' && coding === undefined) match.checkBody(type);
    else if (this.#isEncoded(match)) requireJson(type);
    else requirePassable(request, match);
  }

  /** Under an unusual spelling of its target, nodes encode. */
  #isEncoded({ route, target }: Match): boolean {
    return route.kind === 'encode' && target === `${this.basePath}/transactions/encode_submission`;
  }

  #answerTarget(exchange: Exchange, match: Match): void | Promise<void> {
    const read = match.parse(exchange.request.headers.accept);
    if (read === undefined) return this.#answerPassed(exchange, match);
    if ('shared' in read) return this.#answerShared(exchange, read);
    if (this.#reads.reader.isLarge(read)) return this.#answerPassed(exchange, match);
    return this.#answerRead(exchange, read, () => this.targets.add(match.target, new CachedTarget(match.route, read)));
  }

  /**
   * `addTarget`: the target cache gets reads of "latest" and those in memory for good: most other pinned ones come once,
   * and would displace them.
   */
  #answerRead(exchange: Exchange, read: Read, addTarget?: () => void): void | Promise<void> {
    const { reader, freshness, waits } = this.#reads;
    if (read.operation === 'view') exchange.requireFunction(read.functionId);
    const hit = isOfLatest(read) ? freshness.findRead(read, exchange) : reader.find(read);
    const comesAgain = isOfLatest(read) || hit?.entry.lifetimeMs === Infinity;
    if (comesAgain && addTarget !== undefined && this.targets.admits()) addTarget();
    if (hit !== undefined) return this.#write(exchange, hit);
    exchange.requireTime();
    // An answer of history grows with the ledger until it is final: no client gets one of before its own reads.
    const load = isOfLatest(read)
      ? freshness.load(read, exchange)
      : read.operation === 'transaction'
        ? waits.lookUp(read, exchange)
        : reader.load(read, exchange, read.extent === undefined ? undefined : freshness.demandOf(exchange).min);
    return load.then(
      (served) => this.#write(exchange, served),
      (error: unknown) => this.#stream(exchange, read.form, error),
    );
  }

  #answerShared(exchange: Exchange, read: SharedRead): Promise<void> {
    exchange.requireTime();
    return this.#reads.shares.load(read, exchange).then(
      (served) => exchange.answerRead(served),
      (error: unknown) => this.#stream(exchange, read.form, error),
    );
  }

  /** Streams the answer of a node that is too large to be read whole; throws any other error. */
  #stream(exchange: Exchange, form: AnswerForm | undefined, error: unknown): Promise<void> {
    if (!(error instanceof LargeAnswerError)) throw error;
    const { request, target } = exchange;
    // The next request for the target is parsed, and streamed at once.
    if (form !== undefined) this.targets.drop(target, form);
    return this.#answerPassed(exchange, this.match(request.method ?? '', target));
  }

  /** A long poll: callers of one hash share the wait for its commit. */
  #answerWait(exchange: Exchange, match: Match): void | Promise<void> {
    const { reader, waits } = this.#reads;
    const read = match.parse(exchange.headers.accept) as Read;
    const hit = reader.find(read);
    if (hit !== undefined) return this.#write(exchange, hit);
    exchange.requireTime();
    return waits.join(read, exchange).then((served) => this.#write(exchange, served));
  }

  /** Writes the answer. After a committed transaction its connection reads no older state. */
  #write(exchange: Exchange, served: ReadResult): void | Promise<void> {
    const { committedAt } = served.entry;
    if (committedAt !== undefined) this.#reads.freshness.recordSeen(exchange, committedAt);
    return exchange.answerRead(served);
  }

  #answerPosted(exchange: Exchange, match: Match, body: Buffer): void | Promise<void> {
    const { accept, 'content-type': contentType, 'content-encoding': coding } = exchange.request.headers;
    // A compressed body has no canonical form here; such requests are rare, and nodes decode them.
    if (coding !== undefined) return this.#answerPassed(exchange, match, body);
    const request = { target: match.target, accept, contentType, body, isRestricted: exchange.isRestricted };
    const parse = (digest?: string): Read | undefined => match.parseBody({ ...request, digest });
    const serveRead = (read: Read | undefined): void | Promise<void> => {
      if (read === undefined) return this.#answerPassed(exchange, match, body);
      return this.#answerRead(
        exchange,
        read,
        exchange.isWhole ? () => this.#addPosted(match, request, read) : undefined,
      );
    };
    if (body.length <= turnlessBytes) return serveRead(parse());
    const run = (digest?: string) => bodyTurns.run(exchange.client, () => parse(digest));
    const read = body.length > digestedBytes ? digestInTurns(body).then(run) : run();
    return read instanceof Promise ? read.then(serveRead) : serveRead(read);
  }

  /** Adds a read to the target cache under the body's exact bytes. */
  #addPosted(match: Match, { target, contentType = '', accept, body }: BodyRead, read: Read): void {
    if (body.length > canonicalBytes) return;
    const { wire } = read;
    // A slice of the received bytes would keep all of them in memory; `keyed` refers to the read that has it.
    const own = wire.body === body ? { ...read, keyed: undefined, wire: { ...wire, body: ownBytes(body) } } : read;
    this.targets.addPosted({ target, contentType, form: answerForm(accept), body }, new CachedTarget(match.route, own));
  }

  #answerEncode(exchange: Exchange, match: Match, body: Buffer): Promise<void> {
    if (!this.#encoder.isEnabled || !this.#isEncoded(match)) return this.#answerPassed(exchange, match, body);
    exchange.requireTime();
    return this.#encoder.serve(exchange, match, body);
  }

  #answerLedgerInfo(exchange: Exchange, match: Match): void | Promise<void> {
    const { request } = exchange;
    if (answerForm(request.headers.accept) === 'bcs') {
      exchange.requireTime();
      return this.#passThrough.ledgerInfo(exchange, match);
    }
    const { freshness } = this.#reads;
    const info = freshness.findLedgerInfo(exchange);
    if (info !== undefined) return exchange.answerInfo(info);
    return freshness.ledgerInfo(exchange, exchange.signal).then((found) => exchange.answerInfo(found));
  }

  /** Also where the route has a parser, which left the request to a node. */
  #answerPassed(exchange: Exchange, match: Match, body?: Buffer): Promise<void> {
    requirePassable(exchange.request, match);
    if (match.isIdempotent) exchange.requireTime();
    // Its node alone decides which function it calls.
    if (exchange.isRestricted && match.mayBeView) exchange.requireFunction(undefined);
    return this.#passThrough.serve(exchange, match, body);
  }
}

const noBody = Buffer.alloc(0);

/** Throws `GatewayError` 400, 404 or 415 for a request that no node may receive. */
function requirePassable({ method, headers }: Head, match: Match): void {
  const { 'content-type': type } = headers;
  const isRead = method === 'GET' || method === 'HEAD';
  if (!isRead && type !== undefined && !mediaTypeForm.test(type)) {
    throw new GatewayError('unsupportedMediaType', 'request refused');
  }
  void match.passedPath;
}

/** `type/subtype` with any parameters (RFC 9110 8.3.1). */
const mediaTypeForm = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/;
