/** The canonical form of a view request. */
import { bodyBounds } from '../ledger/body-bounds.ts';
import { formatFunctionId, findFunctionId } from '../ledger/identifier.ts';
import { quote } from '../ledger/errors.ts';
import { canonicalJson, type JsonObject, type JsonValue } from '../ledger/json-value.ts';
import { canonicalBody, canonicalType, digestOf, refused, type CanonicalBody } from './canonical-body.ts';

/** Content types of a view request. */
export type ViewContentType = 'application/json' | 'application/x.aptos.view_function+bcs';

/**
 * The canonical body of a view request. Function and type arguments are canonical; `arguments` follow their JSON value,
 * numbers as source text, strings untouched: only the ABI decides whether `0x1` and `0x01` are one address or two texts
 * (protocol 6).
 *
 * `digest`: SHA-256 over `bytes` in base64url, where `digestInTurns` has computed it.
 *
 * Throws `GatewayError` for bodies that every node refuses: not JSON, a missing field, an unreadable function.
 */
export function parseViewBody(contentType: ViewContentType, bytes: Buffer, digest?: string): CanonicalBody {
  // BCS has one spelling per value, so the bytes are the canonical form.
  if (contentType !== 'application/json') return { subject: `bcs:${digest ?? digestOf(bytes)}`, bytes };
  return canonicalBody(bytes, digest, canonicalView);
}

/** `undefined` for type arguments that are too long, or that only a newer node may parse. */
function canonicalView(request: JsonObject): string | undefined {
  const types = memberList(request, 'type_arguments');
  const characters = types.reduce<number>((sum, text) => sum + (typeof text === 'string' ? text.length : 0), 0);
  if (characters > bodyBounds.typeCharacters) return undefined;
  const typeArguments = types.map((text) => canonicalType(text, 'type_arguments'));
  if (typeArguments.includes(undefined)) return undefined;
  const list = memberList(request, 'arguments').map(canonicalJson);
  const typeList = typeArguments.map((type) => JSON.stringify(type)).join();
  return `{"function":"${canonicalFunction(request)}","type_arguments":[${typeList}],"arguments":[${list.join()}]}`;
}

function canonicalFunction(request: JsonObject): string {
  const text = request.members.get('function');
  if (typeof text !== 'string') throw refused('"function" is missing or not a string');
  const id = findFunctionId(text);
  if (id === undefined) throw refused(`invalid entry function ID ${quote(text)}`);
  return formatFunctionId(id);
}

function memberList(request: JsonObject, name: string): readonly JsonValue[] {
  const value = request.members.get(name);
  if (value === null || typeof value !== 'object' || value.kind !== 'array') {
    throw refused(`"${name}" is missing or not an array`);
  }
  return value.items;
}
