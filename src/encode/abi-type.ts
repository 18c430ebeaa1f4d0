/**
 * Types as a module's ABI writes them: the types of `ledger/type-tag.ts`, and besides type parameters (`T0`), references
 * (`&signer`, `&mut T0`) and function types (`|u64|bool`).
 */
import { Address, TypeCursor, TypeTag } from '../ledger/index.ts';
import type { Steps } from './outcome.ts';

/** Every `TypeTag` is one of these. */
export type AbiType =
  | Extract<TypeTag, { kind: 'primitive' }>
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

/** The type that `text` spells, or `undefined`. Takes a step for each type and name, and those of the text. */
export function findAbiType(text: string, steps: Steps): AbiType | undefined {
  steps.takeText(text);
  // A function type is never encoded, so its inside does not matter.
  if (text.includes('|')) return { kind: 'function' };
  // No node breaks a line there: another text may mean another type.
  if (/[\n\f\r]/.test(text)) return undefined;
  const cursor = new TypeCursor(text);
  const type = readType(cursor, steps, 0);
  return cursor.failed || !cursor.atEnd() ? undefined : type;
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

const hexAddress = /0x([0-9a-fA-F]{1,64})(?![0-9a-zA-Z_$])/y;
const word = /([A-Za-z_$][A-Za-z0-9_$]*)/y;
const mutable = /(mut)(?![A-Za-z0-9_$])/y;

function readType(cursor: TypeCursor, steps: Steps, depth: number): AbiType | undefined {
  steps.take();
  if (depth > maxDepth) return undefined;
  if (cursor.take('&')) {
    cursor.match(mutable);
    const to = readType(cursor, steps, depth + 1);
    return to && { kind: 'reference', to };
  }
  const hex = cursor.match(hexAddress);
  if (hex !== undefined) return readStruct(cursor, steps, Address.ofDigits(hex), depth);
  const name = cursor.match(word) ?? '';
  if (name === 'vector') {
    cursor.expect('<');
    const element = readType(cursor, steps, depth + 1);
    cursor.expect('>');
    return element && { kind: 'vector', element };
  }
  const index = /^T(\d{1,5})$/.exec(name)?.[1];
  return index === undefined ? TypeTag.findPrimitive(name) : { kind: 'parameter', index: Number(index) };
}

function readStruct(cursor: TypeCursor, steps: Steps, address: Address, depth: number): AbiStruct | undefined {
  const module = readName(cursor, steps);
  const name = readName(cursor, steps);
  const typeArguments: AbiType[] = [];
  if (cursor.take('<')) {
    do {
      const argument = readType(cursor, steps, depth + 1);
      if (argument === undefined) return undefined;
      typeArguments.push(argument);
    } while (cursor.take(','));
    cursor.expect('>');
  }
  return { kind: 'struct', address, module, name, typeArguments };
}

function readName(cursor: TypeCursor, steps: Steps): string {
  steps.take();
  cursor.expect('::');
  const name = cursor.match(word);
  if (name === undefined) cursor.failed = true;
  return name ?? '';
}
