/** The layout of a Move value in BCS, as data: the JSON reader, the writer and `explain` all follow it. */
import { TypeTag } from '../ledger/index.ts';
import { everyTypeParameter, type AbiStruct, type AbiType } from './abi-type.ts';
import type { IntegerBits } from './bcs.ts';
import type { Steps } from './outcome.ts';

/** The layout of one value. */
export type Layout =
  | { readonly kind: 'bool' }
  | { readonly kind: 'integer'; readonly bits: IntegerBits }
  /** 32 bytes. Also an `Object<T>` that is a whole parameter (protocol 5.4). */
  | { readonly kind: 'address' }
  /** `vector<u8>`, hex in JSON. */
  | { readonly kind: 'bytes' }
  | { readonly kind: 'string' }
  | { readonly kind: 'vector'; readonly element: Layout }
  /** `{"vec":[...]}` with none or one element. */
  | { readonly kind: 'option'; readonly element: Layout }
  | { readonly kind: 'struct'; readonly name: string; readonly fields: readonly FieldLayout[] };

/** One field of a struct, in declared order. */
export interface FieldLayout {
  readonly name: string;
  readonly layout: Layout;
}

const primitives = new Map<string, Layout>([
  ['bool', { kind: 'bool' }],
  ...([8, 16, 32, 64, 128, 256] as const).map((bits) => [`u${bits}`, { kind: 'integer', bits }] as const),
  ['address', { kind: 'address' }],
]);

const objectFields: readonly FieldLayout[] = [{ name: 'inner', layout: { kind: 'address' } }];

/**
 * The layout of a type that needs nothing but itself: the closed table of protocol 5.4 without other structs.
 * `undefined` for the rest. `nested`: the value lies inside of another one, and is no whole parameter.
 */
export function findLayout(type: AbiType, steps: Steps, nested = false): Layout | undefined {
  steps.take();
  switch (type.kind) {
    case 'primitive':
      return primitives.get(type.name);
    case 'vector': {
      const element = findLayout(type.element, steps, true);
      return element && vectorOf(element);
    }
    case 'struct':
      return findStandardLayout(type, steps, nested);
    case 'parameter':
    case 'reference':
    case 'function':
      return undefined;
  }
}

/** The three structs of the standard library that JSON writes in a form of their own. */
function findStandardLayout(type: AbiStruct, steps: Steps, nested: boolean): Layout | undefined {
  const [inner] = type.typeArguments;
  if (type.typeArguments.length === 0) return isStandard(type, 'string', 'String') ? { kind: 'string' } : undefined;
  if (type.typeArguments.length !== 1 || inner === undefined) return undefined;
  if (isStandard(type, 'object', 'Object')) {
    // A whole parameter is an address to nodes, whatever the object holds. Inside of a value it is a struct, which newer
    // nodes lay out with its type argument, and refuse with one that has no layout: open until it is filled in.
    if (!nested) return { kind: 'address' };
    const isFilled = everyTypeParameter(inner, steps, () => false);
    return isFilled ? { kind: 'struct', name: '0x1::object::Object', fields: objectFields } : undefined;
  }
  if (!isStandard(type, 'option', 'Option')) return undefined;
  const element = findLayout(inner, steps, true);
  return element && { kind: 'option', element };
}

/** Whether this is the struct of that name in the standard library, package 0x1. */
export function isStandard(type: AbiStruct, module: string, name: string): boolean {
  return type.address === '0x1' && type.module === module && type.name === name;
}

/** The layout of a vector of `element`s; of u8 it is a kind of its own. */
export function vectorOf(element: Layout): Layout {
  return element.kind === 'integer' && element.bits === 8 ? { kind: 'bytes' } : { kind: 'vector', element };
}

/**
 * Whether a type argument may take the place of a type parameter in an argument. For structs of their own JSON form
 * it matters where the node looks, before or after the replacement, so they are left to it.
 */
export function isPlain(tag: TypeTag, steps: Steps): boolean {
  steps.take();
  switch (tag.kind) {
    case 'primitive':
      return primitives.has(tag.name);
    case 'vector':
      return isPlain(tag.element, steps);
    case 'struct': {
      const path = TypeTag.format({ ...tag, typeArguments: [] });
      const [inner, ...others] = tag.typeArguments;
      if (inner === undefined) return path === '0x1::string::String';
      return path === '0x1::option::Option' && others.length === 0 && isPlain(inner, steps);
    }
  }
}
