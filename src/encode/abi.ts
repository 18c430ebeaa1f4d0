/**
 * The ABI of a module (interface specification 2.4), read once per module and compiled: what a request needs is then
 * found by name, without looking at the JSON again.
 */
import { addressBytes, findAddress, type Address } from '../ledger/address.ts';
import { findAbiType, isSigner, type AbiType } from './abi-type.ts';
import { BcsWriter } from './bcs.ts';
import { findLayout, type Layout } from './layout.ts';

/** One module, ready for encoding. */
export interface CompiledModule {
  readonly address: Address | undefined;
  readonly name: string | undefined;
  /** `undefined` when the answer carried no ABI that could be read: then every call is left to nodes. */
  readonly abi: CompiledAbi | undefined;
}

export interface CompiledAbi {
  /** Entry functions of any visibility (protocol 5.3). */
  findEntryFunction(name: string): CompiledFunction | undefined;
  /** A struct whose layout is its fields. Enums and native structs are not found. */
  findStruct(name: string): CompiledStruct | undefined;
}

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

export interface Parameter {
  readonly text: string;
  readonly type: AbiType;
  /** Known beforehand for nearly every parameter; the rest depends on type arguments or other modules. */
  readonly layout: Layout | undefined;
}

export interface CompiledStruct {
  readonly typeParameterCount: number;
  /** In declared order, which is their order in BCS. */
  readonly fields: readonly { readonly name: string; readonly type: AbiType }[];
}

type Json = Readonly<Record<string, unknown>>;

/** Compiles the body of a module answer, `{bytecode, abi}`. Unknown fields are ignored; it throws for nothing. */
export function compileModule(body: string): CompiledModule {
  const abi = findAbi(body);
  const address = typeof abi?.['address'] === 'string' ? findAddress(abi['address']) : undefined;
  const name = typeof abi?.['name'] === 'string' ? abi['name'] : undefined;
  const functions = findNamed(abi?.['exposed_functions']);
  const structs = findNamed(abi?.['structs']);
  if (address === undefined || name === undefined || functions === undefined || structs === undefined) {
    return { address, name, abi: undefined };
  }
  const compiled = new Map<string, CompiledFunction>();
  for (const [functionName, source] of functions) {
    if (source['is_entry'] === true) compiled.set(functionName, compileFunction(address, name, functionName, source));
  }
  return {
    address,
    name,
    abi: {
      findEntryFunction: (functionName) => compiled.get(functionName),
      findStruct: (structName) => compileStruct(structs.get(structName)),
    },
  };
}

function findAbi(body: string): Json | undefined {
  try {
    const answer = asObject(JSON.parse(body));
    return asObject(answer?.['abi']);
  } catch {
    return undefined;
  }
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

function compileFunction(address: Address, module: string, name: string, source: Json): CompiledFunction {
  headerWriter.reset();
  headerWriter.raw(addressBytes(address));
  headerWriter.string(module);
  headerWriter.string(name);
  const params = source['params'];
  const generics = source['generic_type_params'];
  return {
    id: `${address}::${module}::${name}`,
    signature: `${Array.isArray(generics) ? generics.length : '?'}:${JSON.stringify(params)}`,
    header: headerWriter.toBytes(),
    typeParameterCount: Array.isArray(generics) ? generics.length : 0,
    parameters: Array.isArray(generics) ? compileParameters(params) : undefined,
  };
}

function compileParameters(params: unknown): readonly Parameter[] | undefined {
  if (!Array.isArray(params)) return undefined;
  const parameters: Parameter[] = [];
  for (const text of params) {
    const type = typeof text === 'string' ? findAbiType(text) : undefined;
    if (type === undefined) return undefined;
    if (!isSigner(type)) parameters.push({ text: String(text), type, layout: findLayout(type) });
  }
  return parameters;
}

/**
 * Early nodes do not say `is_enum`. An enum then shows no fields, and a struct always has one at least (an empty one
 * gets `dummy_field`), so no fields means: not a struct to lay out.
 */
function compileStruct(source: Json | undefined): CompiledStruct | undefined {
  const fields = source?.['fields'];
  const generics = source?.['generic_type_params'];
  if (!Array.isArray(fields) || fields.length === 0 || !Array.isArray(generics)) return undefined;
  if (source?.['is_native'] !== false || (source['is_enum'] ?? false) !== false) return undefined;
  const compiled: { name: string; type: AbiType }[] = [];
  for (const field of fields) {
    const { name, type } = asObject(field) ?? {};
    const found = typeof type === 'string' ? findAbiType(type) : undefined;
    if (typeof name !== 'string' || found === undefined) return undefined;
    compiled.push({ name, type: found });
  }
  return { typeParameterCount: generics.length, fields: compiled };
}

function asObject(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}
