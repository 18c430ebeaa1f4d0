/** Writes answers: stored bodies with live ledger headers, conditions, codings, and the gateway's own errors. */
import { errorBody, GatewayError } from '../../ledger/errors.ts';
import type { Dialect } from '../../ledger/ledger-headers.ts';
import type { CachedResponse, ContentCoding } from '../../cache/entry.ts';
import type { Fleet } from '../../upstream/fleet.ts';
import { varyOfAll, type Cors } from './cors.ts';
import type { Exchange } from './exchange.ts';
import { chooseCoding, matchesTag, smallestCompressed } from './negotiate.ts';
import type { Outgoing } from './message.ts';
import type { Reader } from '../reads/reader.ts';
import type { ReadResult, Source } from '../reads/read-result.ts';
import { pieceBytes, type UnsentAnswers } from './unsent-answers.ts';

/** Parts of a response writer. */
export interface ResponseWriterParts {
  readonly fleet: Pick<Fleet, 'view'>;
  readonly cors: Cors;
  readonly unsent: UnsentAnswers;
  /** The header that clients' keys come in, where there are keys: lower case. */
  readonly keyHeader?: (() => string) | undefined;
  /** On: connections shall be closed after their answer. */
  readonly draining: { readonly isOn: boolean };
}

/**
 * The caches that may keep an answer: all, the client's own, or none. `none` is for the answer to a POST: it is of the
 * request's body, which caches do not look at (RFC 9110 9.3.3, 13.1.2), and no condition applies to it.
 */
export type CacheScope = 'public' | 'private' | 'none';

/** Larger bodies are cheaper written beside the head than copied behind it. */
const largestJoined = 4 * 1024;

/** Writes the answers of one process. */
export class ResponseWriter {
  readonly #parts: ResponseWriterParts;
  readonly #gasUsed: string;
  readonly #cursor: string;

  constructor(parts: ResponseWriterParts, dialect: Dialect) {
    this.#parts = parts;
    this.#gasUsed = dialect.gasUsed;
    this.#cursor = dialect.cursor;
  }

  /** Writes a read's answer in the coding the client prefers. Returns a promise only when a body must be coded. */
  read(exchange: Exchange<Outgoing>, served: ReadResult, reader: Reader): void | Promise<void> {
    const { entry } = served;
    // Before any wait for a coding: who hangs up in it has had the node's work all the same.
    note(exchange, served);
    const isCodable = entry.body.length >= smallestCompressed;
    const coding = isCodable ? chooseCoding(headerText(exchange.request.headers['accept-encoding'])) : undefined;
    if (coding === undefined) return this.#readAs(exchange, served, entry.body, undefined);
    const coded = entry.coded[coding];
    if (coded !== undefined) return this.#readAs(exchange, served, coded, coding);
    // Coding takes longer than reading from a node: bodies that wait for it would pile up.
    this.#parts.unsent.hold(exchange.response, entry.body);
    return reader
      .codedBody(served, coding, exchange.signal)
      .then((body) => this.#readAs(exchange, served, body, coding));
  }

  #readAs(exchange: Exchange<Outgoing>, served: ReadResult, body: Buffer, coding: ContentCoding | undefined): void {
    const { entry } = served;
    const { method } = exchange.request;
    const isConditional = method === 'GET' || method === 'HEAD';
    const scope = !isConditional ? 'none' : exchange.admitted?.isPrivate === true ? 'private' : 'public';
    const head = this.commonHeadOf(served, scope);
    head.push(...this.ownHeadOf(served, coding));
    const isHeld = isConditional && served.isFinal && entry.status === 200;
    if (isHeld && matchesTag(exchange.request.headers['if-none-match'], entityTag(entry, coding))) {
      // Without the content type: a cache would take it over for its stored answer (RFC 9110 15.4.5).
      this.write(exchange, 304, head.slice(2), undefined);
      return;
    }
    if (coding !== undefined) head.push('Content-Encoding', coding);
    this.write(exchange, entry.status, head, body);
  }

  /** Headers that many answers have in common, the content type first. */
  commonHeadOf({ entry, isFinal, isLatest, source }: ReadResult, scope: CacheScope): string[] {
    const isKept = scope !== 'none' && isFinal && entry.isImmutable && !isLatest;
    return [
      'Content-Type',
      entry.contentType,
      'Vary',
      this.vary,
      'Cache-Status',
      this.#cacheStatus(source),
      'Cache-Control',
      isKept ? `${scope}, max-age=31536000, immutable` : 'no-store',
    ];
  }

  /** Headers that are of this answer, its coding and length apart. */
  ownHeadOf({ entry, isFinal, version, source, ageSeconds }: ReadResult, coding: ContentCoding | undefined): string[] {
    const head: string[] = [];
    // RFC 9111 5.1: the answer was not made for this request. A version needs no validation to be as it was.
    if (source.kind !== 'upstream') head.push('Age', String(ageSeconds));
    if (version !== undefined) head.push('Ledgergate-Served-Version', String(version));
    if (entry.gasUsed !== undefined) head.push(this.#gasUsed, entry.gasUsed);
    if (entry.cursor !== undefined) head.push(this.#cursor, entry.cursor);
    if (isFinal) head.push('ETag', entityTag(entry, coding));
    return head;
  }

  /** Whether connections are closed behind their answer. */
  get isDraining(): boolean {
    return this.#parts.draining.isOn;
  }

  /** Writes the gateway's own error, or what a bug threw as 500 without its details. */
  error(exchange: Exchange<Outgoing>, error: unknown): void {
    if (!(error instanceof GatewayError)) exchange.bug = error;
    if (exchange.response.headersSent) {
      // A streamed answer broke after its head: a cut connection is the only way left to say so.
      exchange.outcome = 'failed';
      exchange.response.destroy();
      exchange.end();
      return;
    }
    const known = error instanceof GatewayError ? error : new GatewayError('internal', 'internal error');
    const head = ['Content-Type', 'application/json', 'Vary', this.vary, 'Cache-Control', 'no-store'];
    head.push(...known.headers);
    if (known.status === 503 && !known.headers.includes('Retry-After')) head.push('Retry-After', '1');
    exchange.outcome = known.status < 500 ? 'refused' : 'failed';
    // Node writes the header, and what comes behind finds it (broken-request.ts).
    if (known.closesConnection) exchange.response.shouldKeepAlive = false;
    try {
      this.write(exchange, known.status, head, errorBody(known.code, known.message));
    } catch {
      // Not even the error can be written (a header value that HTTP forbids): the client gets a closed connection, and
      // the process goes on.
      exchange.response.destroy();
      exchange.end();
    }
  }

  /**
   * Writes head and body in one go, with the headers that every answer carries. Node joins a body that is text to its
   * head; a Buffer takes a second piece, which costs a few microseconds more than making the text.
   */
  write(exchange: Exchange<Outgoing>, status: number, head: string[], body: Buffer | string | undefined): void {
    const { response } = exchange;
    const length = body === undefined ? 0 : Buffer.byteLength(body);
    const long = typeof body === 'object' && length > pieceBytes && !exchange.isHead ? body : undefined;
    if (long !== undefined) this.#parts.unsent.hold(response, long);
    if (body !== undefined) head.push('Content-Length', String(length));
    if (!exchange.isHead) exchange.bytes = length;
    this.addCommon(exchange, head);
    response.writeHead(status, head);
    if (long !== undefined) this.#parts.unsent.send(response, long);
    // As many bytes as characters: ASCII, which is written faster when it need not be looked at for more.
    else if (typeof body === 'string') {
      response.end(exchange.isHead ? undefined : body, body.length === length ? 'latin1' : 'utf8');
    } else if (body !== undefined && body.length <= largestJoined && !exchange.isHead) {
      // Latin-1 has a character for every byte, so the text is written as these very bytes.
      response.end(body.toString('latin1'), 'latin1');
    } else response.end(exchange.isHead ? undefined : body);
    if (long === undefined && response.writableLength > 0) this.#parts.unsent.trackShort(response, length);
    exchange.end();
  }

  /** `outage`: no node could be asked, and the ledger headers are of the last that could (RFC 9211 2, parameters). */
  #cacheStatus(source: Source): string {
    const status = cacheStatus(source);
    return this.#parts.fleet.view.isPlain || source.kind === 'upstream' ? status : `${status}; outage`;
  }

  /** Every part of a request that decides which bytes a cache in front may replay to it. */
  get vary(): string {
    const name = this.#parts.keyHeader?.();
    return name === undefined ? varyOfAll : `${varyOfAll}, ${name}`;
  }

  /** Adds live ledger headers, those of the limits, cross-origin headers, and the wish to close while draining. */
  addCommon(exchange: Exchange<Outgoing>, head: string[]): void {
    for (const item of this.#parts.fleet.view.headers) head.push(item);
    if (exchange.admitted !== undefined) head.push(...exchange.admitted.headers);
    if (exchange.request.headers.origin !== undefined) head.push(...this.#parts.cors.headers(exchange.request));
    if (this.isDraining) exchange.response.shouldKeepAlive = false;
    endWhereHttpDoes(exchange, head);
  }
}

/**
 * In HTTP/1.0 the end of the connection is the end of an answer that tells no length (RFC 9112 6.3). Node closes it, but
 * does not say so before it has: what is written meanwhile of bytes behind the request would be read as part of it.
 */
export function endWhereHttpDoes({ request, response }: Exchange<Outgoing>, head: readonly string[]): void {
  if (request.httpVersion !== '1.0') return;
  const tellsLength = head.some((text, at) => at % 2 === 0 && text.toLowerCase() === 'content-length');
  if (!tellsLength) response.shouldKeepAlive = false;
}

/** Notes what a read came to. */
function note(exchange: Exchange<Outgoing>, { source, entry, version }: ReadResult): void {
  exchange.version = version;
  if (source.kind === 'upstream') exchange.upstream = source.name;
  if (source.kind !== 'memory' && source.isCollapsed) exchange.outcome = 'collapsed';
  else if (source.kind !== 'upstream') exchange.outcome = source.kind;
  else return exchange.noteUpstream('miss', { upstream: source.name, tookMs: source.tookMs, gasUsed: entry.gasUsed });
  exchange.savedBytes = entry.body.length;
  return undefined;
}

function cacheStatus(source: Source): string {
  if (source.kind === 'memory') return 'ledgergate; hit; detail=memory';
  if (source.kind === 'redis') return `ledgergate; hit; detail=redis${source.isCollapsed ? '; collapsed' : ''}`;
  return `ledgergate; fwd=miss; detail=${source.name}${source.isCollapsed ? '; collapsed' : ''}`;
}

/** A strong tag: equal tags mean equal bytes, so each coding has its own (RFC 9110 8.8.3.3). */
function entityTag(entry: CachedResponse, coding: ContentCoding | undefined): string {
  return coding === undefined ? `"${entry.digest}"` : `"${entry.digest}-${coding}"`;
}

function headerText(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' || value === undefined ? value : value.join(', ');
}
