/**
 * The canonical form of a view request. What is sent to the node is this form and not the client's text, so the answer
 * is by construction an answer to what the key says.
 */
import { formatFunctionId, findFunctionId } from '../ledger/identifier.ts';
import { GatewayError, quote } from '../ledger/errors.ts';
import { canonicalJson, JsonError, parseJson, type JsonObject, type JsonValue } from '../ledger/json-value.ts';
import { findTypeTag, formatTypeTag } from '../ledger/type-tag.ts';

export type ViewContentType = 'application/json' | 'application/x.aptos.view_function+bcs';

/** A view request as it is keyed and sent. */
export interface ViewBody {
  readonly contentType: ViewContentType;
  /** Key part: starts with `json:`, `text:` or `bcs:`. */
  readonly subject: string;
  readonly bytes: Buffer;
}

/**
 * Canonical body of a view request. Function and type arguments are written canonically; `arguments` by JSON value,
 * with numbers as their source text and strings untouched: without the ABI nobody knows whether `0x1` and `0x01` are
 * one address or two texts (protocol 6).
 *
 * Throws `GatewayError` for what is certainly refused: not JSON, a missing field, an unreadable function.
 */
export function parseViewBody(contentType: ViewContentType, bytes: Buffer): ViewBody {
  // BCS has one spelling per value, so the bytes are the canonical form.
  if (contentType !== 'application/json') return { contentType, subject: `bcs:${bytes.toString('base64url')}`, bytes };
  const text = decodeUtf8(bytes);
  try {
    const canonical = canonicalView(parseJson(text));
    if (canonical !== undefined) return { contentType, subject: `json:${canonical}`, bytes: Buffer.from(canonical) };
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    // A key written twice has no agreed meaning: the node shall see it as it is, under a key of its own.
    if (error.fault !== 'duplicate key') {
      throw new GatewayError('malformed', `parse request payload error: ${error.message}`, { cause: error });
    }
  }
  return { contentType, subject: `text:${text}`, bytes };
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes strictly: a replacement character would make two different bodies alike. */
function decodeUtf8(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (error) {
    throw new GatewayError('malformed', 'parse request payload error: the body is not UTF-8', { cause: error });
  }
}

/** `undefined` for type arguments that only a newer node may understand. */
function canonicalView(body: JsonValue): string | undefined {
  const request = asObject(body);
  if (request === undefined) throw refused('an object is expected');
  const typeArguments = memberList(request, 'type_arguments').map(canonicalTypeArgument);
  if (typeArguments.includes(undefined)) return undefined;
  const list = memberList(request, 'arguments').map(canonicalJson);
  const types = typeArguments.map((type) => JSON.stringify(type));
  return `{"function":"${canonicalFunction(request)}","type_arguments":[${types.join()}],"arguments":[${list.join()}]}`;
}

function canonicalFunction(request: JsonObject): string {
  const text = request.members.get('function');
  if (typeof text !== 'string') throw refused('"function" is missing or not a string');
  const id = findFunctionId(text);
  if (id === undefined) throw refused(`invalid entry function ID ${quote(text)}`);
  return formatFunctionId(id);
}

function canonicalTypeArgument(value: JsonValue): string | undefined {
  if (typeof value !== 'string') throw refused('"type_arguments" holds something that is not a string');
  const tag = findTypeTag(value);
  return tag === undefined ? undefined : formatTypeTag(tag);
}

function memberList(request: JsonObject, name: string): readonly JsonValue[] {
  const value = request.members.get(name);
  if (value === null || typeof value !== 'object' || value.kind !== 'array') {
    throw refused(`"${name}" is missing or not an array`);
  }
  return value.items;
}

function asObject(value: JsonValue): JsonObject | undefined {
  return value !== null && typeof value === 'object' && value.kind === 'object' ? value : undefined;
}

function refused(why: string): GatewayError {
  return new GatewayError('malformed', `parse request payload error: ${why}`);
}
