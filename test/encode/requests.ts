/** Requests to encode a call of `0xcafe::m::f`, and the module of it. */
import { compileModule, type CompiledModule } from '../../src/encode/abi.ts';
import { encodeSubmission, type LoadModule } from '../../src/encode/encode-submission.ts';
import type { EncodeOutcome } from '../../src/encode/outcome.ts';

export interface Call {
  readonly types?: readonly string[];
  /** Arguments as JSON text. */
  readonly values?: string;
  /** Further members of the request, as JSON text that starts with a comma. */
  readonly more?: string;
}

/** Type parameters of a function or struct, without abilities. */
export const constraints = (count: number) => Array.from({ length: count }, () => ({ constraints: [] }));

/** The body of a module's answer. `more`: members of the ABI, in place of those of a module without structs. */
export function moduleText(params: readonly string[], generics = 0, more: object = {}): string {
  const entry = { name: 'f', is_entry: true, params, generic_type_params: constraints(generics) };
  const abi = { address: '0xcafe', name: 'm', exposed_functions: [entry], structs: [], ...more };
  return JSON.stringify({ bytecode: '0x', abi });
}

export function moduleOf(...facts: Parameters<typeof moduleText>): CompiledModule {
  return compileModule(moduleText(...facts));
}

export function bodyOf({ types = [], values = '[]', more = '' }: Call = {}): string {
  const call = `"function":"0xcafe::m::f","type_arguments":${JSON.stringify(types)},"arguments":${values}`;
  const envelope = '"sequence_number":"0","max_gas_amount":"1","gas_unit_price":"1","expiration_timestamp_secs":"1"';
  return `{"sender":"0x1",${envelope},"payload":{"type":"entry_function_payload",${call}}${more}}`;
}

/** Encodes a body, or the body of a call, by this module for every address and name, or as it is loaded. */
export function encodeBy(
  module: CompiledModule | LoadModule | undefined,
  call: Call | string = {},
  more: { readonly chainId?: number; readonly run?: <T>(work: () => T) => T | Promise<T> } = {},
): Promise<EncodeOutcome> {
  const loadModule = typeof module === 'function' ? module : () => Promise.resolve(module);
  const body = typeof call === 'string' ? call : bodyOf(call);
  return encodeSubmission(body, { chainId: 4, signingDomain: 'APTOS', loadModule, ...more });
}

/** `encoded`, `refused`, or the reason for which a node is asked. */
export function resultOf(outcome: EncodeOutcome): string {
  return outcome.kind === 'forward' ? outcome.reason : outcome.kind;
}
