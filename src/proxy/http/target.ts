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

/**
 * The words of a path, each after `/`: one spelling for all paths that lenient routers equate. Access rights and
 * hidden routes compare it, because a node or a balancer may read a passed path in any of these ways. Folding removes
 * every level of percent-encoding, applies Unicode's compatible form and lower case, drops ignorable characters
 * (NFKC_Casefold), unifies the dotted and dotless i, turns backslashes into slashes, resolves dot segments, drops
 * segments without a word, and keeps the first word of each other segment. Two readings: the path without the
 * parameters of its segments (RFC 3986 3.3), and the path up to its first parameter, question mark, number sign or
 * NUL. Linear in the length of `target`.
 */
export function foldedPaths(target: string): readonly [string, string] {
  const path = decoded(target.split(/[?#]/, 1)[0] ?? '');
  const end = path.search(/[;?#\0]/);
  const whole = wordsOf(path.replaceAll(/;[^/]*/g, ''));
  return [whole, end === -1 ? whole : wordsOf(path.slice(0, end))];
}

/**
 * Whether a segment is a dot segment in some spelling: full-width, or between blanks. Routers differ over the segment
 * that it removes, so such a path has no single folded spelling.
 */
export function hasFoldedDots(target: string): boolean {
  const path = target.split(/[?#]/, 1)[0] ?? '';
  // `pathBelow` refuses plain dot segments.
  if (!path.includes('%')) return false;
  return decoded(path)
    .split('/')
    .some((segment) => /^\.{1,2}(?:[;?#\0]|$)/.test(segment.trim()));
}

function decoded(path: string): string {
  const bytes = path.replaceAll(/%(?:25)*([\da-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  // Normalising one character at a time is linear; sorting a long run of combining marks is quadratic.
  const text = Buffer.from(bytes, 'latin1').toString();
  const compatible = text.replaceAll(/[^ -~]/gu, (character) => character.normalize('NFKC'));
  const folded = compatible.toLowerCase().replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '');
  // Case-insensitive comparisons differ over the dotted and dotless i of Turkish.
  return folded.replaceAll('\u0307', '').replaceAll('\u0131', 'i').replaceAll('\\', '/');
}

function wordsOf(path: string): string {
  const words: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..') words.pop();
    const word = /[a-z\d_]+/.exec(segment)?.[0];
    if (word !== undefined) words.push(`/${word}`);
  }
  return words.join('');
}
