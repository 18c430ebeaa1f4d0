/**
 * Heads of answers: what caches may do with them, where they come from, cross-origin access, and their text in the form of
 * Node's HTTP server.
 */
import { type Dialect, familyText, isOfInterface, type LedgerVersion } from '../../ledger/index.ts';
import type { ContentCoding } from '../../cache/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import type { ReadResult } from '../reads/index.ts';
import { entityTag } from './negotiate.ts';
import { STATUS_CODES } from './server/lean-http.ts';
import type { Incoming } from './message.ts';
import type { CacheScope } from './target-cache.ts';

/** Milliseconds; longer than balancers keep idle connections (60 s), so that none sends into a closing one. */
export const keepAliveMs = 75_000;

/** Makes the heads of one process's answers, names and values in turn. */
export class AnswerHeads {
  readonly cors: Cors;
  /** Connections close after their answer. */
  isDraining = false;
  readonly #fleet: Pick<Fleet, 'view' | 'dialect'>;
  readonly #keyHeader: (() => string) | undefined;

  /** `keyHeader`: lower-case name of the header that carries clients' keys; absent with open access. */
  constructor(fleet: Pick<Fleet, 'view' | 'dialect'>, keyHeader?: () => string) {
    this.cors = new Cors(fleet.dialect);
    this.#fleet = fleet;
    this.#keyHeader = keyHeader;
  }

  /** Headers that many answers share, the content type first. */
  commonHeadOf(served: ReadResult, scope: CacheScope): string[] {
    const head = ['Content-Type', served.entry.contentType, 'Vary', this.vary];
    head.push('Cache-Status', this.#cacheStatus(served), 'Cache-Control', cacheControl(served, scope));
    return head;
  }

  /** Headers of one answer, except coding and length. */
  ownHeadOf({ entry, version, source, ageSeconds }: ReadResult, coding: ContentCoding | undefined): string[] {
    const head: string[] = [];
    const { dialect, view } = this.#fleet;
    // RFC 9111 5.1: the answer predates this request. A pinned version needs no revalidation.
    if (typeof source === 'string') head.push('Age', String(ageSeconds));
    if (version !== undefined) head.push('Ledgergate-Served-Version', String(version));
    if (entry.gasUsed !== undefined) head.push(dialect.gasUsed, entry.gasUsed);
    if (entry.cursor !== undefined) head.push(dialect.cursor, entry.cursor);
    if (entry.ownHeaders !== undefined) {
      // A header may have become ledger-wide since: then only the live value is true.
      head.push(...familyText.list(entry.ownHeaders, dialect, view.ledgerWideNames));
    }
    if (entry.digest !== '') head.push('ETag', entityTag(entry, coding));
    if (typeof source === 'object' && source.retryAfter !== undefined) head.push('Retry-After', source.retryAfter);
    return head;
  }

  /** `outage`: no node is reachable, and the ledger headers are the last ones (RFC 9211 2, parameters). */
  #cacheStatus({ source, isCollapsed }: ReadResult): string {
    const collapsed = isCollapsed ? '; collapsed' : '';
    if (typeof source === 'object') return `ledgergate; fwd=miss; detail=${source.upstream}${collapsed}`;
    return `ledgergate; hit; detail=${source}${collapsed}${this.#fleet.view.isPlain ? '' : '; outage'}`;
  }

  /** Request headers that select the bytes a cache may replay. */
  get vary(): string {
    const name = this.#keyHeader?.();
    return name === undefined ? varyOfAll : `${varyOfAll}, ${name}`;
  }

  infoHead(version: LedgerVersion): string[] {
    return this.unstoredHead('application/json; charset=utf-8', ['Ledgergate-Served-Version', String(version)]);
  }

  /** Head of an event stream. Proxies that buffer answers by default send its events at once (nginx). */
  eventsHead(): string[] {
    return this.unstoredHead('text/event-stream; charset=utf-8', ['X-Accel-Buffering', 'no']);
  }

  /** Head of an answer of the gateway's own, `own` behind it. */
  unstoredHead(contentType: string, own: readonly string[]): string[] {
    return ['Content-Type', contentType, 'Vary', this.vary, 'Cache-Control', 'no-store', ...own];
  }
}

/** Head of a 304, from `commonHeadOf`: without the content type, which a cache would copy (RFC 9110 15.4.5). */
export function unchangedHead(commonHead: readonly string[]): string[] {
  return commonHead.slice(2);
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

/** `Vary` of every answer: without `Origin`, a cache could replay an answer without CORS headers to a page. */
const varyOfAll = 'Accept, Accept-Encoding, Origin';

/** A day; browsers apply lower bounds of their own. */
const preflightSeconds = 86_400;

/** Makes the cross-origin headers of answers. */
export class Cors {
  readonly #dialect: Dialect;
  /** Made anew when the dialect gets other names (`Fleet.takeDialect`). */
  #exposed = { known: new Set<string>() as ReadonlySet<string>, names: '' };

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  /** Flat CORS headers for `origin`. `further`: of `furtherIn`, for all headers of the answer. */
  grant(origin: string, further: string): readonly string[] {
    if (origin.length > longestOrigin) return [];
    const { known } = this.#dialect;
    if (this.#exposed.known !== known) this.#exposed = { known, names: [...known, exposedNames].join(', ') };
    return [...granted(origin), 'Access-Control-Expose-Headers', this.#exposed.names + further];
  }

  /** The interface's names in `head` that are not exposed yet, each behind a comma. */
  furtherIn(head: readonly string[]): string {
    let further = '';
    for (let at = 0; at < head.length; at += 2) {
      const written = head[at] as string;
      if (written[0] !== 'x' && written[0] !== 'X') continue;
      const name = written.toLowerCase();
      if (isOfInterface(name) && !this.#dialect.known.has(name)) further += `, ${name}`;
    }
    return further;
  }

  /**
   * Headers of a preflight's answer, or `undefined` for other requests. Browsers send preflights without a key, so
   * access control applies to the request itself. `Access-Control-Request-Private-Network` gets no answer: a public
   * page must not reach a private network.
   */
  preflight({ headers }: Incoming): string[] | undefined {
    const { origin, 'access-control-request-headers': wanted } = headers;
    if (origin === undefined || headers['access-control-request-method'] === undefined) return undefined;
    const vary = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'];
    if (origin.length > longestOrigin) return vary;
    const head = [...granted(origin), 'Access-Control-Allow-Methods', 'GET, HEAD, POST'];
    if (wanted !== undefined && wanted.length <= longestList) head.push('Access-Control-Allow-Headers', wanted);
    return [...head, 'Access-Control-Max-Age', String(preflightSeconds), ...vary];
  }
}

/** Names of the gateway's own that CORS exposes, beside those of the interface. */
const exposedNames =
  'Cache-Status, Ledgergate-Served-Version, ETag, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate';
/** In characters: a scheme, a host of 253 and a port are shorter, and browsers list a few headers. */
const longestOrigin = 512;
const longestList = 4096;

/** Public SDKs send `credentials: include`, which forbids a wildcard origin; the gateway trusts no cookies. */
function granted(origin: string): readonly string[] {
  return ['Access-Control-Allow-Origin', origin, 'Access-Control-Allow-Credentials', 'true'];
}

/** Whether the flat headers hold one of this lower-case name. */
export function hasField(head: readonly string[], name: string): boolean {
  for (let at = 0; at < head.length; at += 2) {
    const text = head[at] as string;
    if (text.length === name.length && text.toLowerCase() === name) return true;
  }
  return false;
}

/** Bytes that HTTP forbids in a field value (RFC 9110 5.5): a line feed would begin another header. */
const forbiddenInValue = /[^\t -~\x80-\xff]/;

/** Status line and headers, without the empty line. `head`: names and values in turn. Throws as `fieldLines`. */
export function headText(status: number, head: readonly string[]): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n${fieldLines(head)}`;
}

/** One line per header. Throws on bytes that HTTP forbids in a value (RFC 9110 5.5), as Node does. */
export function fieldLines(head: readonly string[]): string {
  for (let at = 1; at < head.length; at += 2) {
    if (forbiddenInValue.test(head[at] as string)) throw new Error('an answer header contains bytes that HTTP forbids');
  }
  return ownLines(head);
}

/** One line per header, of values made by this program alone: numbers and names of bounds. */
export function ownLines(head: readonly string[]): string {
  let text = '';
  for (let at = 0; at + 1 < head.length; at += 2) text += `${head[at]}: ${head[at + 1]}\r\n`;
  return text;
}

const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveMs / 1000}\r\n\r\n`;
const chunked = 'Transfer-Encoding: chunked\r\n\r\n';
const close = 'Connection: close\r\n\r\n';

/** Headers shared by all answers of a moment: ledger headers, encoded once per change, and the date, once a second. */
export class LiveHeaders {
  #untilMs = -Infinity;
  #date = '';
  /** The ledger headers of `#lines`. */
  #ledger: readonly string[] = [];
  #lines = '';
  /** The ends of heads with `#lines` and `#date`; absent after a change of either. */
  #ends: { readonly kept: Buffer; readonly closing: Buffer } | undefined;

  /** End of a head, with the empty line. `isChunked`: the body has no length. */
  endOfHead(isKept: boolean, isChunked = false): string {
    this.#renewDate(performance.now());
    const connection = isKept ? keepAlive : close;
    return this.#date + (isChunked ? connection.slice(0, -2) + chunked : connection);
  }

  /** One line per ledger header. Throws as `fieldLines`. */
  lines(ledger: readonly string[]): string {
    if (ledger !== this.#ledger) {
      this.#lines = fieldLines(ledger);
      this.#ledger = ledger;
      this.#ends = undefined;
    }
    return this.#lines;
  }

  /** Ledger headers and the end of a head. `nowMs`: `performance.now()`. */
  bytes(ledger: readonly string[], isKept: boolean, nowMs: number): Buffer {
    this.#renewDate(nowMs);
    const lines = this.lines(ledger);
    this.#ends ??= {
      kept: Buffer.from(lines + this.#date + keepAlive, 'latin1'),
      closing: Buffer.from(lines + this.#date + close, 'latin1'),
    };
    return isKept ? this.#ends.kept : this.#ends.closing;
  }

  #renewDate(nowMs: number): void {
    if (nowMs < this.#untilMs) return;
    const dateMs = Date.now();
    this.#untilMs = nowMs + 1000 - (dateMs % 1000);
    this.#date = `Date: ${new Date(dateMs).toUTCString()}\r\n`;
    this.#ends = undefined;
  }
}
