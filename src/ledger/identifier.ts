/** Names of modules, structs and functions, and the three-part id of a function (protocol 4.3). */
import { findAddress, type Address } from './address.ts';

const identifier = /^(?:[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+|<SELF>)$/;

/** Whether a node takes `text` as the name of a module or function. Names are case-sensitive. */
export function isIdentifier(text: string): boolean {
  return identifier.test(text);
}

/** `{address}::{module}::{function}`, parsed. */
export interface FunctionId {
  readonly address: Address;
  readonly module: string;
  readonly name: string;
}

/** Splits at the last `::` and the rest at the first, as nodes do; the address prefix is optional here. */
export function findFunctionId(text: string): FunctionId | undefined {
  const last = text.lastIndexOf('::');
  const first = text.indexOf('::');
  if (first === -1 || last === first) return undefined;
  const address = findAddress(text.slice(0, first));
  const module = text.slice(first + 2, last);
  const name = text.slice(last + 2);
  if (address === undefined || !isIdentifier(module) || !isIdentifier(name)) return undefined;
  return { address, module, name };
}

/** The canonical spelling. */
export function formatFunctionId(id: FunctionId): string {
  return `${id.address}::${id.module}::${id.name}`;
}
