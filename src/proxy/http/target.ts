/** Request targets: the path below the base path, and query parameters. */
import { GatewayError, quote } from '../../ledger/errors.ts';
import { findU64, parseLedgerVersion, type LedgerVersion } from '../../ledger/version.ts';

/** Characters; longer targets get 414. A percent-encoded struct tag of 4 kB fits. */
export const longestTarget = 16 * 1024;

/**
 * Strips scheme and authority of an absolute target (RFC 9112 3.2.2). A malformed authority, or one with credentials,
 * stays: the target then matches no route.
 */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const [prefix, authority] = /^https?:\/\/([^/?#]*)/i.exec(target) ?? [];
  if (prefix === undefined || authority === undefined || authority === '' || !isAuthority(authority)) return target;
  const rest = target.slice(prefix.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Whether `text` is a host, with or without port, without user (RFC 9110 7.2). An empty host is valid. */
export function isAuthority(text: string): boolean {
  return authorityForm.test(text);
}

/** Without the comma that RFC 3986 allows: it joins two Host headers. */
const authorityForm = /^(?:[\w.~!$&'()*+;=%-]*|\[[\da-f:.]+\])(?::\d{0,5})?$/i;

/** `?ledger_version=` as nodes read it: the first of several wins, an empty one is an error (protocol 4.3). */
export function versionParameter(target: string): LedgerVersion | undefined {
  const query = queryOf(target);
  if (query === '') return undefined;
  const text = plainVersion.exec(query)?.[1] ?? parametersOf(query).get('ledger_version');
  return text === null ? undefined : parseLedgerVersion(text);
}

/** Fast case without the general parser. */
const plainVersion = /^ledger_version=(\d{1,20})$/;

/** A u64 parameter; undefined if absent or malformed. For routing only, so it never throws. */
export function numberParameter(target: string, name: string): LedgerVersion | undefined {
  const text = parametersOf(queryOf(target)).get(name);
  return text === null ? undefined : (findU64(text) as LedgerVersion | undefined);
}

/** Whether a parameter is present, in any spelling of its name, with any value. */
export function hasParameter(target: string, name: string): boolean {
  return parametersOf(queryOf(target)).has(name);
}

/** The path without its query, percent-decoded if possible. For targets that `pathBelow` accepted. */
export function decodedPath(target: string): string {
  const path = target.split('?', 1)[0] ?? '';
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** `URLSearchParams` drops a leading question mark, although it belongs to the first name: `??ledger_version=5`. */
function parametersOf(query: string): URLSearchParams {
  return new URLSearchParams(`&${query}`);
}

function queryOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? '' : target.slice(mark + 1);
}

/**
 * The part of `target` below `basePath`, query included, safe to send: it stays below the node's base path, however the
 * node's framework reads dots, backslashes and double encodings. Throws `GatewayError` 404 or 400.
 */
export function pathBelow(basePath: string, target: string): string {
  const below = target.slice(basePath.length);
  const path = below.split('?', 1)[0] ?? '';
  if (!target.startsWith(basePath) || (path !== '' && !path.startsWith('/'))) {
    throw new GatewayError('notFound', 'not found');
  }
  if (!visible.test(below) || escapes.test(path)) {
    throw new GatewayError('malformed', `the path ${quote(path)} is not in plain form`);
  }
  return below;
}

/** Printable ASCII, except characters that every well-formed client escapes. */
const visible = /^[!$-;=?-[\]_a-z|~]*$/;

/**
 * Dot segments, plain or encoded, with or without parameters; encoded slashes, backslashes, control characters and
 * percent signs; stray percent signs; empty segments.
 */
const escapes = /(?:^|\/)(?:\.|%2e){1,2}(?=\/|;|%3b|$)|%(?:2f|5c|[01][\da-f]|7f|25)|%(?![\da-f]{2})|\/\//i;

/** Copies latin1 `text`: a substring would keep its whole source in memory. */
export function ownCopy(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
