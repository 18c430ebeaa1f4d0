/** Request targets: the path below the base path, and single query parameters. */
import { GatewayError, quote } from '../../ledger/errors.ts';
import { findU64, parseLedgerVersion, type LedgerVersion } from '../../ledger/version.ts';

/** Longer targets are answered 414. A 4 kB struct tag, percent-encoded, fits. */
export const longestTarget = 16 * 1024;

/**
 * The target without scheme and authority, where it came with them (RFC 9112 3.2.2): which gateway is known already. An
 * authority that is none, or holds credentials, stays, and with it the target is that of no route.
 */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const [prefix, authority] = /^https?:\/\/([^/?#]*)/i.exec(target) ?? [];
  if (prefix === undefined || authority === undefined || authority === '' || !isAuthority(authority)) return target;
  const rest = target.slice(prefix.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Whether `text` is a host with or without a port, without user (RFC 9110 7.2); no host at all is one of them. */
export function isAuthority(text: string): boolean {
  return authorityForm.test(text);
}

/** Without the comma that a name may hold: where two Host headers came, they are joined by one. */
const authorityForm = /^(?:[\w.~!$&'()*+;=%-]*|\[[\da-f:.]+\])(?::\d{0,5})?$/i;

/** `?ledger_version=` as nodes read it: the first of several counts, an empty one is an error (protocol 4.3). */
export function versionParameter(target: string): LedgerVersion | undefined {
  const query = queryOf(target);
  if (query === '') return undefined;
  const text = plainVersion.exec(query)?.[1] ?? parametersOf(query).get('ledger_version');
  return text === null ? undefined : parseLedgerVersion(text);
}

/** The form nearly every client sends needs no general parser. */
const plainVersion = /^ledger_version=(\d{1,20})$/;

/** The value of a parameter that is a u64 where it is there and readable; routing only, never an error. */
export function numberParameter(target: string, name: string): LedgerVersion | undefined {
  const text = parametersOf(queryOf(target)).get(name);
  return text === null ? undefined : (findU64(text) as LedgerVersion | undefined);
}

/** Whether a parameter is there, under whatever spelling of its name and with whatever value. */
export function hasParameter(target: string, name: string): boolean {
  return parametersOf(queryOf(target)).has(name);
}

/** The path without its query, percent-decoded where it can be: for targets that `pathBelow` let through. */
export function decodedPath(target: string): string {
  const path = target.split('?', 1)[0] ?? '';
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** `URLSearchParams` drops a leading question mark, which in a query is part of the first name: `??ledger_version=5`. */
function parametersOf(query: string): URLSearchParams {
  return new URLSearchParams(`&${query}`);
}

function queryOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? '' : target.slice(mark + 1);
}

/**
 * The part of `target` below `basePath`, query included, fit to be sent to a node: it stays below the node's own base
 * path whatever the node's framework makes of dots, backslashes and double encodings.
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

/** Printable ASCII without what no well-formed client leaves unescaped in a target. */
const visible = /^[!$-;=?-[\]_a-z|~]*$/;

/**
 * Dot segments, plain or encoded, with parameters or without; encoded slashes, backslashes, control characters and
 * percent signs, and stray ones; empty segments.
 */
const escapes = /(?:^|\/)(?:\.|%2e){1,2}(?=\/|;|%3b|$)|%(?:2f|5c|[01][\da-f]|7f|25)|%(?![\da-f]{2})|\/\//i;

/** A part of a text keeps the whole of it in memory; this is a text by itself. */
export function ownCopy(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
