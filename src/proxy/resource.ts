/** `GET /accounts/{address}/resource/{resource_type}`: one typed resource of an account. */
import { parseAddress } from '../ledger/address.ts';
import { formatTypeTag, parseStructTag } from '../ledger/type-tag.ts';
import { pinnedRead, type PathRead } from './path-read.ts';

export interface ResourceParameters {
  readonly address: string;
  readonly tag: string;
}

/** Parses path and query; throws `GatewayError` 400 for what a node would not parse either. */
export function resourceRead(parameters: ResourceParameters, request: PathRead) {
  const address = parseAddress(parameters.address);
  const tag = formatTypeTag(parseStructTag(parameters.tag));
  const path = `/accounts/${address}/resource/${encodeURIComponent(tag)}`;
  return pinnedRead({ operation: 'resource', subject: `${address}/${tag}`, path }, request);
}
