/**
 * The vectors of test/vectors/encode, as data: all are recorded, each names its `origin`. Where an `abi` is a path,
 * it is one below that folder; `modules/` holds recorded answers of nodes.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { compileModule, type CompiledModule } from '../../src/encode/abi.ts';
import type { LoadModule } from '../../src/encode/encode-submission.ts';

export interface Vector {
  readonly name: string;
  readonly chain_id: number;
  /** A module answer, or the path of one. */
  readonly abi: unknown;
  readonly request: unknown;
  readonly expected_hex?: string;
  /** `body` is there where a node's answer was recorded. */
  readonly expected_error?: { readonly status: number; readonly error_code: string; readonly body?: unknown };
  readonly beyond_spec?: boolean;
}

const folder = new URL('../vectors/encode/', import.meta.url);

/** Names of the vector files, in order. */
export const groups = readdirSync(folder)
  .filter((file) => file.endsWith('.json'))
  .sort();

export function readGroup(group: string): readonly Vector[] {
  return JSON.parse(readFileSync(new URL(group, folder), 'utf8')) as readonly Vector[];
}

export function readText(file: string): string {
  return readFileSync(new URL(file, folder), 'utf8');
}

/** The modules of the framework that struct arguments may need, and of the vectors that name one. */
export const moduleTexts = readdirSync(new URL('modules/', folder)).map((file) => readText(`modules/${file}`));
const modules = moduleTexts.map(compileModule);

/** Serves the vector's own module and those of the framework. */
export function loaderOf(vector: Vector): LoadModule {
  const own = compileModule(moduleText(vector.abi));
  return (address, name) => Promise.resolve([own, ...modules].find((module) => isNamed(module, address, name)));
}

function isNamed(module: CompiledModule, address: string, name: string): boolean {
  return module.address === address && module.name === name;
}

/** The body of the module answer that a vector's `abi` stands for. */
export function moduleText(abi: unknown): string {
  if (typeof abi !== 'string') return JSON.stringify(abi);
  return readText(abi.replace('recorded/modules/', 'modules/').replace('encode/abis/', 'abis/'));
}
