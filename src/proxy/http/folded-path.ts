/**
 * The paths that lenient routers take for one another, folded into one spelling. Rights and hidden routes are decided
 * by it: a node, or a balancer before it, may read a passed path in any of these ways.
 */

/**
 * The words of a path, `/` before each: percent-decoded however often it was encoded, in Unicode's compatible form and
 * lower case, without characters that normalisation drops (NFKC_Casefold), each i with one dot, backslashes as slashes,
 * dot segments resolved; segments without a word are dropped, and of each other segment the first word counts. Two
 * readings: the path without the parameters of its segments (RFC 3986 3.3), and the path up to its first parameter,
 * question mark, number sign or NUL. Takes time linear in the length of `target`.
 */
export function foldedPaths(target: string): readonly [string, string] {
  const path = decoded(target.split(/[?#]/, 1)[0] ?? '');
  const end = path.search(/[;?#\0]/);
  const whole = wordsOf(path.replaceAll(/;[^/]*/g, ''));
  return [whole, end === -1 ? whole : wordsOf(path.slice(0, end))];
}

/**
 * Whether a segment is a dot segment in some spelling: full-width, or with blanks around it. Routers differ over the
 * segment that it takes away, so such a path has no one folded spelling.
 */
export function hasFoldedDots(target: string): boolean {
  const path = target.split(/[?#]/, 1)[0] ?? '';
  // Plain dot segments are refused with the other escapes (target.ts).
  if (!path.includes('%')) return false;
  return decoded(path)
    .split('/')
    .some((segment) => /^\.{1,2}(?:[;?#\0]|$)/.test(segment.trim()));
}

function decoded(path: string): string {
  const bytes = path.replaceAll(/%(?:25)*([\da-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  // Character by character: sorting the marks behind a letter takes the square of their number.
  const text = Buffer.from(bytes, 'latin1').toString();
  const compatible = text.replaceAll(/[^ -~]/gu, (character) => character.normalize('NFKC'));
  const folded = compatible.toLowerCase().replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '');
  // Comparisons without case differ over the i of Turkish: a dot of its own, or none.
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
