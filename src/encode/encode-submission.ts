/** `POST /transactions/encode_submission` without a node: JSON and ABIs in, the bytes to sign out. */
import { type Address, FunctionId, type TypeTag } from '../ledger/index.ts';
import type { CompiledFunction, CompiledModule, Parameter } from './abi.ts';
import { everyTypeParameter, substitute, type AbiStruct, type AbiType } from './abi-type.ts';
import { BcsWriter } from './bcs.ts';
import { isPlain, type Layout, findLayout, isStandard, vectorOf, type FieldLayout } from './layout.ts';
import { invalidArgument } from './move-value.ts';
import { Handover, EncodeRefusal, type EncodeOutcome, Steps } from './outcome.ts';
import { writeSigningMessage, type PreparedCall, type PreparedSubmission } from './transaction.ts';
import { parseSubmission, type EntryCall } from './submission.ts';

/**
 * Supplies the module at head, compiled; `undefined` when there is none. `fresh` asks for one that was read since the
 * request began. It may reject; the encoding rejects with the same error.
 */
export type LoadModule = (
  address: Address,
  name: string,
  options?: { readonly fresh: boolean },
) => Promise<CompiledModule | undefined>;

interface EncodeContext {
  /** The ledger's chain id, a u8. */
  readonly chainId: number;
  /** `APTOS` on Aptos ledgers. */
  readonly signingDomain: string;
  readonly loadModule: LoadModule;
  /** Runs each of the two parts of the work, the parse and the writing, which take 1 ms each at worst. Default: at once. */
  readonly run?: (<T>(work: () => T) => T | Promise<T>) | undefined;
  /** The writer of the bytes; tests pass broken ones. */
  readonly writer?: BcsWriter;
  /** Counter of the work, unused so far; tests read it. */
  readonly steps?: Steps;
}

/**
 * Encodes one request. `bodyText` is UTF-8. Rejects only when `loadModule` does, with its error.
 */
export async function encodeSubmission(bodyText: string, context: EncodeContext): Promise<EncodeOutcome> {
  try {
    const transaction = await prepareSubmission(bodyText, context);
    const compiled = transaction.prepared?.function;
    const { run = atOnce } = context;
    const hex = await run(() => encodeToHex(transaction, context));
    return { kind: 'encoded', hex, functionId: compiled?.id, signature: compiled?.signature ?? '' };
  } catch (error) {
    if (error instanceof Handover) return { kind: 'forward', reason: error.reason };
    if (error instanceof EncodeRefusal) return { kind: 'refused', message: error.message, code: error.code };
    throw error;
  }
}

function atOnce<T>(work: () => T): T {
  return work();
}

/** Parses the request and finds the layout of every argument. Throws `EncodeRefusal`, `Handover`, or what `loadModule` does. */
async function prepareSubmission(
  bodyText: string,
  { loadModule, run = atOnce, steps = new Steps() }: EncodeContext,
): Promise<PreparedSubmission> {
  const submission = await run(() => parseSubmission(bodyText, steps));
  const { call } = submission;
  if (call === undefined) return { submission, prepared: undefined };
  const { address, module: name } = call.function;
  let compiled: CompiledFunction;
  try {
    compiled = findFunction(call, await loadModule(address, name), steps);
  } catch (error) {
    if (!(error instanceof EncodeRefusal)) throw error;
    // The module may have been upgraded since it was read: what was read for earlier requests is not believed.
    compiled = findFunction(call, await loadModule(address, name, { fresh: true }), steps);
  }
  const layouts = await loadLayouts(compiled, call.typeArguments, { loadModule, steps, structsLeft: maxStructs });
  return { submission, prepared: { call, function: compiled, layouts, steps } satisfies PreparedCall };
}

/** The bytes as `0x` and lowercase hex. Throws `EncodeRefusal` or `Handover` for arguments that do not fit. */
function encodeToHex(transaction: PreparedSubmission, context: EncodeContext): string {
  const writer = context.writer ?? sharedWriter;
  writer.reset();
  try {
    writeSigningMessage(writer, transaction, context);
  } catch (error) {
    // A RangeError is the writer declining what it cannot write; better a node's answer than half of ours.
    if (error instanceof RangeError) throw new Handover('encoder fault');
    throw error;
  }
  return `0x${writer.toHex()}`;
}

/** Writing is synchronous from the first byte to the hex, so one buffer serves every request. */
const sharedWriter = new BcsWriter();

/** The called function, with both counts checked. Throws `EncodeRefusal` with the message of nodes (protocol 3.4). */
function findFunction(call: EntryCall, module: CompiledModule | undefined, steps: Steps): CompiledFunction {
  const { address, module: moduleName, name } = call.function;
  if (module === undefined) {
    throw invalidArgument(`Module ModuleId { address: ${address}, name: Identifier("${moduleName}") } can't be found`);
  }
  if (module.abi === undefined || module.address !== address || module.name !== moduleName) {
    throw new Handover('unreadable abi');
  }
  const compiled = module.abi.findEntryFunction(name, steps);
  if (compiled === undefined) {
    throw invalidArgument(`could not find entry function by ${FunctionId.format(call.function)}`);
  }
  if (compiled.parameters === undefined) throw new Handover('unreadable abi');
  const [types, values] = [call.typeArguments.length, call.arguments.length];
  if (types !== compiled.typeParameterCount) {
    const expected = `expect ${compiled.typeParameterCount} type arguments for entry function ${compiled.id}`;
    throw invalidArgument(`${expected}, but got ${types}`);
  }
  if (values !== compiled.parameters.length) {
    throw invalidArgument(`expected ${compiled.parameters.length} arguments, but got ${values}`);
  }
  return compiled;
}

/** One layout for each argument; those of structs need the modules that declare them. */
async function loadLayouts(
  compiled: CompiledFunction,
  typeArguments: readonly TypeTag[],
  source: LayoutSource,
): Promise<readonly Layout[]> {
  const layouts: Layout[] = [];
  for (const parameter of compiled.parameters ?? []) {
    layouts.push(parameter.layout ?? (await loadParameter(parameter, typeArguments, source)));
  }
  return layouts;
}

async function loadParameter(
  { type }: Parameter,
  typeArguments: readonly TypeTag[],
  source: LayoutSource,
): Promise<Layout> {
  if (type.kind === 'reference' || type.kind === 'function') throw new Handover('unsupported parameter');
  const { steps } = source;
  const filled = substitute(type, typeArguments, steps);
  if (filled === undefined) throw new Handover('unreadable abi');
  const plain = everyTypeParameter(type, steps, (index) => {
    const argument = typeArguments[index];
    return argument !== undefined && isPlain(argument, steps);
  });
  if (!plain) throw new Handover('generic argument');
  return loadLayout(filled, source);
}

/** Source of the layouts of one request, and the rest of its bounds. */
interface LayoutSource {
  readonly loadModule: LoadModule;
  readonly steps: Steps;
  structsLeft: number;
}

/** Structs that all arguments of one request together may load. */
const maxStructs = 64;
/** Structs inside of structs; deeper ones are left to nodes, which have their own bound. */
const maxDepth = 16;

/**
 * Finds layouts as `findLayout` does, and those of structs of other modules, by their fields in declared order. Throws
 * `Handover` for a type that only a node can lay out, and once the request is over its bound of structs or steps.
 */
async function loadLayout(type: AbiType, source: LayoutSource, depth = 0): Promise<Layout> {
  const closed = findLayout(type, source.steps, depth > 0);
  if (closed !== undefined) return closed;
  if (depth > maxDepth) throw new Handover('nested too deep');
  switch (type.kind) {
    case 'primitive':
      // A primitive without a layout is a signer inside of something, or a signed integer.
      throw new Handover(type.name === 'signer' ? 'unsupported parameter' : 'signed integer');
    case 'vector':
      return vectorOf(await loadLayout(type.element, source, depth + 1));
    case 'struct': {
      const [inner, ...others] = type.typeArguments;
      const isOption = isStandard(type, 'option', 'Option') && others.length === 0;
      if (!isOption || inner === undefined) return loadStruct(type, source, depth);
      return { kind: 'option', element: await loadLayout(inner, source, depth + 1) };
    }
    case 'parameter':
      throw new Handover('unreadable abi');
    case 'reference':
    case 'function':
      throw new Handover('unsupported parameter');
  }
}

async function loadStruct(type: AbiStruct, source: LayoutSource, depth: number): Promise<Layout> {
  source.structsLeft -= 1;
  if (source.structsLeft < 0) throw new Handover('struct argument');
  const module = await source.loadModule(type.address, type.module);
  if (module?.address !== type.address || module.name !== type.module) throw new Handover('struct argument');
  const struct = module.abi?.findStruct(type.name, source.steps);
  if (struct === undefined || struct.typeParameterCount !== type.typeArguments.length) {
    throw new Handover('struct argument');
  }
  const fields: FieldLayout[] = [];
  for (const field of struct.fields) {
    const fieldType = substitute(field.type, type.typeArguments, source.steps);
    if (fieldType === undefined) throw new Handover('unreadable abi');
    fields.push({ name: field.name, layout: await loadLayout(fieldType, source, depth + 1) });
  }
  return { kind: 'struct', name: `${type.address}::${type.module}::${type.name}`, fields };
}
