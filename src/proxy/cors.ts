/** Cross-origin access, as nodes grant it, and the ledger headers exposed, which nodes forget (protocol 2.5). */
import type { IncomingMessage } from 'node:http';
import type { Dialect } from '../ledger/ledger-headers.ts';

export class Cors {
  readonly #exposed: string;

  constructor(dialect: Dialect) {
    const ledger = [dialect.chainId, dialect.version, dialect.oldestVersion, dialect.timestampUsec, dialect.epoch];
    const more = [dialect.blockHeight, dialect.oldestBlockHeight, dialect.gasUsed, dialect.cursor];
    const own = ['Cache-Status', 'Ledgergate-Served-Version', 'ETag', 'Retry-After'];
    this.#exposed = [...ledger, ...more, ...own].join(', ');
  }

  /** Headers for an answer to `request`, flat; empty for a request that no page made. */
  headers({ headers: { origin } }: IncomingMessage): readonly string[] {
    if (origin === undefined) return [];
    return Object.entries({ ...granted(origin), 'Access-Control-Expose-Headers': this.#exposed }).flat();
  }

  /** Headers of the answer to a preflight, or `undefined` when `request` is none. */
  preflight({ headers }: IncomingMessage): string[] | undefined {
    const { origin } = headers;
    if (origin === undefined || headers['access-control-request-method'] === undefined) return undefined;
    const asked = headers['access-control-request-headers'];
    return Object.entries({
      ...granted(origin),
      'Access-Control-Allow-Methods': 'GET, HEAD, POST',
      ...(asked === undefined ? {} : { 'Access-Control-Allow-Headers': asked }),
      'Access-Control-Max-Age': '86400',
      Vary: 'Origin, Access-Control-Request-Headers',
    }).flat();
  }
}

/** Public SDKs send `credentials: include`, which a wildcard origin would not satisfy; nothing here trusts cookies. */
function granted(origin: string): Readonly<Record<string, string>> {
  return { 'Access-Control-Allow-Origin': origin, 'Access-Control-Allow-Credentials': 'true' };
}
