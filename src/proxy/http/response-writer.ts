/** Writes answers: stored bodies with live ledger headers, conditions, codings, and the gateway's own errors. */
import { type Dialect, errorBody, GatewayError, type LedgerVersion, listOfText } from '../../ledger/index.ts';
import type { ContentCoding } from '../../cache/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import { varyOfAll, type Cors } from './cors.ts';
import type { Exchange } from './exchange.ts';
import { chooseCoding, conditionalTag, entityTag, matchesTag, smallestCompressed } from './negotiate.ts';
import type { InfoBody, ReadResult, Reads } from '../reads/index.ts';
import { pieceBytes, type UnsentAnswers } from './unsent-answers.ts';

/** Sources of the headers, and the budget of unsent answers. */
export interface ResponseWriterParts {
  readonly fleet: Pick<Fleet, 'view'>;
  readonly cors: Cors;
  readonly unsent: UnsentAnswers;
  /** Lower-case name of the header that carries clients' keys; absent with open access. */
  readonly keyHeader?: (() => string) | undefined;
  /** On: connections close after their answer. */
  readonly draining: { readonly isOn: boolean };
}

/**
 * Caches that may store an answer: all, the client's own, or none. `none` applies to POST: the answer depends on the
 * request's body, which caches ignore (RFC 9110 9.3.3, 13.1.2), and conditions do not apply.
 */
export type CacheScope = 'public' | 'private' | 'none';

/** Bytes; larger bodies are cheaper written beside the head than copied behind it. */
const largestJoined = 4 * 1024;

/** Writes the answers of one process. */
export class ResponseWriter {
  readonly #parts: ResponseWriterParts;
  readonly #dialect: Dialect;

  constructor(parts: ResponseWriterParts, dialect: Dialect) {
    this.#parts = parts;
    this.#dialect = dialect;
  }

  /** Writes a read's answer in the client's preferred coding. Returns a promise only if the body must be coded. */
  read(exchange: Exchange, served: ReadResult, reader: Reads['reader']): void | Promise<void> {
    const { entry } = served;
    // Ahead of the wait for a coding: a hang-up meanwhile does not undo the node's work.
    note(exchange, served);
    const isCodable = entry.body.length >= smallestCompressed;
    const coding = isCodable ? chooseCoding(headerText(exchange.request.headers['accept-encoding'])) : undefined;
    if (coding === undefined) return this.#readAs(exchange, served, entry.body, undefined);
    const coded = isKnown(exchange, served, coding) ? entry.body : entry.coded[coding];
    if (coded !== undefined) return this.#readAs(exchange, served, coded, coding);
    // Coding takes longer than a read from a node: waiting bodies would pile up.
    this.#parts.unsent.hold(exchange.response, entry.body);
    return reader.codedBody(served, coding, exchange).then((body) => this.#readAs(exchange, served, body, coding));
  }

  #readAs(exchange: Exchange, served: ReadResult, body: Buffer, coding: ContentCoding | undefined): void {
    const { entry } = served;
    const scope = !isConditional(exchange) ? 'none' : exchange.admitted?.isPrivate === true ? 'private' : 'public';
    const common = this.commonHeadOf(served, scope);
    const own = this.ownHeadOf(served, coding);
    if (isKnown(exchange, served, coding)) {
      this.write(exchange, 304, [...unchangedHead(common), ...own], undefined);
      return;
    }
    const head = [...common, ...own];
    if (coding !== undefined) head.push('Content-Encoding', coding);
    this.write(exchange, entry.status, head, body);
  }

  /** Writes the ledger info. */
  info(exchange: Exchange, { body, version }: InfoBody): void {
    exchange.version = version;
    return this.write(exchange, 200, infoHead(this.vary, version), body);
  }

  /** Headers that many answers share, the content type first. */
  commonHeadOf(served: ReadResult, scope: CacheScope): string[] {
    const { entry, source } = served;
    return [
      'Content-Type',
      entry.contentType,
      'Vary',
      this.vary,
      'Cache-Status',
      this.#cacheStatus(source),
      'Cache-Control',
      cacheControl(served, scope),
    ];
  }

  /** Headers of one answer, except coding and length. */
  ownHeadOf({ entry, version, source, ageSeconds }: ReadResult, coding: ContentCoding | undefined): string[] {
    const head: string[] = [];
    // RFC 9111 5.1: the answer predates this request. A pinned version needs no revalidation.
    if (source.kind !== 'upstream') head.push('Age', String(ageSeconds));
    if (version !== undefined) head.push('Ledgergate-Served-Version', String(version));
    if (entry.gasUsed !== undefined) head.push(this.#dialect.gasUsed, entry.gasUsed);
    if (entry.cursor !== undefined) head.push(this.#dialect.cursor, entry.cursor);
    if (entry.ownHeaders !== undefined) {
      // A header may have become ledger-wide since: then only the live value is true.
      head.push(...listOfText(entry.ownHeaders, this.#dialect, this.#parts.fleet.view.ledgerWideNames));
    }
    if (entry.digest !== '') head.push('ETag', entityTag(entry, coding));
    if (source.kind === 'upstream' && source.retryAfter !== undefined) head.push('Retry-After', source.retryAfter);
    return head;
  }

  /** Whether connections close after their answer. */
  get isDraining(): boolean {
    return this.#parts.draining.isOn;
  }

  /** Writes a `GatewayError`; an unexpected exception becomes 500 without details. */
  error(exchange: Exchange, error: unknown): void {
    if (error instanceof GatewayError) exchange.failure = error;
    else exchange.bug = error;
    if (exchange.response.headersSent) {
      // The head of a streamed answer is out: only a cut connection can signal the error.
      exchange.outcome = 'failed';
      exchange.response.destroy();
      exchange.end();
      return;
    }
    const known = error instanceof GatewayError ? error : new GatewayError('internal', 'internal error');
    const head = ['Content-Type', 'application/json', 'Vary', this.vary, 'Cache-Control', 'no-store'];
    head.push(...known.headers);
    exchange.outcome = known.status < 500 ? 'refused' : 'failed';
    // Node writes `Connection: close`, and broken-request.ts reads the flag.
    if (known.closesConnection) exchange.response.shouldKeepAlive = false;
    try {
      this.write(exchange, known.status, head, errorBody(known.code, known.message));
    } catch {
      // The error itself cannot be written (a header value that HTTP forbids): close the connection, keep the process.
      exchange.response.destroy();
      exchange.end();
    }
  }

  /**
   * Writes head and body at once, with the common headers. Node joins a text body to the head; a Buffer takes a second
   * write, which costs more than the conversion to text.
   */
  write(exchange: Exchange, status: number, head: string[], body: Buffer | string | undefined): void {
    const { response } = exchange;
    const length = body === undefined ? 0 : Buffer.byteLength(body);
    const long = typeof body === 'object' && length > pieceBytes && !exchange.isHead ? body : undefined;
    if (long !== undefined) this.#parts.unsent.hold(response, long);
    if (body !== undefined) head.push('Content-Length', String(length));
    if (!exchange.isHead) exchange.bytes = length;
    this.addCommon(exchange, status, head);
    response.writeHead(status, head);
    if (long !== undefined) this.#parts.unsent.send(response, long);
    // Equal lengths mean ASCII, which Node writes faster as latin1.
    else if (typeof body === 'string') {
      response.end(exchange.isHead ? undefined : body, body.length === length ? 'latin1' : 'utf8');
    } else if (body !== undefined && body.length <= largestJoined && !exchange.isHead) {
      // Latin-1 maps every byte to one character, so the bytes stay the same.
      response.end(body.toString('latin1'), 'latin1');
    } else response.end(exchange.isHead ? undefined : body);
    if (long === undefined && response.writableLength > 0) this.#parts.unsent.trackShort(response, length);
    exchange.end();
  }

  /** `outage`: no node is reachable, and the ledger headers are the last ones (RFC 9211 2, parameters). */
  #cacheStatus(source: ReadResult['source']): string {
    const status = cacheStatus(source);
    return this.#parts.fleet.view.isPlain || source.kind === 'upstream' ? status : `${status}; outage`;
  }

  /** Request headers that select the bytes a cache may replay. */
  get vary(): string {
    const name = this.#parts.keyHeader?.();
    return name === undefined ? varyOfAll : `${varyOfAll}, ${name}`;
  }

  /** Adds `Retry-After` where clients have to wait, limit, CORS and ledger headers; closes the connection while draining. */
  addCommon(exchange: Exchange, status: number, head: string[]): void {
    const ledger = this.#parts.fleet.view.headers;
    // A node's own refusal mostly names no time, and clients without one repeat at once.
    if ((status === 503 || status === 429) && !names(head, 'retry-after')) head.push('Retry-After', '1');
    if (exchange.admitted !== undefined) head.push(...exchange.admitted.headers);
    if (exchange.request.headers.origin !== undefined) {
      head.push(...this.#parts.cors.headers(exchange.request, [...head, ...ledger]));
    }
    // Last: prepared hits join them with the date and the connection's headers, once for all requests of a moment.
    for (const item of ledger) head.push(item);
    if (this.isDraining) exchange.response.shouldKeepAlive = false;
    endWhereHttpDoes(exchange, head);
  }
}

/**
 * An HTTP/1.0 answer without a length ends with its connection (RFC 9112 6.3). Node decides that late: an answer to
 * bytes behind the request would become part of this one.
 */
export function endWhereHttpDoes({ request, response }: Exchange, head: readonly string[]): void {
  if (request.httpVersion !== '1.0') return;
  if (!names(head, 'content-length')) response.shouldKeepAlive = false;
}

/** Whether the flat headers hold one of this lower-case name. */
function names(head: readonly string[], name: string): boolean {
  return head.some((text, at) => at % 2 === 0 && text.toLowerCase() === name);
}

/** Head of a 304, from `commonHeadOf`: without the content type, which a cache would copy (RFC 9110 15.4.5). */
export function unchangedHead(commonHead: readonly string[]): string[] {
  return commonHead.slice(2);
}

/** Head of the ledger info up to its length, names and values in turn. */
export function infoHead(vary: string, version: LedgerVersion): string[] {
  const head = ['Content-Type', 'application/json; charset=utf-8', 'Vary', vary, 'Cache-Control', 'no-store'];
  head.push('Ledgergate-Served-Version', String(version));
  return head;
}

/** Whether conditions apply to the method. */
function isConditional({ request: { method } }: Exchange): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Whether the client holds the answer in `coding`, by its tag. A 304 then needs no body, coded or not. */
function isKnown(exchange: Exchange, { entry }: ReadResult, coding: ContentCoding | undefined): boolean {
  const condition = exchange.request.headers['if-none-match'];
  return isConditional(exchange) && matchesTag(condition, conditionalTag(entry, coding));
}

/** Records a read's source in its exchange. */
function note(exchange: Exchange, { source, entry, version }: ReadResult): void {
  exchange.version = version;
  if (source.kind === 'upstream') exchange.upstream = source.name;
  if (source.kind !== 'memory' && source.isCollapsed) exchange.outcome = 'collapsed';
  else if (source.kind !== 'upstream') exchange.outcome = source.kind;
  else exchange.noteUpstream('miss', { upstream: source.name, tookMs: source.tookMs, gasUsed: entry.gasUsed });
}

function cacheStatus(source: ReadResult['source']): string {
  if (source.kind === 'memory') return 'ledgergate; hit; detail=memory';
  if (source.kind !== 'upstream')
    return `ledgergate; hit; detail=${source.kind}${source.isCollapsed ? '; collapsed' : ''}`;
  return `ledgergate; fwd=miss; detail=${source.name}${source.isCollapsed ? '; collapsed' : ''}`;
}

/**
 * Directives for caches in front (RFC 9111 5.2.2). State and finished history hold for ever; rendered history for the time
 * that the gateway keeps it too. The latest state, what only one node has reached, a short share and a transaction by hash,
 * which may be asked for while it is pending, are revalidated by their tag.
 */
function cacheControl({ entry, isProvisional, isLatest }: ReadResult, scope: CacheScope): string {
  if (scope === 'none' || entry.digest === '') return 'no-store';
  const isRevalidated = isLatest || entry.lifetimeMs === 0 || isProvisional || entry.committedAt !== undefined;
  if (isRevalidated) return scope === 'private' ? 'private, no-cache' : 'no-cache';
  const { lifetimeMs } = entry;
  return lifetimeMs === Infinity
    ? `${scope}, max-age=31536000, immutable`
    : `${scope}, max-age=${Math.floor(lifetimeMs / 1000)}`;
}

function headerText(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' || value === undefined ? value : value.join(', ');
}
