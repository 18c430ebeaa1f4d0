/**
 * Names of Move as text: account addresses, 32 bytes as hex (protocol 4.1, 4.3), modules, functions (4.3), and types (4.2):
 * `u64`, `vector<bool>`, `0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>`. The canonical text of a type is the one of nodes,
 * and part of cache keys.
 */
import { GatewayError, quote } from './errors.ts';

declare const brand: unique symbol;

/** An address in its one canonical spelling: `0x`, lowercase, leading zeros trimmed, as nodes print it. */
export type Address = string & { readonly [brand]: 'Address' };

/** Reads and writes addresses. */
export const Address = {
  /** Parses a path or JSON address: `0x` optional and lowercase only, 1 to 64 hex digits. Throws `GatewayError` 400. */
  parse(text: string): Address {
    const address = Address.find(text);
    if (address !== undefined) return address;
    throw new GatewayError('malformed', `failed to parse address: ${quote(text)} is not 1 to 64 hex digits`);
  },

  /** Parses as `parse` does; `undefined` for text that is no address. */
  find(text: string): Address | undefined {
    if (isCanonical(text)) return text as Address;
    const hex = digits.exec(text)?.[1];
    return hex === undefined ? undefined : Address.ofDigits(hex);
  },

  /** The canonical spelling of 1 to 64 hex digits that a parser has already checked. */
  ofDigits(hex: string): Address {
    return `0x${hex.replace(/^0+(?=.)/, '').toLowerCase()}` as Address;
  },

  /** The 32 bytes, big-endian as BCS writes them. */
  bytes(address: Address): Uint8Array {
    return Buffer.from(address.slice(2).padStart(64, '0'), 'hex');
  },
} as const;

const digits = /^(?:0x)?([0-9a-fA-F]{1,64})$/;

/** Most clients send the canonical spelling: this check takes 0.1 microseconds, parsing takes 0.7. */
function isCanonical(text: string): boolean {
  if (text.length < 3 || text.length > 66 || !text.startsWith('0x')) return false;
  if (text.charCodeAt(2) === 48 && text.length > 3) return false;
  for (let at = 2; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const isLowercaseHex = (code >= 48 && code <= 57) || (code >= 97 && code <= 102);
    if (!isLowercaseHex) return false;
  }
  return true;
}

/** A parsed type. `vector<u8>` is a vector of the primitive `u8`. */
export type TypeTag =
  | { readonly kind: 'primitive'; readonly name: (typeof primitives)[number] }
  | { readonly kind: 'vector'; readonly element: TypeTag }
  | StructTag;

/** A struct type, its address canonical. */
export interface StructTag {
  readonly kind: 'struct';
  readonly address: Address;
  readonly module: string;
  readonly name: string;
  readonly typeArguments: readonly TypeTag[];
}

/** The primitives of every node version. */
const established = ['bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'address', 'signer'] as const;
const signed = ['i8', 'i16', 'i32', 'i64', 'i128', 'i256'] as const;
const primitives = [...established, ...signed] as const;

const signedNames: ReadonlySet<string> = new Set(signed);

const primitiveTags = new Map(primitives.map((name) => [name as string, { kind: 'primitive', name } as const]));

/** Words that can name neither a module nor a struct, in every node version. */
const keywords = new Set<string>([...established, 'vector', 'true', 'false']);

/**
 * Nodes refuse a parse depth above 8. One level is added so that a different way of counting never refuses what a
 * node serves; the bound itself keeps hostile tags from deep recursion.
 */
const maxDepth = 9;

/** Reads and writes types. */
export const TypeTag = {
  /** Parses the struct tag of a resource path, already percent-decoded. Throws `GatewayError` 400. */
  parseStruct(text: string): StructTag {
    const tag = TypeTag.find(text);
    if (tag?.kind === 'struct') return tag;
    throw new GatewayError('malformed', `failed to parse path resource_type: ${quote(text)} is not a struct tag`);
  },

  /** The type that `text` spells, or `undefined`. White space between tokens does not matter. */
  find(text: string): TypeTag | undefined {
    const cursor = new TypeCursor(text);
    const tag = readType(cursor, 0);
    return cursor.failed || !cursor.atEnd() ? undefined : tag;
  },

  /** The primitive type of this name, signed integers included. */
  findPrimitive(name: string): Extract<TypeTag, { kind: 'primitive' }> | undefined {
    return primitiveTags.get(name);
  },

  /** Whether a signed integer has this name: newer nodes read and reserve them, older ones refuse them, so the node decides. */
  isSigned(name: string): boolean {
    return signedNames.has(name);
  },

  /** The canonical text: trimmed lowercase addresses, `, ` between arguments, no other spaces, no empty `<>`. */
  format(tag: TypeTag): string {
    switch (tag.kind) {
      case 'primitive':
        return tag.name;
      case 'vector':
        return `vector<${TypeTag.format(tag.element)}>`;
      case 'struct': {
        const path = `${tag.address}::${tag.module}::${tag.name}`;
        if (tag.typeArguments.length === 0) return path;
        return `${path}<${tag.typeArguments.map((each) => TypeTag.format(each)).join(', ')}>`;
      }
    }
  },
} as const;

/** A position in the text of a type. The first refusal is final: `failed` stays set and every later token is empty. */
export class TypeCursor {
  readonly #text: string;
  #at = 0;
  failed = false;

  constructor(text: string) {
    this.#text = text;
    this.#skipSpace();
  }

  /** Takes `token` if it stands here. */
  take(token: string): boolean {
    if (this.failed || !this.#text.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    this.#skipSpace();
    return true;
  }

  expect(token: string): void {
    if (!this.take(token)) this.failed = true;
  }

  /** Takes what the sticky `pattern` matches here and returns its first group. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = this.failed ? null : pattern.exec(this.#text);
    if (found === null) return undefined;
    this.#at = pattern.lastIndex;
    this.#skipSpace();
    return found[1];
  }

  atEnd(): boolean {
    return this.#at === this.#text.length;
  }

  #skipSpace(): void {
    space.lastIndex = this.#at;
    space.exec(this.#text);
    this.#at = space.lastIndex;
  }
}

const space = /[ \t\n\f\r]*/y;
const hexAddress = /0[xX]([0-9a-fA-F]{1,64})(?![0-9a-zA-Z_$])/y;
const word = /([A-Za-z][A-Za-z0-9_$]*)/y;
const nothing: TypeTag = { kind: 'primitive', name: 'bool' };

function readType(cursor: TypeCursor, depth: number): TypeTag {
  const hex = depth > maxDepth ? undefined : cursor.match(hexAddress);
  if (hex !== undefined) return readStruct(cursor, Address.ofDigits(hex), depth);
  const name = depth > maxDepth ? undefined : cursor.match(word);
  const primitive = name === undefined ? undefined : primitiveTags.get(name);
  if (primitive !== undefined) return primitive;
  if (name !== 'vector') return refuse(cursor);
  cursor.expect('<');
  const element = readType(cursor, depth + 1);
  // No trailing comma here: nodes take one in a struct's list only.
  cursor.expect('>');
  return { kind: 'vector', element };
}

function readStruct(cursor: TypeCursor, address: Address, depth: number): TypeTag {
  cursor.expect('::');
  const module = readName(cursor);
  cursor.expect('::');
  const name = readName(cursor);
  return { kind: 'struct', address, module, name, typeArguments: readArguments(cursor, depth) };
}

function readName(cursor: TypeCursor): string {
  const name = cursor.match(word);
  if (name === undefined || keywords.has(name)) cursor.failed = true;
  return name ?? '';
}

/** `<` types `>`, with one trailing comma allowed; `<>` is the same as nothing. */
function readArguments(cursor: TypeCursor, depth: number): readonly TypeTag[] {
  const found: TypeTag[] = [];
  if (!cursor.take('<')) return found;
  while (!cursor.failed && !cursor.take('>')) {
    found.push(readType(cursor, depth + 1));
    if (cursor.take(',')) continue;
    cursor.expect('>');
    break;
  }
  return found;
}

function refuse(cursor: TypeCursor): TypeTag {
  cursor.failed = true;
  return nothing;
}

const identifier = /^(?:[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+|<SELF>)$/;

/** Whether a node takes `text` as the name of a module or function. Names are case-sensitive. */
export function isIdentifier(text: string): boolean {
  return identifier.test(text);
}

/** `{address}::{module}::{function}`, parsed. */
export interface FunctionId {
  readonly address: Address;
  readonly module: string;
  readonly name: string;
}

/** Reads and writes names of functions. */
export const FunctionId = {
  /** Splits at the last `::` and the rest at the first, as nodes do; the address prefix is optional here. */
  find(text: string): FunctionId | undefined {
    const last = text.lastIndexOf('::');
    const first = text.indexOf('::');
    if (first === -1 || last === first) return undefined;
    const address = Address.find(text.slice(0, first));
    const module = text.slice(first + 2, last);
    const name = text.slice(last + 2);
    if (address === undefined || !isIdentifier(module) || !isIdentifier(name)) return undefined;
    return { address, module, name };
  },

  format({ address, module, name }: FunctionId): string {
    return `${address}::${module}::${name}`;
  },
} as const;
