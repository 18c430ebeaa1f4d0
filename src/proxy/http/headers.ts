/** Which headers cross the gateway, in either direction, on requests that are passed through. */
import type { IncomingHttpHeaders } from 'node:http';
import { dialectOf, type HeaderValues } from '../../ledger/ledger-headers.ts';
import { conditions, isForNodes, isOfInterface, ofTraces } from '../../ledger/node-headers.ts';
import type { WireRequest } from '../../upstream/node/node-client.ts';
import { acceptedCodings, isReadableAccept } from './negotiate.ts';

/**
 * Headers to send to a node, but for those of traces. `Accept-Encoding` names the codings that are read here and that
 * the client takes, in one spelling.
 */
export function requestHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namedByConnection(headers.connection);
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || named.has(name)) continue;
    if (isForNodes(name) && !ofTraces.includes(name)) kept[name] = value;
  }
  // The gateway reads no such header either: both answer in the form of a request without it.
  if (!isReadableAccept(headers.accept)) delete kept['accept'];
  const codings = acceptedCodings(headers['accept-encoding']?.toString());
  if (codings.length > 0 && !named.has('accept-encoding')) kept['accept-encoding'] = codings.join(', ');
  return kept;
}

/**
 * Headers of a node's answer that reach clients, beside the interface's own. A list of what clients need and not of what
 * they must not see: a node's address, its software and what a proxy would obey (`X-Accel-Redirect`) come under any name.
 * `Content-Encoding` and `Vary` are written anew.
 */
const passed: ReadonlySet<string> = new Set(
  [
    'content-type content-length content-language content-disposition content-digest repr-digest x-content-type-options',
    'cache-control expires pragma age etag last-modified',
    'allow location retry-after traceparent',
  ].flatMap((names) => names.split(' ')),
);

/** RateLimit, RateLimit-Policy, X-RateLimit-Remaining and their like. */
const ofLimits = /^(?:x-)?ratelimit(?:-[a-z-]+)?$/;

/** The seven ledger headers in either dialect: the gateway writes them live. */
const live: ReadonlySet<string> = new Set(
  (['node', 'aptos'] as const).flatMap((name) => dialectOf(name).written.map((header) => header.toLowerCase())),
);

/**
 * Headers of a node's answer to hand on, flat. `secret`: the credentials that the node was given; a node that echoes its
 * request must not publish them, whatever their names are now. `isCounted`: the gateway's own limits apply to the client,
 * whose headers a node's would contradict.
 */
export function responseHeaders(
  headers: HeaderValues,
  { secret = {}, isCounted = false }: { readonly secret?: HeaderValues | undefined; readonly isCounted?: boolean } = {},
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

/**
 * Whether a redirection stays below this gateway. A node's own address, in a query too and in any spelling, is one that
 * clients neither reach nor may learn.
 */
function isRelative(location: string): boolean {
  return /^(?![a-z][a-z0-9+.-]*:|[/\\]{2})[!-[\]-~]+$/i.test(location) && !/(?::|%3a)(?:\/|%2f){2}/i.test(location);
}

/** The request's headers without what compares it with an earlier answer, which was of another version. */
export function withoutConditions(headers: WireRequest['headers']): WireRequest['headers'] {
  return without(headers, conditions);
}

/** The headers of an answer that the client alone may keep: no cache between it and the gateway may hand it on. */
export function forOneClient(headers: HeaderValues): HeaderValues {
  const { 'cache-control': control, ...others } = headers;
  if (control === undefined) return headers;
  const directives = String(control).split(',');
  const kept = directives.map((directive) => directive.trim()).filter((text) => !sharing.test(text));
  return { ...others, 'cache-control': ['private', ...kept].join(', ') };
}

/** Directives for shared caches (RFC 9111 5.2.2), and those that say who may keep it. */
const sharing = /^(?:public|private|s-maxage|proxy-revalidate)\b|^$/i;

const freshness = ['cache-control', 'pragma', 'expires', 'age', 'etag', 'last-modified'];

/** The headers without those that a cache would keep the answer by. */
export function withoutFreshness(headers: HeaderValues): HeaderValues {
  return without(headers, freshness);
}

const ofCodedBytes = ['content-length', 'etag', 'content-digest', 'repr-digest'];

/** The headers of an answer that is decoded here: a length, a strong tag and a digest are of the coded bytes. */
export function withoutCoding(headers: HeaderValues): HeaderValues {
  return without(headers, ofCodedBytes);
}

/**
 * The gateway's `Vary` with that of a node. `undefined` where they cannot be merged: `*`, a malformed name, or more
 * text than any list of names needs. A cache must not keep such an answer.
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

function namedByConnection(connection: string | undefined): ReadonlySet<string> {
  return new Set(
    connection
      ?.toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  );
}
