/** Which headers cross the gateway, in either direction, on requests that are passed through. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dialect, HeaderValues } from '../ledger/ledger-headers.ts';
import { conditions, isForNodes, ofTraces } from '../ledger/node-headers.ts';
import type { WireRequest } from '../upstream/exchange.ts';

/** Of one connection only (RFC 9110 7.6.1); the names that `Connection` lists are added per message. */
const hopByHop = ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te'];
const framing = ['trailer', 'transfer-encoding', 'upgrade', 'content-length', 'expect', 'host'];

/** The gateway writes these itself, or answers for them. */
const ownHeaders = ['date', 'server', 'set-cookie', 'vary', 'cache-status', 'alt-svc', 'refresh'];

/** Headers to send to a node, but for those of traces. */
export function requestHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namedByConnection(headers.connection);
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || named.has(name)) continue;
    if (isForNodes(name) && !ofTraces.includes(name)) kept[name] = value;
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

  /**
   * `content-length` stays: a body that is passed through keeps its length. `secret`: what the node was given as its own
   * credentials; one that echoes its request must not tell them, under whatever name the config has for them now.
   */
  keep(headers: HeaderValues, secret: HeaderValues = {}): string[] {
    const named = namedByConnection(typeof headers['connection'] === 'string' ? headers['connection'] : undefined);
    const kept: string[] = [];
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined || this.#dropped.has(name) || named.has(name)) continue;
      if (Object.hasOwn(secret, name)) continue;
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

/** The answer as it may be kept by the client alone: whoever stands between it and the gateway must not hand it on. */
export function forOneClient<A extends { readonly headers: HeaderValues }>(answer: A): A {
  const { 'cache-control': control, ...headers } = without(answer.headers, ['cdn-cache-control', 'surrogate-control']);
  if (control === undefined) return { ...answer, headers };
  const directives = String(control).split(',');
  const kept = directives.map((directive) => directive.trim()).filter((text) => !sharing.test(text));
  return { ...answer, headers: { ...headers, 'cache-control': ['private', ...kept].join(', ') } };
}

/** Directives for shared caches (RFC 9111 5.2.2), and those that say who may keep it. */
const sharing = /^(?:public|private|s-maxage|proxy-revalidate)\b|^$/i;

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
