/**
 * Everything below the base path that is not a read of our own: sent to the right node as it came, answered as it
 * comes. Paths that name a version are routed by retention like any pinned read.
 */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { GatewayError } from '../../ledger/errors.ts';
import type { Dialect } from '../../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../../ledger/version.ts';
import type { Fleet } from '../../upstream/fleet.ts';
import type { Latest } from '../../upstream/latest.ts';
import { decode, type NodeCoding } from '../../upstream/dispatch/content-coding.ts';
import type { NodeAnswer, StreamedAnswer } from '../../upstream/dispatch/exchange.ts';
import type { FleetRequest } from '../../upstream/dispatch/fleet-request.ts';
import type { WireRequest } from '../../upstream/node/node-client.ts';
import type { Sender } from '../../upstream/dispatch/sender.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Freshness } from '../reads/freshness.ts';
import {
  forOneClient,
  mergedVary,
  requestHeaders,
  responseHeaders,
  withoutCoding,
  withoutConditions,
  withoutFreshness,
} from '../http/headers.ts';
import { acceptedCodings } from '../http/negotiate.ts';
import type { ResponseWriter } from '../http/response-writer.ts';
import type { Match, Router } from './router.ts';
import type { Submissions } from './submissions.ts';
import type { UnsentAnswers } from '../http/unsent-answers.ts';

/** Parts of passed requests. */
export interface PassThroughParts {
  readonly router: Router;
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly writer: ResponseWriter;
  readonly submissions: Submissions;
  readonly latest: Latest;
  readonly freshness: Freshness;
  readonly unsent: UnsentAnswers;
}

/** Sends requests on to nodes, and their answers back. */
export class PassThrough {
  readonly #parts: PassThroughParts;

  constructor(parts: PassThroughParts) {
    this.#parts = parts;
  }

  /** Sends the request on and streams the answer back. */
  async serve(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
    const request = this.#requestOf(exchange, match, body);
    if (match.isReadOfLatest) return this.#serveLatest(exchange, request);
    const answer = await this.#parts.sender.stream(request, exchange.signal);
    if (answer.status >= 300) return this.#reply(exchange, answer);
    const { need } = request;
    const pinned = need.kind === 'version' && match.row.isList !== true ? need.version : undefined;
    return this.#reply(exchange, answer, pinned);
  }

  /** The ledger info in BCS, from a node that has got as far as anybody has been shown. */
  async ledgerInfo(exchange: Exchange, match: Match): Promise<void> {
    const request = this.#requestOf(exchange, match, undefined);
    const wire = { ...request.wire, path: '', headers: withoutConditions(request.wire.headers) };
    const { min } = this.#parts.freshness.demandOf(exchange.request);
    return this.#serveHead(exchange, { ...request, wire, promised: 'bcs' }, min);
  }

  /** A submission goes to one node, whose answer names the transaction that it accepted. */
  async submit(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
    const { sender, submissions } = this.#parts;
    const request = { ...this.#requestOf(exchange, match, body), need: { kind: 'head' } as const, isIdempotent: false };
    // The node's word is remembered even when the client has gone: it may look the hash up over another connection.
    const answer = await sender.whole(request, AbortSignal.timeout(submissionBoundMs));
    await submissions.learn(answer.upstream.name, answer);
    await this.#reply(exchange, answer);
  }

  /**
   * A read of state that names no version is read at the one that all reads of "latest" share, so that an account's
   * sequence number is never older than the resources beside it. What the node says of that version's freshness is no
   * word about the question, which named none.
   */
  async #serveLatest(exchange: Exchange, request: FleetRequest): Promise<void> {
    const wire = { ...request.wire, headers: withoutConditions(request.wire.headers) };
    const { freshness, latest, sender } = this.#parts;
    const demand = freshness.demandOf(exchange.request);
    if (demand.maxStalenessMs === 0) return this.#serveHead(exchange, { ...request, wire }, demand.min);
    const snapshot = await latest.reach(demand, exchange.signal);
    const { version } = snapshot.info;
    const path = `${wire.path}${wire.path.includes('?') ? '&' : '?'}ledger_version=${version}`;
    const pinned = { ...request, wire: { ...wire, path }, need: { kind: 'version', version } } as const;
    const answer = await sender.stream(pinned, exchange.signal);
    if (answer.status < 300) freshness.noteServed(snapshot, performance.now());
    const headers = withoutFreshness(answer.headers);
    return this.#reply(exchange, { ...answer, headers }, answer.status < 300 ? version : undefined);
  }

  /** No staleness allowed, so the state is the one at the node's head. */
  async #serveHead(exchange: Exchange, request: FleetRequest, seen: LedgerVersion | undefined): Promise<void> {
    const { latest, sender, freshness } = this.#parts;
    const answer = await latest.aboveFloor(seen, exchange.signal, (min) =>
      sender.stream({ ...request, need: { kind: 'head', min, isExact: true } }, exchange.signal),
    );
    const { status, info, upstream } = answer;
    if (status < 300 && info !== undefined && !upstream.isSuspect) freshness.recordServed(info.version);
    const headers = withoutFreshness(answer.headers);
    return this.#reply(exchange, { ...answer, headers }, status < 300 ? info?.version : undefined);
  }

  #requestOf({ client, request, span }: Exchange, match: Match, body: Buffer | undefined): FleetRequest {
    const { isIdempotent, need, passedPath: path } = match;
    const { isHealthCheck = false, isOfLedger = false } = match.row;
    const method = match.method as WireRequest['method'];
    const given = requestHeaders(request.headers);
    // The answer to a POST that reads is of its body: there is nothing at the path to compare (RFC 9110 13.1.2).
    const headers = isIdempotent && method === 'POST' ? withoutConditions(given) : given;
    const promised = isOfLedger ? 'either' : undefined;
    return { wire: { method, path, headers, body }, need, promised, isIdempotent, isHealthCheck, client, span };
  }

  async #reply(exchange: Exchange, answer: NodeAnswer | StreamedAnswer, pinned?: LedgerVersion): Promise<void> {
    const { writer, fleet, unsent } = this.#parts;
    const { response } = exchange;
    const coding = takenCoding(exchange, answer);
    const body = bodyIn(answer, coding);
    note(exchange, answer, fleet.dialect);
    exchange.version = pinned;
    const head = this.#headOf(exchange, answer, coding);
    const isDecoded = Buffer.isBuffer(body) && body.length > 0 && coding !== answer.coding;
    if (isDecoded) head.push('Content-Length', String(body.length));
    if (pinned !== undefined) head.push('Ledgergate-Served-Version', String(pinned));
    writer.addCommon(exchange, head);
    response.writeHead(answer.status, head);
    exchange.begin();
    if (Buffer.isBuffer(body)) {
      exchange.bytes = body.length;
      exchange.reservation?.addAnswer(body.length);
      response.end(exchange.isHead ? undefined : body);
      if (response.writableLength > 0) unsent.trackShort(response, body.length);
      exchange.end();
      return;
    }
    body.on('data', (chunk: Buffer) => {
      exchange.bytes += chunk.length;
    });
    try {
      await pipeline(body, response);
      exchange.end();
    } catch (error) {
      // The head is out, so a cut connection is how the client learns that the body is not whole.
      throw new GatewayError('unavailable', 'the answer broke off', { cause: error });
    }
  }

  /** The node's headers that reach the client, and the gateway's own about coding and caches. */
  #headOf(
    { admitted, target }: Exchange,
    answer: NodeAnswer | StreamedAnswer,
    coding: NodeCoding | undefined,
  ): string[] {
    const given = coding === answer.coding ? answer.headers : withoutCoding(answer.headers);
    const vary = mergedVary(this.#parts.writer.vary, answer.headers['vary']);
    const kept =
      vary === undefined ? withoutFreshness(given) : admitted?.isPrivate === true ? forOneClient(given) : given;
    // A cache would take the type of a 304 over for its stored answer (RFC 9110 15.4.5).
    const shown = answer.status === 304 ? { ...kept, 'content-type': undefined } : kept;
    const head = responseHeaders(shown, { secret: answer.upstream.headers, isCounted: admitted !== undefined });
    if (coding !== undefined) head.push('Content-Encoding', coding);
    head.push('Vary', vary ?? '*');
    if (kept['cache-control'] === undefined) head.push('Cache-Control', 'no-store');
    // Nodes name no methods with it.
    if (answer.status === 405 && kept['allow'] === undefined) head.push(...this.#parts.router.allowOf(target));
    return head;
  }
}

/** The coding that the client is given the answer in: its node's where the client takes that, none otherwise. */
function takenCoding(exchange: Exchange, { coding }: NodeAnswer | StreamedAnswer): NodeCoding | undefined {
  const accepted: readonly string[] = acceptedCodings(exchange.request.headers['accept-encoding']?.toString());
  return coding !== undefined && accepted.includes(coding) ? coding : undefined;
}

/** The answer's body as its node sent it, or decoded. */
function bodyIn(answer: NodeAnswer | StreamedAnswer, coding: NodeCoding | undefined): Buffer | Readable {
  if ('body' in answer) return coding === undefined ? answer.body : answer.sent;
  if (answer.coding === undefined || coding !== undefined) return answer.stream;
  return Readable.from(decode(answer.stream, answer.coding), { objectMode: false });
}

/** Notes what an answer that is passed through comes to. */
function note(exchange: Exchange, answer: NodeAnswer | StreamedAnswer, { gasUsed }: Dialect): void {
  const { upstream, tookMs, headers } = answer;
  exchange.noteUpstream('passed', { upstream: upstream.name, tookMs, gasUsed: headers[gasUsed] });
}

/** A submission outlives its client, but not this. */
const submissionBoundMs = 30_000;
