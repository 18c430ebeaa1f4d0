/** The canonical form of a request for a table item (protocol 1, rows 15 and 16). */
import { canonicalJson, type JsonObject } from '../ledger/json-value.ts';
import { canonicalBody, canonicalType, refused, type CanonicalBody } from './canonical-body.ts';

/**
 * The canonical body: key and value types as type tags; the key by its JSON value, numbers as source text, strings
 * untouched, because only the type decides whether `0x1` and `0x01` are one key. A member that the gateway does not know
 * leaves the body as it is. Throws `GatewayError` for bodies that every node refuses.
 */
export function parseTableBody(
  operation: 'table_item' | 'raw_table_item',
  bytes: Buffer,
  digest: string | undefined,
): CanonicalBody {
  return canonicalBody(bytes, digest, operation === 'table_item' ? canonicalItem : canonicalRawItem);
}

function canonicalItem(body: JsonObject): string | undefined {
  const key = body.members.get('key');
  if (key === undefined) throw refused('"key" is missing');
  const keyType = canonicalType(body.members.get('key_type'), 'key_type');
  const valueType = canonicalType(body.members.get('value_type'), 'value_type');
  if (keyType === undefined || valueType === undefined || body.members.size > 3) return undefined;
  return `{"key_type":${JSON.stringify(keyType)},"value_type":${JSON.stringify(valueType)},"key":${canonicalJson(key)}}`;
}

function canonicalRawItem(body: JsonObject): string | undefined {
  const key = body.members.get('key');
  if (key === undefined) throw refused('"key" is missing');
  return body.members.size > 1 ? undefined : `{"key":${canonicalJson(key)}}`;
}
