/** Cross-origin access as nodes grant it, plus the exposed headers that nodes omit (protocol 2.5). */
import { type Dialect, isOfInterface } from '../../ledger/index.ts';
import type { Incoming } from './message.ts';

/** `Vary` of every answer: without `Origin`, a cache could replay an answer without CORS headers to a page. */
export const varyOfAll = 'Accept, Accept-Encoding, Origin';

/** A day; browsers apply lower bounds of their own. */
const preflightSeconds = 86_400;

/** Makes the cross-origin headers of answers. */
export class Cors {
  readonly #dialect: Dialect;
  /** Exposed names, made anew when the dialect gets others (`Fleet.takeDialect`). */
  #exposed = { known: new Set<string>() as ReadonlySet<string>, names: '' };

  constructor(dialect: Dialect) {
    this.#dialect = dialect;
  }

  /** Flat CORS headers for an answer with `head`, names and values in turn; empty for a request without `Origin`. */
  headers({ headers: { origin } }: Incoming, head: readonly string[]): readonly string[] {
    return this.grant(origin, this.furtherIn(head));
  }

  /** Flat CORS headers for `origin`. `further`: of `furtherIn`, for all headers of the answer. */
  grant(origin: string | undefined, further: string): readonly string[] {
    if (!isReadable(origin)) return [];
    const exposed = this.#exposedNames() + further;
    return Object.entries({ ...granted(origin), 'Access-Control-Expose-Headers': exposed }).flat();
  }

  #exposedNames(): string {
    const { known } = this.#dialect;
    if (this.#exposed.known !== known) {
      const own = ['Cache-Status', 'Ledgergate-Served-Version', 'ETag'];
      const limits = ['Retry-After', 'RateLimit', 'RateLimit-Policy', 'WWW-Authenticate'];
      this.#exposed = { known, names: [...known, ...own, ...limits].join(', ') };
    }
    return this.#exposed.names;
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
    const { origin } = headers;
    if (origin === undefined || headers['access-control-request-method'] === undefined) return undefined;
    const vary = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'];
    if (!isReadable(origin)) return vary;
    const wanted = headers['access-control-request-headers'];
    const granting = Object.entries({
      ...granted(origin),
      'Access-Control-Allow-Methods': 'GET, HEAD, POST',
      ...(wanted === undefined || wanted.length > longestList ? {} : { 'Access-Control-Allow-Headers': wanted }),
      'Access-Control-Max-Age': String(preflightSeconds),
    }).flat();
    return [...granting, ...vary];
  }
}

/** In characters: a scheme, a host of 253 and a port are shorter, and browsers list a few headers. */
const longestOrigin = 512;
const longestList = 4096;

/** Bounds the echoed text. */
function isReadable(origin: string | undefined): origin is string {
  return origin !== undefined && origin.length <= longestOrigin;
}

/** Public SDKs send `credentials: include`, which forbids a wildcard origin; the gateway trusts no cookies. */
function granted(origin: string): Readonly<Record<string, string>> {
  return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Allow-Credentials': 'true' };
}
