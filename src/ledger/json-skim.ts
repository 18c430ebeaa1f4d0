/**
 * The facts that the gateway reads of an answer's JSON, found without making its values: a tenth of the time and memory
 * of a parse, and in steps, between which others have their turn. RFC 8259, strict, but for two bounds that no answer of
 * a node reaches.
 */
import { characters } from './json-value.ts';

/** Facts of a JSON text. */
export interface JsonFacts {
  readonly kind: 'object' | 'array' | 'number' | 'other';
  /** An object's members: at least those of `skimmedNames`, without the content of long texts, arrays and objects. */
  readonly members: Readonly<Record<string, unknown>>;
  /** Names of the object's members, repeated ones once; without those beyond `skimmedNames` but one. */
  readonly names: readonly string[];
  /** The number of an array's items. */
  readonly items: number | undefined;
  /** Index, start and end of an array's first and last item, where these are objects or arrays. */
  readonly edges?: readonly ItemRange[];
  /** The same of all items, for a skim that keeps them. */
  readonly ranges?: readonly ItemRange[] | undefined;
}

/** `from` and `to`: offsets in bytes. */
export type ItemRange = readonly [index: number, from: number, to: number];

/** Members of answers that the gateway reads. */
const skimmedNames: ReadonlySet<string> = new Set([
  'message',
  'error_code',
  'vm_error_code',
  'chain_id',
  'type',
  'version',
  'success',
  'hash',
  'accumulator_root_hash',
  'block_height',
  'first_version',
  'last_version',
  'data',
  'bytecode',
]);

/** Stands for all other names. No member of an error has it. */
const otherName = '';
/** Lengths of these names, and of the longest with each character escaped. */
const nameLengths = new Set([...skimmedNames].map(({ length }) => length));
const longestName = 6 * Math.max(...nameLengths);
/** Bytes of a value that a reader compares. */
const longestValue = 1024;
/** Bounds of nesting, and of a number in bytes. Values of Move are nested to 128. */
const deepest = 1024;
const longestNumber = 4096;

const { quoteMark, comma, minus, point, zero, colon, openArray, backslash, closeArray, openObject, closeObject } =
  characters;
const plus = 0x2b;

const literals = new Map(['true', 'false', 'null'].map((text) => [text.charCodeAt(0), Buffer.from(text)]));
/** Bytes of a string that are read one by one: names and addresses are no longer. */
const shortString = 64;
/** By the byte behind a backslash. */
const isEscape = maskOf('"\\/bfnrtu');
const isHex = maskOf('0123456789abcdefABCDEF');
const isSpace = maskOf(' \n\r\t');
/** Bytes of a string up to its end or an escape. */
const isPlain = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x20 && byte !== quoteMark && byte !== backslash ? 1 : 0,
);

function maskOf(characters: string): Uint8Array {
  const mask = new Uint8Array(256);
  for (const byte of Buffer.from(characters)) mask[byte] = 1;
  return mask;
}

/** The next token. `first`: the bracket before it is still empty. */
type Expected = 'value' | 'first item' | 'key' | 'first key' | 'colon' | 'end of value' | 'nothing';

/** Reads one text, step by step. */
export class JsonSkim {
  readonly #bytes: Buffer;
  /** All of its memory, four bytes a word. */
  #words: Int32Array | undefined;
  #at = 0;
  #expected: Expected = 'value';
  #isInString = false;
  /** Start of the string, or of the value of a member that is read. */
  #startedAt = 0;
  #isKey = false;
  #hasEscape = false;
  #depth = 0;
  /** By depth: 1 for an object. */
  readonly #isObject = new Uint8Array(deepest + 1);
  #kind: JsonFacts['kind'] = 'other';
  #items = 0;
  #itemFrom = 0;
  #firstItem: ItemRange | undefined;
  #lastItem: ItemRange | undefined;
  readonly #ranges: ItemRange[] | undefined;
  /** Name of the outermost object's member at hand. */
  #name = otherName;
  readonly #members: Record<string, unknown> = {};

  /** `keepsItems`: for `JsonFacts.ranges`. */
  constructor(bytes: Buffer, keepsItems = false) {
    this.#bytes = bytes;
    this.#ranges = keepsItems ? [] : undefined;
  }

  /** Reads on, some `count` bytes. Returns whether that was all. */
  step(count: number): boolean {
    const bytes = this.#bytes;
    const until = Math.min(this.#at + count, bytes.length);
    while (this.#at < until && this.#expected !== 'nothing') {
      if (this.#isInString) this.#goThroughString(until);
      else if (isSpace[bytes[this.#at] ?? 0] === 1) this.#at += 1;
      else this.#take(bytes[this.#at] ?? 0);
    }
    return this.#expected === 'nothing' || this.#at >= bytes.length;
  }

  /** Once `step` has returned true. `undefined`: no JSON. */
  get facts(): JsonFacts | undefined {
    if (this.#expected !== 'end of value' || this.#depth > 0 || this.#isInString) return undefined;
    const kind = this.#kind;
    const members = this.#members;
    const names = Object.keys(members);
    if (kind !== 'array') return { kind, members, names, items: undefined };
    const edges = [this.#firstItem, this.#lastItem].filter((edge) => edge !== undefined);
    const apart = edges[0] === edges[1] ? edges.slice(1) : edges;
    return { kind, members, names, items: this.#items, edges: apart, ranges: this.#ranges };
  }

  #take(byte: number): void {
    switch (this.#expected) {
      case 'first item':
        if (byte === closeArray) return this.#close();
        return this.#beginValue(byte);
      case 'value':
        return this.#beginValue(byte);
      case 'first key':
        if (byte === closeObject) return this.#close();
        return this.#beginKey(byte);
      case 'key':
        return this.#beginKey(byte);
      case 'colon':
        return this.#goOn(byte === colon, 'value');
      case 'end of value':
        return this.#endValue(byte);
      case 'nothing':
    }
  }

  #endValue(byte: number): void {
    const isInObject = this.#isObject[this.#depth] === 1;
    if (this.#depth > 0 && byte === (isInObject ? closeObject : closeArray)) return this.#close();
    return this.#goOn(this.#depth > 0 && byte === comma, isInObject ? 'key' : 'value');
  }

  #goOn(isValid: boolean, expected: Expected): void {
    this.#expected = isValid ? expected : 'nothing';
    this.#at += 1;
  }

  #close(): void {
    this.#depth -= 1;
    this.#goOn(true, 'end of value');
    if (this.#depth !== 1 || this.#kind !== 'array') return;
    const item: ItemRange = [this.#items - 1, this.#itemFrom, this.#at];
    if (this.#items === 1) this.#firstItem = item;
    this.#lastItem = item;
    this.#ranges?.push(item);
  }

  #beginKey(byte: number): void {
    this.#isKey = true;
    this.#beginString(byte === quoteMark);
  }

  #beginString(isValid: boolean): void {
    this.#isInString = isValid;
    this.#hasEscape = false;
    this.#startedAt = this.#at;
    this.#goOn(isValid, this.#expected);
  }

  #beginValue(byte: number): void {
    if (this.#depth === 0) this.#kind = kindOf(byte);
    else if (this.#depth === 1) {
      this.#items += 1;
      this.#itemFrom = this.#at;
    }
    if (byte === quoteMark) {
      this.#isKey = false;
      this.#beginString(true);
    } else if (byte === openObject || byte === openArray) this.#open(byte === openObject);
    else if (byte === minus || isDigit(byte)) this.#takeNumber();
    else this.#takeLiteral(literals.get(byte));
  }

  #open(isObject: boolean): void {
    this.#record(this.#at, this.#at);
    this.#depth += 1;
    this.#isObject[this.#depth] = isObject ? 1 : 0;
    this.#goOn(this.#depth <= deepest, isObject ? 'first key' : 'first item');
  }

  #takeNumber(): void {
    const start = this.#at;
    const bytes = this.#bytes;
    let at = bytes[start] === minus ? start + 1 : start;
    const whole = at;
    at = endOfDigits(bytes, at);
    // A leading zero stands alone.
    let isValid = at > whole && (bytes[whole] !== zero || at === whole + 1);
    if (bytes[at] === point) {
      const end = endOfDigits(bytes, at + 1);
      isValid &&= end > at + 1;
      at = end;
    }
    if (isOfExponent(bytes[at])) {
      const sign = bytes[at + 1];
      const digits = sign === plus || sign === minus ? at + 2 : at + 1;
      at = endOfDigits(bytes, digits);
      isValid &&= at > digits;
    }
    this.#at = at;
    this.#expected = isValid && at - start <= longestNumber ? 'end of value' : 'nothing';
    if (isValid) this.#record(start, at);
  }

  #takeLiteral(literal: Buffer | undefined): void {
    const start = this.#at;
    const end = start + (literal?.length ?? 0);
    const isValid = literal?.equals(this.#bytes.subarray(start, end)) === true;
    this.#at = end;
    this.#expected = isValid ? 'end of value' : 'nothing';
    if (isValid) this.#record(start, end);
  }

  /** Up to the end of the string, or of this step. */
  #goThroughString(until: number): void {
    const bytes = this.#bytes;
    let at = this.#at;
    const near = Math.min(until, at + shortString);
    while (at < near && isPlain[bytes[at] ?? 0] === 1) at += 1;
    if (at === near && at < until) at = this.#endOfPlain(at, until);
    this.#at = at;
    if (at >= until) return undefined;
    if (bytes[at] === quoteMark) return this.#endString();
    return this.#takeEscape(bytes[at] === backslash);
  }

  /**
   * The end of the plain bytes of a long string, by words of four bytes: most of a large answer are such bytes, like a
   * module's bytecode, and byte by byte they take three times as long.
   */
  #endOfPlain(from: number, until: number): number {
    const bytes = this.#bytes;
    const { buffer, byteOffset } = bytes;
    const words = (this.#words ??= new Int32Array(buffer, 0, buffer.byteLength >> 2));
    let at = from;
    while (at < until && ((byteOffset + at) & 3) !== 0 && isPlain[bytes[at] ?? 0] === 1) at += 1;
    let word = (byteOffset + at) >> 2;
    const end = (byteOffset + until) >> 2;
    while (word < end && isPlainWord(words[word] as number)) word += 1;
    at = Math.max(at, word * 4 - byteOffset);
    while (at < until && isPlain[bytes[at] ?? 0] === 1) at += 1;
    return at;
  }

  #takeEscape(isBackslash: boolean): void {
    const bytes = this.#bytes;
    const at = this.#at;
    const letter = bytes[at + 1] ?? 0;
    this.#hasEscape = true;
    let isValid = isBackslash && isEscape[letter] === 1;
    const hasDigits = letter === 0x75;
    if (hasDigits) for (let digit = 2; digit < 6; digit += 1) isValid &&= isHex[bytes[at + digit] ?? 0] === 1;
    this.#at += hasDigits ? 6 : 2;
    if (!isValid) this.#expected = 'nothing';
  }

  #endString(): void {
    this.#at += 1;
    this.#isInString = false;
    if (!this.#isKey) {
      this.#expected = 'end of value';
      return this.#record(this.#startedAt, this.#at);
    }
    this.#expected = 'colon';
    if (this.#depth === 1) this.#name = this.#readName(this.#startedAt, this.#at);
    return undefined;
  }

  #readName(start: number, end: number): string {
    const length = end - start - 2;
    // Most names are none of these by their length alone.
    if (length > longestName || !(this.#hasEscape || nameLengths.has(length))) return otherName;
    const text = this.#bytes.toString('utf8', start, end);
    const name = this.#hasEscape ? (JSON.parse(text) as string) : text.slice(1, -1);
    return skimmedNames.has(name) ? name : otherName;
  }

  /** Records the value from `start` to `end`, if it is a member of the outermost object. Empty: an array or an object. */
  #record(start: number, end: number): void {
    if (this.#depth !== 1 || this.#isObject[1] !== 1) return;
    this.#members[this.#name] = this.#name === otherName ? null : this.#readValue(start, end);
  }

  #readValue(start: number, end: number): unknown {
    if (start === end) return null;
    // The content of a long text matters to no reader, but its type does.
    if (end - start > longestValue) return this.#bytes[start] === quoteMark ? '' : null;
    return JSON.parse(this.#bytes.toString('utf8', start, end));
  }
}

/** Whether no byte is below 0x21 with its second bit changed (a control character or a quote), or a backslash. */
function isPlainWord(word: number): boolean {
  const quotes = word ^ 0x02020202;
  const backslashes = word ^ 0x5c5c5c5c;
  // The highest bit of each byte that is one.
  return ((((quotes - 0x21212121) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes)) & 0x80808080) === 0;
}

function isOfExponent(byte: number | undefined): boolean {
  return byte === 0x65 || byte === 0x45;
}

/** The place behind digits that begin at `at`; beyond the longest number it does not look. */
function endOfDigits(bytes: Buffer, at: number): number {
  let end = at;
  const until = at + longestNumber + 1;
  while (end < until && isDigit(bytes[end] ?? 0)) end += 1;
  return end;
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= 0x39;
}

function kindOf(byte: number): JsonFacts['kind'] {
  if (byte === openObject) return 'object';
  if (byte === openArray) return 'array';
  return byte === minus || isDigit(byte) ? 'number' : 'other';
}
