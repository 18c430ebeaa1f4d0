/** Names of modules, structs and functions, the three-part id of a function, and transaction hashes (protocol 4.3). */
import { findAddress, type Address } from './address.ts';
import { GatewayError, quote } from './errors.ts';

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

declare const brand: unique symbol;

/** `0x` and 64 lowercase hex digits. */
export type TransactionHash = string & { readonly [brand]: 'TransactionHash' };

/** Parses a path's hash: `0x` optional, exactly 64 hex digits in any case. */
export function parseTransactionHash(text: string): TransactionHash {
  const hex = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(text)?.[1];
  if (hex === undefined) {
    throw new GatewayError('malformed', `failed to parse path txn_hash: ${quote(text)} is not 64 hex digits`);
  }
  return `0x${hex.toLowerCase()}` as TransactionHash;
}
