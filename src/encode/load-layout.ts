/** Layouts that need other modules: structs, by the fields their module declares. */
import type { Address } from '../ledger/address.ts';
import type { CompiledModule } from './abi.ts';
import { substitute, type AbiStruct, type AbiType } from './abi-type.ts';
import { findLayout, isStandard, vectorOf, type FieldLayout, type Layout } from './layout.ts';
import { Handover } from './outcome.ts';
import type { Steps } from './steps.ts';

/**
 * Supplies the module at head, compiled; `undefined` when there is none. `fresh` asks for one that was read since the
 * request began. It may reject; the encoding rejects with the same error.
 */
export type LoadModule = (
  address: Address,
  name: string,
  options?: { readonly fresh: boolean },
) => Promise<CompiledModule | undefined>;

/** Source of the layouts of one request, and the rest of its bounds. */
export interface LayoutSource {
  readonly loadModule: LoadModule;
  readonly steps: Steps;
  structsLeft: number;
}

/** For one request: all of its arguments together may load 64 structs. */
export function createLayoutSource(loadModule: LoadModule, steps: Steps): LayoutSource {
  return { loadModule, steps, structsLeft: 64 };
}

/**
 * Finds layouts as `findLayout` does, and those of structs of other modules, by their fields in declared order. Throws
 * `Handover` for a type that only a node can lay out, and once the request is over its bound of structs or steps.
 */
export async function loadLayout(type: AbiType, source: LayoutSource): Promise<Layout> {
  return load(type, source, 0);
}

/** Structs inside of structs; deeper ones are left to nodes, which have their own bound. */
const maxDepth = 16;

async function load(type: AbiType, source: LayoutSource, depth: number): Promise<Layout> {
  const closed = findLayout(type, source.steps, depth > 0);
  if (closed !== undefined) return closed;
  if (depth > maxDepth) throw new Handover('nested too deep');
  switch (type.kind) {
    case 'primitive':
      // A primitive without a layout is a signer inside of something, or a signed integer.
      throw new Handover(type.name === 'signer' ? 'unsupported parameter' : 'signed integer');
    case 'vector':
      return vectorOf(await load(type.element, source, depth + 1));
    case 'struct': {
      const [inner, ...others] = type.typeArguments;
      const isOption = isStandard(type, 'option', 'Option') && others.length === 0;
      if (!isOption || inner === undefined) return loadStruct(type, source, depth);
      return { kind: 'option', element: await load(inner, source, depth + 1) };
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
    fields.push({ name: field.name, layout: await load(fieldType, source, depth + 1) });
  }
  return { kind: 'struct', name: `${type.address}::${type.module}::${type.name}`, fields };
}
