/**
 * Whether the JSON reader of a node refuses a body as a whole, written apart from `src`: bytes in, RFC 8259 with the
 * limits of serde_json, whose numbers are doubles unless it is built otherwise (read.rs, de.rs).
 */
import { isUtf8 } from 'node:buffer';

const deepest = 127;

/** False: a node reads the body, or may. */
export function isRefusedByNodes(body: Buffer): boolean {
  if (!isUtf8(body)) return true;
  // Structure is ASCII, so that a byte a character shows all of it.
  const tokens = tokensOf(body.toString('latin1'));
  return tokens === undefined || !isOneValue(tokens);
}

const token =
  /[\t\n\r ]*(?:([{}[\]:,])|(true|false|null)|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|"((?:[ !#-[\]-\xff]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*)"|$)/y;

/** One letter for each token: punctuation as it is, `v` for a value, `s` for a string. */
function tokensOf(text: string): string | undefined {
  let tokens = '';
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    const found = token.exec(text);
    if (found === null) return undefined;
    const [, mark, word, number, string] = found;
    if (string !== undefined && !hasWholePairs(string)) return undefined;
    if (number !== undefined && isBeyondDouble(number)) return undefined;
    if (mark !== undefined) tokens += mark;
    else if (string !== undefined) tokens += 's';
    else if (word !== undefined || number !== undefined) tokens += 'v';
  }
  return tokens;
}

/** Halves of pairs come only as escapes: UTF-8 has none. */
function hasWholePairs(string: string): boolean {
  const units = [...string.matchAll(/\\(?:u([\da-fA-F]{4})|.)|[^\\]/g)].map(([, hex]) =>
    hex === undefined ? '.' : /^[dD][89abAB]/.test(hex) ? 'h' : /^[dD][c-fC-F]/.test(hex) ? 'l' : '.',
  );
  return /^(?:\.|hl)*$/.test(units.join(''));
}

/** Ten times the largest power of ten that a double holds: no way of rounding saves it. */
function isBeyondDouble(number: string): boolean {
  const [, whole = '', fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? [];
  const digits = whole + fraction;
  const leading = digits.search(/[1-9]/);
  return leading !== -1 && BigInt(whole.length - leading - 1) + BigInt(exponent) >= 309n;
}

/** Grammar and depth, by a stack of what is open and what may come next. */
function isOneValue(tokens: string): boolean {
  const open: string[] = [];
  let next = 'value';
  for (const token of tokens) {
    const isValue = next === 'value' || next === 'first item';
    if (token === '{' || token === '[') {
      if (!isValue || open.length >= deepest) return false;
      open.push(token);
      next = token === '{' ? 'first key' : 'first item';
    } else if (token === '}' || token === ']') {
      const isEmpty = next === (token === '}' ? 'first key' : 'first item');
      if ((next !== 'end' && !isEmpty) || open.pop() !== (token === '}' ? '{' : '[')) return false;
      next = 'end';
    } else if (token === ',') {
      if (next !== 'end' || open.length === 0) return false;
      next = open.at(-1) === '{' ? 'key' : 'value';
    } else if (token === ':') {
      if (next !== 'colon') return false;
      next = 'value';
    } else if (token === 's' && (next === 'key' || next === 'first key')) {
      next = 'colon';
    } else {
      if (!isValue) return false;
      next = 'end';
    }
  }
  return next === 'end' && open.length === 0;
}
