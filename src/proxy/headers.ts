/** Which headers cross the gateway, in either direction, on requests that are passed through. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dialect, HeaderValues } from '../ledger/ledger-headers.ts';
import type { WireRequest } from '../upstream/exchange.ts';

/** Of one connection only (RFC 9110 7.6.1); the names that `Connection` lists are added per message. */
const hopByHop = ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te'];
const framing = ['trailer', 'transfer-encoding', 'upgrade', 'content-length', 'expect', 'host'];

/**
 * What nodes are told of what a client said: a list of what they need and not of what they must not see, because
 * credentials come under any name (`X-Api-Key`, `X-Auth-Token`), and so does what frameworks take for another address,
 * path or method than the request's (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override`, `X_Real_IP`).
 * `Accept-Encoding` is not among them: a compressed error could not be judged here, nor a submission's hash learned.
 */
const body = ['content-type', 'content-encoding'];
const tracing = ['user-agent', 'traceparent', 'tracestate', 'x-request-id'];
const conditions = ['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since'];
const passed: ReadonlySet<string> = new Set(['accept', ...body, ...tracing, ...conditions]);

/** The interface's own headers, those of later nodes too (protocol 2.1). */
const ownPrefix = /^x-(?:node|aptos)-[a-z\d-]+$/;

/** The gateway writes these itself, or answers for them. */
const ownHeaders = ['date', 'server', 'set-cookie', 'vary', 'cache-status', 'alt-svc', 'refresh'];

/** Headers to send to a node. */
export function requestHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namedByConnection(headers.connection);
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || named.has(name)) continue;
    if (passed.has(name) || ownPrefix.test(name)) kept[name] = value;
  }
  return kept;
}

/** Headers of a node's answer to hand on, flat. The seven ledger headers are left out: they are written live. */
export class ResponseHeaders {
  readonly #dropped: ReadonlySet<string>;

  constructor(dialect: Dialect) {
    const ledger = [dialect.chainId, dialect.version, dialect.oldestVersion, dialect.timestampUsec, dialect.epoch];
    const blocks = [dialect.blockHeight, dialect.oldestBlockHeight];
    const frame = framing.filter((name) => name !== 'content-length');
    this.#dropped = new Set([...hopByHop, ...frame, ...ownHeaders, ...ledger, ...blocks]);
  }

  /** `content-length` stays: a body that is passed through keeps its length. */
  keep(headers: HeaderValues): string[] {
    const named = namedByConnection(typeof headers['connection'] === 'string' ? headers['connection'] : undefined);
    const kept: string[] = [];
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined || this.#dropped.has(name) || named.has(name)) continue;
      if (name.startsWith('access-control-') || name.startsWith('ledgergate-')) continue;
      if (locations.has(name) && !(typeof value === 'string' && isRelative(value))) continue;
      for (const single of typeof value === 'string' ? [value] : value) kept.push(name, single);
    }
    return kept;
  }
}

const locations: ReadonlySet<string> = new Set(['location', 'content-location']);

/** A node that redirects tells its own address, which clients neither reach nor shall know. */
function isRelative(location: string): boolean {
  return /^(?![a-z][a-z0-9+.-]*:|[/\\]{2})[!-[\]-~]+$/i.test(location);
}

/** The request's headers without what compares it with an earlier answer, which was of another version. */
export function withoutConditions(headers: WireRequest['headers']): WireRequest['headers'] {
  return without(headers, conditions);
}

const cacheDirections = ['cache-control', 'cdn-cache-control', 'surrogate-control', 'pragma', 'expires', 'age'];
const freshness = [...cacheDirections, 'etag', 'last-modified'];

/** The answer without what a cache would keep it by. */
export function withoutFreshness<A extends { readonly headers: HeaderValues }>(answer: A): A {
  return { ...answer, headers: without(answer.headers, freshness) };
}

function without<T>(headers: Readonly<Record<string, T>>, names: readonly string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
}

function namedByConnection(connection: string | undefined): ReadonlySet<string> {
  return new Set(
    connection
      ?.toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  );
}
