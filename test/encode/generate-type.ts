/** Made-up parameter types: the closed table of protocol 5.4, structs of made-up modules, and type parameters. */
import type { Random } from '../support/random.ts';
import { address, name } from './generate-name.ts';
import type { ValueType } from './generate-value.ts';
import type { ReferenceTag, ReferenceType } from './reference.ts';

export interface World {
  readonly random: Random;
  /** Structs made up so far. */
  readonly structs: GeneratedStruct[];
}

export interface GeneratedStruct {
  readonly address: string;
  readonly module: string;
  /** The entry in the module's ABI. */
  readonly abi: unknown;
}

export interface GeneratedType extends ValueType {
  /** Its text in the ABI. */
  readonly text: string;
  readonly tag: ReferenceTag;
}

/** A type argument, as text and as the tag it spells. `type` is there when it may replace a type parameter. */
export interface Generic {
  readonly text: string;
  readonly tag: ReferenceTag;
  readonly type: GeneratedType | undefined;
}

const maxDepth = 8;
const bits = [8, 16, 32, 64, 128, 256];

/** With `isPlain`, only what may replace a type parameter: no objects and no structs of other modules. */
export function generateType(
  world: World,
  generics: readonly Generic[],
  depth: number,
  isPlain = false,
): GeneratedType {
  const { random } = world;
  const dice = depth >= maxDepth ? random.below(7) : random.below(17);
  if (dice < 4) return integer(random.pick(bits));
  if (dice === 4) return leaf('bool', 'bool');
  if (dice === 5) return leaf('address', 'address');
  if (dice === 6) return standard('string', 'String', { kind: 'string' }, []);
  if (dice < 10) return vectorOf(generateType(world, generics, depth + 1, isPlain));
  if (dice < 12) return optionOf(generateType(world, generics, depth + 1, isPlain));
  if (dice < 14) return generateParameter(world, generics, depth);
  // A straight descent to the limit now and then.
  if (dice === 14) return descend(generateType(world, generics, maxDepth, isPlain), random.below(maxDepth - depth));
  if (isPlain || depth > 3) return integer(64);
  return dice === 15 ? objectOf(world, generics, depth) : generateStruct(world, depth);
}

function integer(bits: number): GeneratedType {
  return typeOf(`u${bits}`, { kind: `u${bits}` }, { kind: 'integer', bits });
}

function leaf(text: string, kind: 'bool' | 'address'): GeneratedType {
  return typeOf(text, { kind: text }, { kind });
}

function typeOf(
  text: string,
  tag: ReferenceTag,
  type: ReferenceType,
  inner: readonly GeneratedType[] = [],
  fieldNames: readonly string[] = [],
): GeneratedType {
  return { text, tag, type, inner, fieldNames };
}

function vectorOf(of: GeneratedType): GeneratedType {
  return typeOf(`vector<${of.text}>`, { kind: 'vector', of: of.tag }, { kind: 'vector', of: of.type }, [of]);
}

function optionOf(element: GeneratedType): GeneratedType {
  return standard('option', 'Option', { kind: 'option', of: element.type }, [element]);
}

function descend(type: GeneratedType, levels: number): GeneratedType {
  return levels <= 0 ? type : descend(levels % 2 === 0 ? vectorOf(type) : optionOf(type), levels - 1);
}

/**
 * What an object is of plays no part in its bytes. A type parameter for anything may stand there when it is a whole
 * parameter, and deeper one for what nodes can lay out.
 */
function objectOf({ random }: World, generics: readonly Generic[], depth: number): GeneratedType {
  const parameters = generics.flatMap(({ type }, index) => (depth > 0 && type === undefined ? [] : [`T${index}`]));
  const held = random.pick(['0x1::object::ObjectCore', '0x1::fungible_asset::Metadata', ...parameters]);
  const object = standard('object', 'Object', { kind: 'object' }, []);
  return { ...object, text: `0x1::object::Object<${held}>` };
}

function standard(module: string, name: string, type: ReferenceType, inner: readonly GeneratedType[]): GeneratedType {
  const list = inner.length === 0 ? '' : `<${inner.map(({ text }) => text).join(', ')}>`;
  const typeArguments = inner.map(({ tag }) => tag);
  const tag = { kind: 'struct', address: '1'.padStart(64, '0'), module, name, typeArguments } as const;
  return typeOf(`0x1::${module}::${name}${list}`, tag, type, inner);
}

/** A type parameter, if there is one whose type argument may stand here. */
function generateParameter(world: World, generics: readonly Generic[], depth: number): GeneratedType {
  const index = world.random.below(Math.max(generics.length, 1));
  const type = generics[index]?.type;
  return type === undefined ? generateType(world, [], depth + 1, true) : { ...type, text: `T${index}` };
}

/** A struct in a module of its own. Its first field may be of its own type parameter. */
function generateStruct(world: World, depth: number): GeneratedType {
  const { random } = world;
  const parameter = random.chance(2) ? generateType(world, [], depth + 2, true) : undefined;
  const plain = Array.from({ length: 1 + random.below(3) }, () => generateType(world, [], depth + 1));
  const fields = parameter === undefined ? plain : [{ ...parameter, text: 'T0' }, ...plain];
  const fieldNames = fields.map((_, at) => `${name(random)}${at}`);
  const [at, module, struct] = [address(random), name(random), name(random)];
  const abi = {
    name: struct,
    is_native: false,
    ...(random.chance(2) ? { is_enum: false } : {}),
    generic_type_params: parameter === undefined ? [] : [{ constraints: [] }],
    fields: fields.map(({ text }, field) => ({ name: fieldNames[field], type: text })),
  };
  world.structs.push({ address: at, module, abi });
  const typeArguments = parameter === undefined ? [] : [parameter];
  const list = typeArguments.map(({ text }) => `<${text}>`).join('');
  const text = `0x${at.replace(/^0+(?=.)/, '')}::${module}::${struct}${list}`;
  const tags = typeArguments.map(({ tag }) => tag);
  const tag = { kind: 'struct', address: at, module, name: struct, typeArguments: tags } as const;
  return typeOf(text, tag, { kind: 'struct', fields: fields.map(({ type }) => type) }, fields, fieldNames);
}
