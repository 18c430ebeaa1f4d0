/**
 * JSON read without loss (RFC 8259, strict): a number keeps its source text, because a node distinguishes `1` from
 * `1.0` and `1e0` and JavaScript does not. A key written twice is an error instead of a silent choice, and so is a key
 * that the JSON reader of nodes reserves. Each value has one canonical text.
 */

/** A number as its source text: `1`, `1.0`, `1e0` and `18446744073709551616` all stay what they are. */
interface JsonNumber {
  readonly kind: 'number';
  readonly text: string;
}

interface JsonArray {
  readonly kind: 'array';
  readonly items: readonly JsonValue[];
}

/** Members in source order; keys are unescaped and unique. */
export interface JsonObject {
  readonly kind: 'object';
  readonly members: ReadonlyMap<string, JsonValue>;
}

/** Any JSON value; numbers are `JsonNumber`, never a JavaScript number. */
export type JsonValue = null | boolean | string | JsonNumber | JsonArray | JsonObject;

type JsonFault =
  | 'syntax'
  | 'duplicate key'
  | 'reserved key'
  | 'too deep'
  /** These three from `parseOfNodes` alone. */
  | 'too many values'
  | 'lone surrogate'
  | 'number out of range';

/** A text that is not JSON, or not JSON that is read here. `at`: offset in UTF-16 units of the offending character. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  readonly fault: JsonFault;
  readonly at: number;

  constructor(fault: JsonFault, at: number, message: string) {
    super(`${message} at position ${at}`);
    this.fault = fault;
    this.at = at;
  }
}

/** Reads and writes values. */
export const JsonValue = {
  /** Reads one JSON value in linear time, to depth 128. Keeps lone surrogates as they are. Throws `JsonError`. */
  parse(text: string): JsonValue {
    return new Scanner(text, false).readDocument();
  },

  /**
   * Parses as `parse` does, for a text that nodes read as well. A part for which some reader of nodes refuses the whole
   * text is an error here wherever it stands, in an ignored member too: half of a surrogate pair, a number beyond the
   * range of a double, depth 128. So are more than 5,000 values and escapes: this many take some 2 ms at worst. Throws
   * `JsonError`.
   */
  parseOfNodes(text: string): JsonValue {
    return new Scanner(text, true).readDocument();
  },

  /**
   * The one compact text of a value: members sorted by key (UTF-16 order), strings escaped as `JSON.stringify` does,
   * numbers as their source text. Equal texts mean equal values; `1` and `1.0` stay different on purpose.
   */
  canonical(value: JsonValue): string {
    if (value === null) return 'null';
    if (typeof value === 'string') return canonicalString(value);
    if (typeof value === 'boolean') return value ? 'true' : 'false';
    switch (value.kind) {
      case 'number':
        return value.text;
      case 'array':
        return canonicalArray(value);
      case 'object':
        return canonicalObject(value);
    }
  },
} as const;

/**
 * The JSON reader of nodes takes an object whose first key has this prefix for a number, spelled by that member, and
 * refuses the whole text where the member spells none. Other readers take it for an object.
 */
const reservedPrefix = '$serde_json::private::';

/** Numbers up to here are in every reader's range; some round on the way and refuse the last steps before the largest. */
const surelyInRange = 1e308;

/** Characters of JSON as codes, the same in bytes and in UTF-16 units. */
export const characters = {
  quoteMark: 0x22,
  comma: 0x2c,
  minus: 0x2d,
  point: 0x2e,
  zero: 0x30,
  colon: 0x3a,
  openArray: 0x5b,
  backslash: 0x5c,
  closeArray: 0x5d,
  openObject: 0x7b,
  closeObject: 0x7d,
} as const;

// Bindings of their own: reading an exported one takes longer.
const { quoteMark, comma, minus, point, zero, colon, openArray, backslash, closeArray, openObject, closeObject } =
  characters;
const space = 0x20;

/** Values, and escapes in strings, which cost some 50 times a plain character; nearly every body has under 100. */
const mostValues = 5_000;

/** By the letter behind the backslash. */
const escapes = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }),
);

/** A position in the text. `charCodeAt` past the end is NaN, which no comparison below takes for a character. */
class Scanner {
  readonly #text: string;
  readonly #maxDepth: number;
  readonly #isForNodes: boolean;
  #valuesLeft: number;
  #at = 0;

  constructor(text: string, isForNodes: boolean) {
    this.#text = text;
    this.#isForNodes = isForNodes;
    // A node refuses the 128th level (serde_json, `remaining_depth`).
    this.#maxDepth = isForNodes ? 127 : 128;
    this.#valuesLeft = isForNodes ? mostValues : Infinity;
  }

  readDocument(): JsonValue {
    this.#skipSpace();
    const value = this.#readValue(0);
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#refuse('unexpected text after the value');
    return value;
  }

  #readValue(depth: number): JsonValue {
    this.#count();
    const code = this.#text.charCodeAt(this.#at);
    if (code === quoteMark) return this.#readString();
    if (code === openObject) return this.#readObject(depth + 1);
    if (code === openArray) return this.#readArray(depth + 1);
    if (code === minus || isDigit(code)) return this.#readNumber();
    if (this.#take('true')) return true;
    if (this.#take('false')) return false;
    if (this.#take('null')) return null;
    throw this.#refuse('expected a value');
  }

  #readObject(depth: number): JsonObject {
    this.#enter(depth);
    const members = new Map<string, JsonValue>();
    if (this.#takeCode(closeObject)) return { kind: 'object', members };
    for (;;) {
      const start = this.#at;
      if (this.#text.charCodeAt(start) !== quoteMark) throw this.#refuse('expected a key');
      const key = this.#readString();
      if (members.has(key)) throw new JsonError('duplicate key', start, `duplicate key ${JSON.stringify(key)}`);
      if (key.startsWith(reservedPrefix)) throw new JsonError('reserved key', start, 'a reserved key');
      this.#skipSpace();
      if (!this.#takeCode(colon)) throw this.#refuse('expected ":"');
      this.#skipSpace();
      members.set(key, this.#readValue(depth));
      this.#skipSpace();
      if (this.#takeCode(closeObject)) return { kind: 'object', members };
      if (!this.#takeCode(comma)) throw this.#refuse('expected "," or "}"');
      this.#skipSpace();
    }
  }

  #readArray(depth: number): JsonArray {
    this.#enter(depth);
    const items: JsonValue[] = [];
    if (this.#takeCode(closeArray)) return { kind: 'array', items };
    for (;;) {
      items.push(this.#readValue(depth));
      this.#skipSpace();
      if (this.#takeCode(closeArray)) return { kind: 'array', items };
      if (!this.#takeCode(comma)) throw this.#refuse('expected "," or "]"');
      this.#skipSpace();
    }
  }

  #count(): void {
    this.#valuesLeft -= 1;
    if (this.#valuesLeft < 0) throw new JsonError('too many values', this.#at, 'more values than are read here');
  }

  /** Steps over the opening bracket. */
  #enter(depth: number): void {
    if (depth > this.#maxDepth) throw new JsonError('too deep', this.#at, `nested deeper than ${this.#maxDepth}`);
    this.#at += 1;
    this.#skipSpace();
  }

  /** Starts at the quotation mark. Text without escapes, nearly all of it, is one slice. */
  #readString(): string {
    const opening = this.#at;
    let start = opening + 1;
    let value = '';
    for (;;) {
      const end = this.#endOfPlainText(start);
      const plain = this.#text.slice(start, end);
      value = value === '' ? plain : value + plain;
      this.#at = end;
      const code = this.#text.charCodeAt(end);
      if (code === quoteMark) break;
      if (code !== backslash) throw this.#refuse('control character or end of text in a string');
      value += this.#readEscape();
      start = this.#at;
    }
    // Two slices at least: it holds an escape.
    if (this.#isForNodes && start > opening + 1 && !value.isWellFormed()) {
      throw new JsonError('lone surrogate', opening, 'half of a surrogate pair in a string');
    }
    this.#at += 1;
    return value;
  }

  #endOfPlainText(start: number): number {
    const text = this.#text;
    let at = start;
    for (;;) {
      const code = text.charCodeAt(at);
      // Written so that NaN, the end of the text, stops the loop too.
      if (!(code >= space) || code === quoteMark || code === backslash) return at;
      at += 1;
    }
  }

  /** Starts at the backslash. */
  #readEscape(): string {
    this.#count();
    const letter = this.#text.charAt(this.#at + 1);
    const simple = escapes.get(letter);
    if (simple !== undefined) {
      this.#at += 2;
      return simple;
    }
    const hex = this.#text.slice(this.#at + 2, this.#at + 6);
    if (letter !== 'u' || !/[0-9a-fA-F]{4}/.test(hex)) throw this.#refuse('bad escape');
    this.#at += 6;
    return String.fromCharCode(Number.parseInt(hex, 16));
  }

  #readNumber(): JsonNumber {
    const start = this.#at;
    this.#takeCode(minus);
    // A leading zero stands alone: after `0` another digit is left over, and refused as trailing text.
    if (!this.#takeCode(zero)) this.#skipDigits();
    if (this.#takeCode(point)) this.#skipDigits();
    const hasExponent = this.#takeCode(0x65) || this.#takeCode(0x45);
    if (hasExponent) {
      if (!this.#takeCode(0x2b)) this.#takeCode(minus);
      this.#skipDigits();
    }
    const text = this.#text.slice(start, this.#at);
    // Without an exponent it takes more than 308 digits to be beyond a double.
    if (this.#isForNodes && (hasExponent || text.length > 308) && Math.abs(Number(text)) >= surelyInRange) {
      throw new JsonError('number out of range', start, 'a number beyond the range of a double');
    }
    return { kind: 'number', text };
  }

  #skipDigits(): void {
    if (!isDigit(this.#text.charCodeAt(this.#at))) throw this.#refuse('expected a digit');
    while (isDigit(this.#text.charCodeAt(this.#at))) this.#at += 1;
  }

  #take(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
  }

  #takeCode(code: number): boolean {
    if (this.#text.charCodeAt(this.#at) !== code) return false;
    this.#at += 1;
    return true;
  }

  #skipSpace(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== space && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at += 1;
    }
  }

  #refuse(message: string): JsonError {
    return new JsonError('syntax', this.#at, message);
  }
}

function isDigit(code: number): boolean {
  return code >= zero && code <= 0x39;
}

function canonicalArray(array: JsonArray): string {
  let text = '';
  for (const item of array.items) text += text === '' ? JsonValue.canonical(item) : `,${JsonValue.canonical(item)}`;
  return `[${text}]`;
}

function canonicalObject(object: JsonObject): string {
  let text = '';
  for (const key of [...object.members.keys()].sort()) {
    const member = `${canonicalString(key)}:${JsonValue.canonical(object.members.get(key) ?? null)}`;
    text += text === '' ? member : `,${member}`;
  }
  return `{${text}}`;
}

/** Nearly every string needs no escape, and this test is several times cheaper than `JSON.stringify`. */
function canonicalString(value: string): string {
  return /^[ !#-[\]-~]*$/.test(value) ? `"${value}"` : JSON.stringify(value);
}
