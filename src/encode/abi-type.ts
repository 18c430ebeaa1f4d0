/**
 * Types as a module's ABI writes them: the types of `ledger/type-tag.ts`, and besides type parameters (`T0`), references
 * (`&signer`, `&mut T0`) and function types (`|u64|bool`).
 */
import { canonicalAddress, type Address } from '../ledger/address.ts';
import { findTypeTag, type PrimitiveName, type TypeTag } from '../ledger/type-tag.ts';
import type { Steps } from './steps.ts';

/** Every `TypeTag` is one of these. */
export type AbiType =
  | { readonly kind: 'primitive'; readonly name: PrimitiveName }
  | { readonly kind: 'vector'; readonly element: AbiType }
  | AbiStruct
  | { readonly kind: 'parameter'; readonly index: number }
  | { readonly kind: 'reference'; readonly to: AbiType }
  | { readonly kind: 'function' };

/** A struct type inside an ABI; its arguments may hold type parameters. */
export interface AbiStruct {
  readonly kind: 'struct';
  readonly address: Address;
  readonly module: string;
  readonly name: string;
  readonly typeArguments: readonly AbiType[];
}

/** Generous; it keeps a hostile ABI from deep recursion. */
const maxDepth = 32;

/** The type that `text` spells, or `undefined`. Takes a step for each token, and those of the text. */
export function findAbiType(text: string, steps: Steps): AbiType | undefined {
  steps.takeText(text);
  // A function type is never encoded, so its inside does not matter.
  if (text.includes('|')) return { kind: 'function' };
  const tokens = findTokens(text, steps);
  if (tokens === undefined) return undefined;
  const reader = new TokenReader(tokens);
  const type = readType(reader, 0);
  return reader.atEnd() ? type : undefined;
}

/** Whether a parameter of this type is filled by the transaction's signers: `signer`, `&signer`, `&mut signer`. */
export function isSigner(type: AbiType): boolean {
  const inner = type.kind === 'reference' ? type.to : type;
  return inner.kind === 'primitive' && inner.name === 'signer';
}

/**
 * Replaces type parameters by `typeArguments`; `undefined` when one of them is not there. The result shares the type
 * arguments, so that it may be a much larger tree than what was visited to make it.
 */
export function substitute(type: AbiType, typeArguments: readonly AbiType[], steps: Steps): AbiType | undefined {
  steps.take();
  switch (type.kind) {
    case 'primitive':
    case 'function':
      return type;
    case 'parameter':
      return typeArguments[type.index];
    case 'vector': {
      const element = substitute(type.element, typeArguments, steps);
      return element && { kind: 'vector', element };
    }
    case 'reference': {
      const to = substitute(type.to, typeArguments, steps);
      return to && { kind: 'reference', to };
    }
    case 'struct': {
      const found = type.typeArguments.map((argument) => substitute(argument, typeArguments, steps));
      const known = found.filter((argument) => argument !== undefined);
      return known.length === found.length ? { ...type, typeArguments: known } : undefined;
    }
  }
}

/** Whether `holds` for the index of every type parameter inside of `type`; true where there is none. */
export function everyTypeParameter(type: AbiType, steps: Steps, holds: (index: number) => boolean): boolean {
  steps.take();
  switch (type.kind) {
    case 'primitive':
    case 'function':
      return true;
    case 'parameter':
      return holds(type.index);
    case 'vector':
      return everyTypeParameter(type.element, steps, holds);
    case 'reference':
      return everyTypeParameter(type.to, steps, holds);
    case 'struct':
      return type.typeArguments.every((argument) => everyTypeParameter(argument, steps, holds));
  }
}

const token = /[ \t]*(0x[0-9a-fA-F]{1,64}(?![0-9a-zA-Z_$])|[A-Za-z_$][A-Za-z0-9_$]*|::|[<>,&])[ \t]*/y;

function findTokens(text: string, steps: Steps): readonly string[] | undefined {
  const tokens: string[] = [];
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    steps.take();
    const found = token.exec(text)?.[1];
    if (found === undefined) return undefined;
    tokens.push(found);
  }
  return tokens;
}

class TokenReader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  next(): string | undefined {
    this.#at += 1;
    return this.#tokens[this.#at - 1];
  }

  take(token: string): boolean {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at += 1;
    return true;
  }

  atEnd(): boolean {
    return this.#at === this.#tokens.length;
  }
}

function readType(reader: TokenReader, depth: number): AbiType | undefined {
  const word = depth > maxDepth ? undefined : reader.next();
  if (word === undefined) return undefined;
  if (word === '&') {
    reader.take('mut');
    const to = readType(reader, depth + 1);
    return to && { kind: 'reference', to };
  }
  if (word.startsWith('0x')) return readStruct(reader, canonicalAddress(word.slice(2)), depth);
  if (word === 'vector') {
    if (!reader.take('<')) return undefined;
    const element = readType(reader, depth + 1);
    return element && reader.take('>') ? { kind: 'vector', element } : undefined;
  }
  if (/^T\d{1,5}$/.test(word)) return { kind: 'parameter', index: Number(word.slice(1)) };
  return findPrimitive(word);
}

function readStruct(reader: TokenReader, address: Address, depth: number): AbiStruct | undefined {
  const module = reader.take('::') ? reader.next() : undefined;
  const name = reader.take('::') ? reader.next() : undefined;
  if (module === undefined || name === undefined || !isName(module) || !isName(name)) return undefined;
  const typeArguments: AbiType[] = [];
  if (reader.take('<')) {
    do {
      const argument = readType(reader, depth + 1);
      if (argument === undefined) return undefined;
      typeArguments.push(argument);
    } while (reader.take(','));
    if (!reader.take('>')) return undefined;
  }
  return { kind: 'struct', address, module, name, typeArguments };
}

function isName(token: string): boolean {
  return /^[A-Za-z_$]/.test(token);
}

function findPrimitive(word: string): TypeTag | undefined {
  const tag = findTypeTag(word);
  return tag?.kind === 'primitive' ? tag : undefined;
}
