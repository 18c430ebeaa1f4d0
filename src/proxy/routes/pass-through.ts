/**
 * Passes requests below the base path to a node unchanged, and streams the answer back. Paths that name a version are
 * routed by retention, as pinned reads are.
 */
import type { Readable } from 'node:stream';
import { type LedgerVersion, withVersion } from '../../ledger/index.ts';
import type { Fleet, FleetRequest, NodeAnswer, StreamedAnswer } from '../../upstream/index.ts';
import type { Exchange } from '../http/index.ts';
import {
  forOneClient,
  mergedVary,
  requestHeaders,
  responseHeaders,
  withoutCoding,
  withoutConditions,
  withoutFreshness,
} from './passed-headers.ts';
import type { Reads } from '../reads/index.ts';
import type { Match, Router } from './router.ts';
import type { Submissions } from './submissions.ts';

interface PassThroughParts extends Pick<Reads, 'freshness'> {
  readonly router: Router;
  readonly fleet: Fleet;
  readonly sender: Fleet['sender'];
  readonly submissions: Submissions;
  readonly latest: Fleet['latest'];
}

/** Passes requests to nodes, and their answers to clients. Methods reject with `GatewayError`. */
export class PassThrough {
  readonly #parts: PassThroughParts;

  constructor(parts: PassThroughParts) {
    this.#parts = parts;
  }

  /** Passes a request that is neither a submission nor a read of the ledger info. */
  async serve(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
    const request = this.#requestOf(exchange, match, body);
    if (match.isReadOfLatest) return this.#serveLatest(exchange, request);
    const answer = await this.#parts.sender.stream(request, exchange.signal);
    if (answer.status >= 300) return this.#reply(exchange, answer);
    const { need } = request;
    const pinned = need.kind === 'version' && match.row.isList !== true ? need.version : undefined;
    return this.#reply(exchange, answer, pinned);
  }

  /** Ledger info in BCS, from a node that has reached every version that was served. */
  async ledgerInfo(exchange: Exchange, match: Match): Promise<void> {
    const request = this.#requestOf(exchange, match, undefined);
    const wire = { ...request.wire, path: '', headers: withoutConditions(request.wire.headers) };
    const { min } = this.#parts.freshness.demandOf(exchange.request);
    return this.#serveHead(exchange, { ...request, wire, promised: 'bcs', isOfClient: false }, min);
  }

  /** Sends a submission to one node, once. */
  async submit(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
    const { sender, submissions } = this.#parts;
    const request = { ...this.#requestOf(exchange, match, body), need: { kind: 'head' } as const, isIdempotent: false };
    // Recorded for clients that have left, too: they may read the hash over another connection.
    const answer = await sender.whole(request, AbortSignal.timeout(submissionBoundMs));
    await submissions.recordAnswer(answer.upstream.name, answer);
    await this.#reply(exchange, answer);
  }

  /**
   * Without a version, state is read at the shared latest version: an account's sequence number is never older than the
   * resources beside it. The node's freshness headers describe the pinned version, and are left out.
   */
  async #serveLatest(exchange: Exchange, request: FleetRequest): Promise<void> {
    const wire = { ...request.wire, headers: withoutConditions(request.wire.headers) };
    const { freshness, latest, sender } = this.#parts;
    const demand = freshness.demandOf(exchange.request);
    if (demand.maxStalenessMs === 0) return this.#serveHead(exchange, { ...request, wire }, demand.min);
    const { answer, version } = await latest.at(demand, exchange, async (state) => {
      const { version: chosen } = state.info;
      const path = withVersion(wire.path, chosen);
      const need = { kind: 'version', version: chosen, isChosen: true } as const;
      const answered = await sender.stream({ ...request, wire: { ...wire, path }, need }, exchange.signal);
      latest.requireVersion(answered, chosen);
      if (answered.status < 300) freshness.recordServed(exchange.request, state, performance.now());
      return { answer: answered, version: chosen };
    });
    const headers = withoutFreshness(answer.headers);
    return this.#reply(exchange, { ...answer, headers }, answer.status < 300 ? version : undefined);
  }

  /** Without staleness, state is read at a node's head. */
  async #serveHead(exchange: Exchange, request: FleetRequest, seen: LedgerVersion | undefined): Promise<void> {
    const { latest, sender, freshness } = this.#parts;
    const answer = await latest.aboveFloor(seen, exchange.signal, (min, isChosen) =>
      sender.stream({ ...request, need: { kind: 'head', min, isExact: true, isChosen } }, exchange.signal),
    );
    latest.requireVersion(answer);
    const { status, info, upstream } = answer;
    if (status < 300 && info !== undefined && !upstream.isSuspect) freshness.recordHead(exchange.request, info.version);
    const headers = withoutFreshness(answer.headers);
    return this.#reply(exchange, { ...answer, headers }, status < 300 ? info?.version : undefined);
  }

  #requestOf({ client, request, span }: Exchange, match: Match, body: Buffer | undefined): FleetRequest {
    const { isIdempotent, need, passedPath: path } = match;
    const { isHealthCheck = false, isOfLedger = false } = match.row;
    const method = match.method as FleetRequest['wire']['method'];
    const given = requestHeaders(request.headers);
    // A POST that reads has no representation at its path that conditions compare with (RFC 9110 13.1.2).
    const headers = isIdempotent && method === 'POST' ? withoutConditions(given) : given;
    const promised = isOfLedger ? 'either' : undefined;
    const wire = { method, path, headers, body };
    return { wire, need, promised, isIdempotent, isOfClient: true, isHealthCheck, client, span };
  }

  async #reply(exchange: Exchange, answer: NodeAnswer | StreamedAnswer, pinned?: LedgerVersion): Promise<void> {
    const { fleet } = this.#parts;
    const { upstream, tookMs, headers } = answer;
    const coding = acceptedCoding(exchange, answer);
    const body = bodyIn(answer, coding);
    exchange.noteUpstream('passed', { upstream: upstream.name, tookMs, gasUsed: headers[fleet.dialect.gasUsed] });
    exchange.version = pinned;
    const head = this.#headOf(exchange, answer, coding);
    const isDecoded = Buffer.isBuffer(body) && body.length > 0 && coding !== answer.coding;
    if (isDecoded) head.push('Content-Length', String(body.length));
    if (pinned !== undefined) head.push('Ledgergate-Served-Version', String(pinned));
    return exchange.pass(answer.status, head, body);
  }

  /** End-to-end headers of the node, and the gateway's own of coding and caching. */
  #headOf(
    { admitted, target, vary: own }: Exchange,
    answer: NodeAnswer | StreamedAnswer,
    coding: NodeAnswer['coding'],
  ): string[] {
    const given = coding === answer.coding ? answer.headers : withoutCoding(answer.headers);
    const vary = mergedVary(own, answer.headers['vary']);
    const passed =
      vary === undefined ? withoutFreshness(given) : admitted?.isPrivate === true ? forOneClient(given) : given;
    // A cache would apply the type of a 304 to its stored answer (RFC 9110 15.4.5).
    const fields = answer.status === 304 ? { ...passed, 'content-type': undefined } : passed;
    const isCounted = admitted !== undefined;
    const head = responseHeaders(fields, { secret: answer.upstream.headers, isCounted });
    if (coding !== undefined) head.push('Content-Encoding', coding);
    head.push('Vary', vary ?? '*');
    if (passed['cache-control'] === undefined) head.push('Cache-Control', 'no-store');
    // Nodes send a 405 without `Allow`.
    if (answer.status === 405 && passed['allow'] === undefined) head.push(...this.#parts.router.allowOf(target));
    return head;
  }
}

/** The node's coding where the client accepts it; otherwise the answer is decoded. */
function acceptedCoding(exchange: Exchange, { coding }: NodeAnswer | StreamedAnswer): NodeAnswer['coding'] {
  return coding !== undefined && exchange.codings.includes(coding) ? coding : undefined;
}

/** The body, decoded unless it keeps its coding. */
function bodyIn(answer: NodeAnswer | StreamedAnswer, coding: NodeAnswer['coding']): Buffer | Readable {
  if ('body' in answer) return coding === undefined ? answer.body : answer.sent;
  if (answer.coding === undefined || coding !== undefined) return answer.stream;
  return answer.stream.decoded(answer.coding);
}

/** Bound of a submission, which outlives its client. */
const submissionBoundMs = 30_000;
