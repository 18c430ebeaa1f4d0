/**
 * Made-up ABIs that keep an encoder busy: types shared by many fields and by each other, recursive, wide and deep, and a
 * request that calls them. What it means is made up beside it for the reference encoder, as far as it means anything.
 */
import { Random } from '../support/random.ts';
import { generateValue, type ValueType } from './generate-value.ts';
import type { ReferenceCall, ReferenceType } from './reference.ts';
import { constraints } from './requests.ts';

export interface WorkCase {
  readonly bodyText: string;
  /** Bodies of module answers, by `0xcafe::m0`. */
  readonly modules: ReadonlyMap<string, string>;
  /** Type arguments of the call, as tags of the reference, and its arguments; `undefined`: the type of one is none, or too large. */
  readonly call: { readonly tags: readonly string[]; readonly arguments: ReferenceCall['arguments'] } | undefined;
}

type Type =
  | { readonly kind: 'primitive'; readonly name: string }
  | { readonly kind: 'vector' | 'option' | 'object'; readonly of: Type }
  | { readonly kind: 'string' }
  | { readonly kind: 'parameter'; readonly index: number }
  | { readonly kind: 'struct'; readonly index: number; readonly of: readonly Type[] }
  /** Nothing that is encoded here, as it is written. */
  | { readonly kind: 'other'; readonly text: string };

interface Struct {
  readonly parameters: number;
  readonly fields: readonly Type[];
}

const primitives = ['u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'bool', 'address'];
const others = ['signer', '&u8', '|u64|bool', 'i64', 'T9', '0xdead::gone::S', '0x1::option::Option<u8,u8>', '<', ''];
const modules = 3;

/** The emphasis of a case. */
const shapes = ['soup', 'sharing', 'recursion', 'wide', 'deep'] as const;
type Shape = (typeof shapes)[number];

export function generateWork(seed: number): WorkCase {
  const random = new Random(seed);
  const shape = random.pick(shapes);
  const isShared = shape === 'sharing';
  const count = 1 + random.below(random.chance(20) ? 60 : isShared ? 15 : 7);
  const arities = Array.from({ length: count }, (_, at) => arityOf(random, shape, at === count - 1));
  const structs = arities.map((arity, at) => makeStruct(random, shape, { arities, first: at + 1, generics: arity }));
  const tags = Array.from({ length: random.below(3) }, () => random.pick(primitives));
  const width = random.chance(20) ? 1 + random.below(200) : 1 + random.below(4);
  const around = { arities, first: 0, generics: tags.length };
  const parameters = Array.from({ length: width }, (_, at) =>
    at === 0 ? structOf(random, shape, around) : makeType(random, shape, around),
  );
  const whole = new WholeTypes(structs);
  const scope: Scope = { of: tags.map((name) => ({ type: { kind: 'primitive', name }, scope: empty })) };
  const made = parameters.map((type) => {
    const found = whole.typeOf({ type, scope });
    return found && { type: found.type, ...generateValue(random, found, false) };
  });
  return {
    bodyText: bodyOf(
      tags,
      made.map((value) => value?.json ?? 'null'),
    ),
    modules: answersOf(structs, parameters.map(textOf), tags.length),
    call: made.every((value) => value !== undefined) ? { tags, arguments: made } : undefined,
  };
}

/** Parts of a type. */
interface Around {
  /** Type parameters of each struct. */
  readonly arities: readonly number[];
  /** Structs from here on may be used. */
  readonly first: number;
  /** Type parameters that are there. */
  readonly generics: number;
}

/** Of what is shared, the last struct takes many type arguments, and they are all the same. */
function arityOf(random: Random, shape: Shape, isLast: boolean): number {
  if (shape !== 'sharing') return random.below(3);
  return isLast ? 1 + random.below(8) : 1;
}

function makeStruct(random: Random, shape: Shape, around: Around): Struct {
  const isWide = shape === 'wide' && random.chance(3);
  const count = isWide ? 1 + random.below(random.chance(40) ? 2_000 : 40) : 1 + random.below(3);
  // Only recursion goes back to structs before this one.
  const used = shape === 'recursion' ? { ...around, first: 0 } : around;
  const fields = Array.from({ length: count }, () => makeType(random, shape, used));
  // Each struct has the next one as its field, and the last but one walks over what has grown.
  const grown: Type = { kind: 'object', of: { kind: 'parameter', index: 0 } };
  if (shape === 'sharing') fields[0] = used.first < used.arities.length - 1 ? structOf(random, shape, used) : grown;
  return { parameters: around.generics, fields };
}

function makeType(random: Random, shape: Shape, around: Around, depth = 0): Type {
  if (random.chance(400)) return { kind: 'other', text: random.pick(others) };
  if (shape === 'deep' && depth === 0 && random.chance(2)) return descend(random, around, 1 + random.below(36));
  const dice = depth > 3 ? random.below(6) : random.below(shape === 'soup' ? 14 : 20);
  if (dice < 4) return { kind: 'primitive', name: random.pick(primitives) };
  if (dice === 4) return { kind: 'string' };
  if (dice < 8 && around.generics > 0) return { kind: 'parameter', index: random.below(around.generics) };
  const inner = (): Type => makeType(random, shape, around, depth + 1);
  if (dice < 9) return { kind: random.pick(['vector', 'option', 'object'] as const), of: inner() };
  return structOf(random, shape, around, depth);
}

function descend(random: Random, around: Around, levels: number): Type {
  let type: Type = around.generics > 0 ? { kind: 'parameter', index: 0 } : { kind: 'primitive', name: 'bool' };
  for (let level = 0; level < levels; level += 1) {
    type = { kind: random.pick(['vector', 'option', 'option'] as const), of: type };
  }
  return type;
}

/** One of the structs, often the next one. What is shared grows with each struct by the type arguments of the last one. */
function structOf(random: Random, shape: Shape, around: Around, depth = 0): Type {
  const { arities, first, generics } = around;
  const count = arities.length;
  if (first >= count) return { kind: 'primitive', name: random.pick(primitives) };
  const isNext = shape === 'sharing' || random.chance(2);
  const index = isNext ? first : first + random.below(count - first);
  const argument = (): Type => {
    if (shape !== 'sharing') return makeType(random, shape, around, depth + 1);
    const shared: Type = generics > 0 ? { kind: 'parameter', index: 0 } : { kind: 'primitive', name: 'u8' };
    return { kind: 'struct', index: count - 1, of: Array.from({ length: arities[count - 1] ?? 0 }, () => shared) };
  };
  return { kind: 'struct', index, of: Array.from({ length: arities[index] ?? 0 }, argument) };
}

/** Its text in an ABI. */
function textOf(type: Type): string {
  switch (type.kind) {
    case 'primitive':
      return type.name;
    case 'vector':
      return `vector<${textOf(type.of)}>`;
    case 'option':
      return `0x1::option::Option<${textOf(type.of)}>`;
    case 'object':
      return `0x1::object::Object<${textOf(type.of)}>`;
    case 'string':
      return '0x1::string::String';
    case 'parameter':
      return `T${type.index}`;
    case 'other':
      return type.text;
    case 'struct': {
      const list = type.of.map((inner) => textOf(inner));
      return `0xcafe::m${type.index % modules}::S${type.index}${list.length === 0 ? '' : `<${list.join(', ')}>`}`;
    }
  }
}

function answersOf(structs: readonly Struct[], params: readonly string[], generics: number): Map<string, string> {
  const called = { name: 'f', is_entry: true, generic_type_params: constraints(generics), params };
  const answers = new Map<string, string>();
  for (let at = 0; at < modules; at += 1) {
    const own = structs.flatMap(({ parameters, fields }, index) =>
      index % modules !== at
        ? []
        : [
            {
              name: `S${index}`,
              is_native: false,
              generic_type_params: constraints(parameters),
              fields: fields.map((type, field) => ({ name: `f${field}`, type: textOf(type) })),
            },
          ],
    );
    const abi = { address: '0xcafe', name: `m${at}`, exposed_functions: at === 0 ? [called] : [], structs: own };
    answers.set(`0xcafe::m${at}`, JSON.stringify({ bytecode: '0x', abi }));
  }
  return answers;
}

function bodyOf(tags: readonly string[], values: readonly string[]): string {
  const call = `"function":"0xcafe::m0::f","type_arguments":${JSON.stringify(tags)},"arguments":[${values.join()}]`;
  const envelope = '"sequence_number":"0","max_gas_amount":"1","gas_unit_price":"1","expiration_timestamp_secs":"1"';
  return `{"sender":"0x1",${envelope},"payload":{"type":"entry_function_payload",${call}}}`;
}

/** Types in place of type parameters: types in scopes of their own, so that nothing is ever replaced. */
interface Scope {
  readonly of: readonly Scoped[];
}

interface Scoped {
  readonly type: Type;
  readonly scope: Scope;
}

const empty: Scope = { of: [] };

/** Deeper than any type that is encoded here. */
const mostDepth = 40;

/** Types without type parameters, as far as they end. */
class WholeTypes {
  readonly #structs: readonly Struct[];
  /** Nodes of types that are still made. */
  #left = 2_000;

  constructor(structs: readonly Struct[]) {
    this.#structs = structs;
  }

  /** `depth`: of types that it is inside of. `undefined`: it is no type, or too large. */
  typeOf({ type, scope }: Scoped, depth = 0): ValueType | undefined {
    this.#left -= 1;
    if (this.#left < 0 || depth > mostDepth) return undefined;
    switch (type.kind) {
      case 'primitive':
        return leaf(
          type.name === 'bool' || type.name === 'address'
            ? { kind: type.name }
            : { kind: 'integer', bits: Number(type.name.slice(1)) },
        );
      case 'string':
      case 'object':
        return leaf({ kind: type.kind });
      case 'parameter': {
        const filled = scope.of[type.index];
        return filled && this.typeOf(filled, depth);
      }
      case 'vector':
      case 'option': {
        const of = this.typeOf({ type: type.of, scope }, depth + 1);
        return of && { type: { kind: type.kind, of: of.type }, inner: [of], fieldNames: [] };
      }
      case 'struct': {
        const of = type.of.map((inner) => ({ type: inner, scope }));
        const inner: ValueType[] = [];
        for (const field of this.#structs[type.index]?.fields ?? []) {
          const found = this.typeOf({ type: field, scope: { of } }, depth + 1);
          if (found === undefined) return undefined;
          inner.push(found);
        }
        const fields = inner.map((field) => field.type);
        return { type: { kind: 'struct', fields }, inner, fieldNames: fields.map((_, at) => `f${at}`) };
      }
      case 'other':
        return undefined;
    }
  }
}

function leaf(type: ReferenceType): ValueType {
  return { type, inner: [], fieldNames: [] };
}
