/** Cross-origin access, as nodes grant it, and the headers exposed, which nodes forget (protocol 2.5). */
import type { Dialect } from '../../ledger/ledger-headers.ts';
import type { Incoming } from './message.ts';

/** What every answer varies by, beside what its route adds: one to no page must not be replayed to a page. */
export const varyOfAll = 'Accept, Accept-Encoding, Origin';

/** A day; browsers take less where they have a lower bound. */
const preflightSeconds = 86_400;

/** Makes the cross-origin headers of answers. */
export class Cors {
  readonly #exposed: string;

  constructor(dialect: Dialect) {
    const ledger = [dialect.chainId, dialect.version, dialect.oldestVersion, dialect.timestampUsec, dialect.epoch];
    const more = [dialect.blockHeight, dialect.oldestBlockHeight, dialect.gasUsed, dialect.cursor];
    const own = ['Cache-Status', 'Ledgergate-Served-Version', 'ETag'];
    const limits = ['Retry-After', 'RateLimit', 'RateLimit-Policy', 'WWW-Authenticate'];
    this.#exposed = [...ledger, ...more, ...own, ...limits].join(', ');
  }

  /** Headers for an answer to `request`, flat; empty for a request that no page made. */
  headers({ headers: { origin } }: Incoming): readonly string[] {
    if (!isReadable(origin)) return [];
    return Object.entries({ ...granted(origin), 'Access-Control-Expose-Headers': this.#exposed }).flat();
  }

  /**
   * Headers of the answer to a preflight, or `undefined` when `request` is none. Its sender has no key, which browsers
   * leave out of it: who may do what is said to the request itself. A public page is not let into a private network:
   * `Access-Control-Request-Private-Network` gets no answer.
   */
  preflight({ headers }: Incoming): string[] | undefined {
    const { origin } = headers;
    if (origin === undefined || headers['access-control-request-method'] === undefined) return undefined;
    const vary = ['Vary', 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'];
    if (!isReadable(origin)) return vary;
    const asked = headers['access-control-request-headers'];
    const told = Object.entries({
      ...granted(origin),
      'Access-Control-Allow-Methods': 'GET, HEAD, POST',
      ...(asked === undefined || asked.length > longestList ? {} : { 'Access-Control-Allow-Headers': asked }),
      'Access-Control-Max-Age': String(preflightSeconds),
    }).flat();
    return [...told, ...vary];
  }
}

/** In characters. A scheme, a host of 253 and a port are shorter; browsers ask for a few headers at once. */
const longestOrigin = 512;
const longestList = 4096;

/** Whether it can be the origin of a page: what is echoed is bounded. */
function isReadable(origin: string | undefined): origin is string {
  return origin !== undefined && origin.length <= longestOrigin;
}

/** Public SDKs send `credentials: include`, which a wildcard origin would not satisfy; nothing here trusts cookies. */
function granted(origin: string): Readonly<Record<string, string>> {
  return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Allow-Credentials': 'true' };
}
