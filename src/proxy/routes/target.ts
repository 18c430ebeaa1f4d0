/** Paths of request targets: safe to send below the base path of a node, and folded as lenient routers read them. */
import { GatewayError, quote } from '../../ledger/index.ts';

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
const escapes = /\/(?:\.|%2e){1,2}(?=\/|;|%3b|$)|%(?:2f|5c|[01][\da-f]|7f|25)|%(?![\da-f]{2})|\/\//i;

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
