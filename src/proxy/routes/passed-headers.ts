/** Selects the headers that cross the gateway on passed requests, in either direction. */
import type { IncomingHttpHeaders } from 'node:http';
import {
  conditions,
  Dialect,
  type HeaderValues,
  isForNodes,
  isOfInterface,
  namedByConnection,
  ofTraces,
} from '../../ledger/index.ts';
import type { FleetRequest } from '../../upstream/index.ts';
import { readAccept } from '../http/index.ts';

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

interface ResponseHeaderOptions {
  readonly secret?: HeaderValues | undefined;
  readonly isCounted?: boolean;
}

/**
 * Flat headers of a node's answer to pass on. `secret`: the node's credentials, which an echo of the request must not
 * publish. `isCounted`: the gateway's own limits apply to the client, and a node's limit headers would contradict them.
 */
export function responseHeaders(
  headers: HeaderValues,
  { secret = {}, isCounted = false }: ResponseHeaderOptions = {},
): string[] {
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

/** Request headers without conditions, which refer to an earlier answer at another version. */
export function withoutConditions(headers: FleetRequest['wire']['headers']): FleetRequest['wire']['headers'] {
  return without(headers, conditions);
}

/** Headers of an answer that only its client may store: shared caches between client and gateway must not. */
export function forOneClient(headers: HeaderValues): HeaderValues {
  const { 'cache-control': control, ...others } = headers;
  if (control === undefined) return headers;
  const directives = String(control).split(',');
  const kept = directives.map((directive) => directive.trim()).filter((text) => !sharing.test(text));
  return { ...others, 'cache-control': ['private', ...kept].join(', ') };
}

/** Directives of shared caches (RFC 9111 5.2.2), and `public` and `private`. */
const sharing = /^(?:public|private|s-maxage|proxy-revalidate)\b|^$/i;

const freshness = ['cache-control', 'pragma', 'expires', 'age', 'etag', 'last-modified'];

/** Headers without those that make a cache store the answer. */
export function withoutFreshness(headers: HeaderValues): HeaderValues {
  return without(headers, freshness);
}

const ofCodedBytes = ['content-length', 'etag', 'content-digest', 'repr-digest'];

/** Headers of an answer that the gateway decodes: length, strong tag and digests belong to the coded bytes. */
export function withoutCoding(headers: HeaderValues): HeaderValues {
  return without(headers, ofCodedBytes);
}

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
