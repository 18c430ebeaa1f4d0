/** `GET /accounts/{address}/module/{module_name}`: one published module, with its ABI. */
import { parseAddress } from '../ledger/address.ts';
import { GatewayError, quote } from '../ledger/errors.ts';
import { isIdentifier } from '../ledger/identifier.ts';
import { pinnedRead, type PathRead } from './path-read.ts';

export interface ModuleParameters {
  readonly address: string;
  readonly name: string;
}

/** Parses path and query; throws `GatewayError` 400. Names are case-sensitive. */
export function moduleRead(parameters: ModuleParameters, request: PathRead) {
  const address = parseAddress(parameters.address);
  const { name } = parameters;
  if (!isIdentifier(name)) throw new GatewayError('invalidInput', `'module_name' invalid: ${quote(name)}`);
  const path = `/accounts/${address}/module/${encodeURIComponent(name)}`;
  return pinnedRead({ operation: 'module', subject: `${address}/${name}`, path }, request);
}
