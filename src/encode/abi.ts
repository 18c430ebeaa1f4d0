/**
 * The ABI of a module (interface specification 2.4), read once per module. A function is compiled for the first request
 * that calls it, within the steps of that request, and found by name from then on.
 */
import { Address, FunctionId } from '../ledger/index.ts';
import { findAbiType, isSigner, type AbiType } from './abi-type.ts';
import { BcsWriter } from './bcs.ts';
import { findLayout, type Layout } from './layout.ts';
import type { Steps } from './outcome.ts';

/** One module, ready for encoding. */
export interface CompiledModule {
  readonly address: Address | undefined;
  readonly name: string | undefined;
  /** `undefined` when the answer carried no ABI that could be read: then every call is left to nodes. */
  readonly abi: CompiledAbi | undefined;
}

interface CompiledAbi {
  /** Entry functions of any visibility (protocol 5.3). Throws `Handover` for one that takes too many steps. */
  findEntryFunction(name: string, steps: Steps): CompiledFunction | undefined;
  /** A struct whose layout is its fields. Enums and native structs are not found. Throws as `findEntryFunction` does. */
  findStruct(name: string, steps: Steps): CompiledStruct | undefined;
}

/** One entry function, ready for encoding. */
export interface CompiledFunction {
  /** `0x1::coin::transfer`. */
  readonly id: string;
  /** Type parameter count and parameters as the ABI writes them: another text means another ABI. */
  readonly signature: string;
  /** module address[32] ‖ module name ‖ function name, each name with its length. */
  readonly header: Uint8Array;
  readonly typeParameterCount: number;
  /** Without signers, which are no arguments wherever they stand. `undefined` when one could not be read. */
  readonly parameters: readonly Parameter[] | undefined;
}

/** One parameter that is an argument; signers are none. */
export interface Parameter {
  readonly text: string;
  readonly type: AbiType;
  /** Fixed for nearly every parameter; the others depend on type arguments or other modules. */
  readonly layout: Layout | undefined;
}

/** A struct by its declared fields. */
export interface CompiledStruct {
  readonly typeParameterCount: number;
  /** In declared order, which is their order in BCS. */
  readonly fields: readonly { readonly name: string; readonly type: AbiType }[];
}

type Json = Readonly<Record<string, unknown>>;

/** In characters; the largest modules of a ledger take half of it. A parse takes some 2 ms. */
const largestBody = 256 * 1024;

/**
 * Compiles the body of a module answer, `{bytecode, abi}`. Unknown fields are ignored; it throws for nothing. A body above
 * `largestBody` has no ABI.
 */
export function compileModule(body: string): CompiledModule {
  const abi = asObject(parseObject(body)?.['abi']);
  const address = typeof abi?.['address'] === 'string' ? Address.find(abi['address']) : undefined;
  const name = typeof abi?.['name'] === 'string' ? abi['name'] : undefined;
  const functions = findNamed(abi?.['exposed_functions']);
  const structs = findNamed(abi?.['structs']);
  if (address === undefined || name === undefined || functions === undefined || structs === undefined) {
    return { address, name, abi: undefined };
  }
  const compiled = new Map<string, CompiledFunction>();
  return {
    address,
    name,
    abi: {
      findEntryFunction(functionName, steps) {
        const source = functions.get(functionName);
        if (source?.['is_entry'] !== true) return undefined;
        const known =
          compiled.get(functionName) ?? compileFunction({ address, module: name, name: functionName }, source, steps);
        compiled.set(functionName, known);
        return known;
      },
      findStruct: (structName, steps) => compileStruct(structs.get(structName), steps),
    },
  };
}

/** The members of an ABI list by name; `undefined` when it is no such list or a name comes twice. */
function findNamed(list: unknown): ReadonlyMap<string, Json> | undefined {
  if (!Array.isArray(list)) return undefined;
  const named = new Map<string, Json>();
  for (const item of list) {
    const object = asObject(item);
    const name = object?.['name'];
    if (object === undefined || typeof name !== 'string' || named.has(name)) return undefined;
    named.set(name, object);
  }
  return named;
}

const headerWriter = new BcsWriter();

function compileFunction(id: FunctionId, source: Json, steps: Steps): CompiledFunction {
  const params = source['params'];
  const generics = source['generic_type_params'];
  const parameters = Array.isArray(generics) ? compileParameters(params, steps) : undefined;
  headerWriter.reset();
  headerWriter.raw(Address.bytes(id.address));
  headerWriter.string(id.module);
  headerWriter.string(id.name);
  return {
    id: FunctionId.format(id),
    signature: `${Array.isArray(generics) ? generics.length : '?'}:${JSON.stringify(params)}`,
    header: headerWriter.toBytes(),
    typeParameterCount: Array.isArray(generics) ? generics.length : 0,
    parameters,
  };
}

function compileParameters(params: unknown, steps: Steps): readonly Parameter[] | undefined {
  if (!Array.isArray(params)) return undefined;
  const parameters: Parameter[] = [];
  for (const text of params) {
    const type = typeof text === 'string' ? findAbiType(text, steps) : undefined;
    if (type === undefined) return undefined;
    if (!isSigner(type)) parameters.push({ text: String(text), type, layout: findLayout(type, steps) });
  }
  return parameters;
}

/**
 * Early nodes leave `is_enum` out. An enum then shows no fields, and a struct always has one at least (an empty one
 * gets `dummy_field`), so no fields means: not a struct to lay out. Fields have names of their own, so that no value of a
 * request is written twice.
 */
function compileStruct(source: Json | undefined, steps: Steps): CompiledStruct | undefined {
  const fields = source?.['fields'];
  const generics = source?.['generic_type_params'];
  if (!Array.isArray(fields) || fields.length === 0 || !Array.isArray(generics)) return undefined;
  if (source?.['is_native'] !== false || (source['is_enum'] ?? false) !== false) return undefined;
  const compiled: { name: string; type: AbiType }[] = [];
  const names = new Set<string>();
  for (const field of fields) {
    const { name, type } = asObject(field) ?? {};
    const found = typeof type === 'string' ? findAbiType(type, steps) : undefined;
    if (typeof name !== 'string' || names.has(name) || found === undefined) return undefined;
    names.add(name);
    compiled.push({ name, type: found });
  }
  return { typeParameterCount: generics.length, fields: compiled };
}

function parseObject(body: string): Json | undefined {
  if (body.length > largestBody) return undefined;
  try {
    return asObject(JSON.parse(body));
  } catch {
    return undefined;
  }
}

function asObject(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}
