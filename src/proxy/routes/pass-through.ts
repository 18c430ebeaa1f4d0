/**
 * Passes requests below the base path to a node unchanged, and streams the answer back. Paths that name a version are
 * routed by retention, as pinned reads are.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import {
  conditions,
  Dialect,
  type HeaderValues,
  isForNodes,
  isOfInterface,
  type LedgerVersion,
  namedByConnection,
  ofTraces,
  withVersion,
} from '../../ledger/index.ts';
import type { Demand, Fleet, FleetRequest, NodeAnswer, StreamedAnswer } from '../../upstream/index.ts';
import { type Exchange, readAccept } from '../http/index.ts';
import type { Reads } from '../reads/index.ts';
import type { Match, Router } from './router.ts';

/** Passes requests to nodes, and their answers to clients. Methods reject with `GatewayError`. */
export class PassThrough {
  readonly #fleet: Fleet;
  readonly #freshness: Reads['freshness'];
  readonly #router: Router;

  constructor(fleet: Fleet, { freshness }: Pick<Reads, 'freshness'>, router: Router) {
    this.#fleet = fleet;
    this.#freshness = freshness;
    this.#router = router;
  }

  /** Passes a request that is neither a submission nor a read of the ledger info. */
  async serve(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
    const request = this.#requestOf(exchange, match, body);
    if (match.isReadOfLatest) return this.#serveLatest(exchange, request);
    const answer = await this.#fleet.sender.stream(request, exchange.signal);
    if (answer.status >= 300) return this.#reply(exchange, answer);
    const { need } = request;
    const pinned = need.kind === 'version' && match.row.isList !== true ? need.version : undefined;
    return this.#reply(exchange, answer, pinned);
  }

  /** Ledger info in BCS, from a node that has reached every version that was served. Conditions are of another answer. */
  async ledgerInfo(exchange: Exchange, match: Match): Promise<void> {
    const request = this.#requestOf(exchange, match, undefined);
    const wire = { ...request.wire, path: '', headers: without(request.wire.headers, conditions) };
    const demand = this.#freshness.demandOf(exchange);
    return this.#serveHead(exchange, { ...request, wire, promised: 'bcs', isOfClient: false }, demand);
  }

  /** Sends a submission to one node, once. */
  async submit(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
    const request = { ...this.#requestOf(exchange, match, body), need: { kind: 'head' } as const, isIdempotent: false };
    // Recorded for clients that have left, too: they may read the hash over another connection.
    const answer = await this.#fleet.sender.whole(request, AbortSignal.timeout(submissionBoundMs));
    await this.#router.submissions.recordAnswer(answer.upstream.name, answer);
    await this.#reply(exchange, answer);
  }

  /**
   * Without a version, state is read at the shared latest version: an account's sequence number is never older than the
   * resources beside it. The node's freshness headers describe the pinned version, and are left out.
   */
  async #serveLatest(exchange: Exchange, request: FleetRequest): Promise<void> {
    const wire = { ...request.wire, headers: without(request.wire.headers, conditions) };
    const { latest, sender } = this.#fleet;
    const demand = this.#freshness.demandOf(exchange, { operation: exchange.route });
    if (demand.maxStalenessMs === 0) return this.#serveHead(exchange, { ...request, wire }, demand);
    const { answer, version } = await latest.at(demand, exchange, async (state) => {
      const { version: chosen } = state.info;
      const path = withVersion(wire.path, chosen);
      const need = { kind: 'version', version: chosen, isChosen: true } as const;
      const answered = await sender.stream({ ...request, wire: { ...wire, path }, need }, exchange.signal);
      latest.requireVersion(answered, chosen);
      if (answered.status < 300) this.#freshness.recordServed(exchange, state, performance.now());
      return { answer: answered, version: chosen };
    });
    const headers = without(answer.headers, freshness);
    return this.#reply(exchange, { ...answer, headers }, answer.status < 300 ? version : undefined);
  }

  /** Without staleness, state is read at a node's head. */
  async #serveHead(exchange: Exchange, request: FleetRequest, demand: Demand): Promise<void> {
    const { latest, sender } = this.#fleet;
    const answer = await latest.aboveFloor(demand, exchange.signal, (min, isChosen) =>
      sender.stream({ ...request, need: { kind: 'head', min, isExact: true, isChosen } }, exchange.signal),
    );
    latest.requireVersion(answer);
    const { status, info, upstream } = answer;
    if (status < 300 && info !== undefined && !upstream.isSuspect) this.#freshness.recordHead(exchange, info.version);
    const headers = without(answer.headers, freshness);
    return this.#reply(exchange, { ...answer, headers }, status < 300 ? info?.version : undefined);
  }

  #requestOf({ client, request, span }: Exchange, match: Match, body: Buffer | undefined): FleetRequest {
    const { isIdempotent, need, passedPath: path } = match;
    const { isHealthCheck = false, isOfLedger = false } = match.row;
    const method = match.method as FleetRequest['wire']['method'];
    const given = requestHeaders(request.headers);
    // A POST that reads has no representation at its path that conditions compare with (RFC 9110 13.1.2).
    const headers = isIdempotent && method === 'POST' ? without(given, conditions) : given;
    const promised = isOfLedger ? 'either' : undefined;
    const wire = { method, path, headers, body };
    return { wire, need, promised, isIdempotent, isOfClient: true, isHealthCheck, client, span };
  }

  async #reply(exchange: Exchange, answer: NodeAnswer | StreamedAnswer, pinned?: LedgerVersion): Promise<void> {
    const { upstream, tookMs, headers } = answer;
    // The node's coding where the client accepts it; otherwise the answer is decoded.
    const coding = exchange.codings.find((accepted) => accepted === answer.coding);
    const body = bodyIn(answer, coding);
    exchange.noteUpstream('passed', { upstream: upstream.name, tookMs, gasUsed: headers[this.#fleet.dialect.gasUsed] });
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
    const given = coding === answer.coding ? answer.headers : without(answer.headers, ofCodedBytes);
    const vary = mergedVary(own, answer.headers['vary']);
    const passed =
      vary === undefined ? without(given, freshness) : admitted?.isPrivate === true ? forOneClient(given) : given;
    // A cache would apply the type of a 304 to its stored answer (RFC 9110 15.4.5).
    const fields = answer.status === 304 ? { ...passed, 'content-type': undefined } : passed;
    const head = responseHeaders(fields, answer.upstream.withheld, admitted !== undefined);
    if (coding !== undefined) head.push('Content-Encoding', coding);
    head.push('Vary', vary ?? '*');
    if (passed['cache-control'] === undefined) head.push('Cache-Control', 'no-store');
    // Nodes send a 405 without `Allow`.
    if (answer.status === 405 && passed['allow'] === undefined) head.push(...this.#router.allowOf(target));
    return head;
  }
}

function bodyIn(answer: NodeAnswer | StreamedAnswer, coding: NodeAnswer['coding']): Buffer | Readable {
  if ('body' in answer) return coding === undefined ? answer.body : answer.sent;
  if (answer.coding === undefined || coding !== undefined) return answer.stream;
  return answer.stream.decoded(answer.coding);
}

/** Bound of a submission, which outlives its client. */
const submissionBoundMs = 30_000;

/**
 * Headers to send to a node, trace headers excluded. `Accept-Encoding` lists, in one spelling, the codings that both
 * the gateway and the client read.
 */
export function requestHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namedByConnection(headers.connection);
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || named.has(name)) continue;
    if (isForNodes(name) && !ofTraces.includes(name)) kept[name] = value;
  }
  const { accept, codings } = readAccept(headers);
  // The gateway ignores such a header too: node and gateway answer in the default form.
  if (accept === undefined) delete kept['accept'];
  if (codings.length > 0 && !named.has('accept-encoding')) kept['accept-encoding'] = codings.join(', ');
  return kept;
}

/**
 * Headers of a node's answer that reach clients, beside the interface's own. An allow-list, because a node's address,
 * its software and instructions for proxies (`X-Accel-Redirect`) come under any name. The gateway writes
 * `Content-Encoding` and `Vary` itself.
 */
const passed: ReadonlySet<string> = new Set(
  [
    'content-type content-length content-language content-disposition content-digest repr-digest x-content-type-options',
    'cache-control expires pragma age etag last-modified',
    'allow location retry-after traceparent',
  ].flatMap((names) => names.split(' ')),
);

/** RateLimit, RateLimit-Policy, X-RateLimit-Remaining and similar. */
const ofLimits = /^(?:x-)?ratelimit(?:-[a-z-]+)?$/;

/** The ledger's headers of either dialect: the gateway writes live ones. */
const live: ReadonlySet<string> = new Set(
  (['node', 'aptos'] as const)
    .map((name) => new Dialect(name))
    .flatMap(({ seven, epochKey }) => seven.concat(epochKey)),
);

/**
 * Flat headers of a node's answer to pass on. `secret`: the node's credentials, which an echo of the request must not
 * publish. `isCounted`: the gateway's own limits apply to the client, and a node's limit headers would contradict them.
 */
export function responseHeaders(headers: HeaderValues, secret: HeaderValues = {}, isCounted = false): string[] {
  const named = namedByConnection(typeof headers['connection'] === 'string' ? headers['connection'] : undefined);
  const kept: string[] = [];
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || named.has(name) || Object.hasOwn(secret, name)) continue;
    const isPassed = passed.has(name) || (isOfInterface(name) && !live.has(name));
    if (!isPassed && (isCounted || !ofLimits.test(name))) continue;
    if (name === 'location' && !(typeof value === 'string' && isRelative(value))) continue;
    for (const single of typeof value === 'string' ? [value] : value) kept.push(name, single);
  }
  return kept;
}

/** Whether a redirection stays below this gateway and holds no node's address, in a query or any other spelling. */
function isRelative(location: string): boolean {
  return /^(?![a-z][a-z0-9+.-]*:|[/\\]{2})[!-[\]-~]+$/i.test(location) && !/(?::|%3a)(?:\/|%2f){2}/i.test(location);
}

/** Headers of an answer that only its client may store: shared caches between client and gateway must not. */
function forOneClient(headers: HeaderValues): HeaderValues {
  const { 'cache-control': control, ...others } = headers;
  if (control === undefined) return headers;
  const directives = String(control).split(',');
  const kept = directives.map((directive) => directive.trim()).filter((text) => !sharing.test(text));
  return { ...others, 'cache-control': ['private', ...kept].join(', ') };
}

/** Directives of shared caches (RFC 9111 5.2.2), and `public` and `private`. */
const sharing = /^(?:public|private|s-maxage|proxy-revalidate)\b|^$/i;

/** Headers that make a cache store the answer. */
const freshness = ['cache-control', 'pragma', 'expires', 'age', 'etag', 'last-modified'];
/** Length, strong tag and digests do not belong to an answer that the gateway decodes. */
const ofCodedBytes = ['content-length', 'etag', 'content-digest', 'repr-digest'];

/**
 * The gateway's `Vary` merged with a node's. `undefined`: they cannot be merged (`*`, a malformed name, or too long),
 * and caches must not store the answer.
 */
export function mergedVary(own: string, given: HeaderValues[string]): string | undefined {
  if (given === undefined) return own;
  const text = String(given);
  if (text.length > longestVary) return undefined;
  const names = new Map(own.split(', ').map((name) => [name.toLowerCase(), name]));
  for (const name of text.split(',').map((part) => part.trim())) {
    if (name === '*' || !/^[!#$%&'*+.^`|~\w-]*$/.test(name)) return undefined;
    if (name !== '' && !names.has(name.toLowerCase())) names.set(name.toLowerCase(), name);
  }
  return [...names.values()].join(', ');
}

const longestVary = 1024;

function without<T>(headers: Readonly<Record<string, T>>, names: readonly string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}
