/**
 * The canonical form of a view request. The gateway sends this form to the node, not the client's text: the answer is
 * by construction the answer to the key. A body without a canonical form is sent unchanged, keyed by all its bytes.
 */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { bodyBounds } from '../ledger/body-bounds.ts';
import { formatFunctionId, findFunctionId } from '../ledger/identifier.ts';
import { GatewayError, quote } from '../ledger/errors.ts';
import {
  canonicalJson,
  JsonError,
  parseNodeJson,
  type JsonFault,
  type JsonObject,
  type JsonValue,
} from '../ledger/json-value.ts';
import { findTypeTag, formatTypeTag } from '../ledger/type-tag.ts';

/** Content types of a view request. */
export type ViewContentType = 'application/json' | 'application/x.aptos.view_function+bcs';

/** A view request as it is keyed and sent. */
interface ViewBody {
  readonly contentType: ViewContentType;
  /** Key part: `json:` and the canonical text, or `text:` or `bcs:` and a digest of the bytes. */
  readonly subject: string;
  readonly bytes: Buffer;
}

/**
 * The canonical body of a view request. Function and type arguments are canonical; `arguments` follow their JSON value,
 * numbers as source text, strings untouched: only the ABI decides whether `0x1` and `0x01` are one address or two texts
 * (protocol 6).
 *
 * The canonical form only improves sharing. A JSON body that would block the event loop (above 128 kB, 20,000 values,
 * or 16,384 characters of type arguments) is keyed by its bytes and sent unchanged.
 *
 * `digest`: SHA-256 over `bytes` in base64url, where `digestInTurns` has computed it.
 *
 * Throws `GatewayError` for bodies that every node refuses: not JSON, a missing field, an unreadable function.
 */
export function parseViewBody(contentType: ViewContentType, bytes: Buffer, digest?: string): ViewBody {
  // BCS has one spelling per value, so the bytes are the canonical form.
  if (contentType !== 'application/json') return { contentType, subject: `bcs:${digest ?? digestOf(bytes)}`, bytes };
  const canonical = bytes.length > bodyBounds.bytes ? undefined : canonicalText(decodeUtf8(bytes));
  if (canonical === undefined) return { contentType, subject: `text:${digest ?? digestOf(bytes)}`, bytes };
  return { contentType, subject: `json:${canonical}`, bytes: Buffer.from(canonical) };
}

/** SHA-256 in base64url for `parseViewBody`, in steps that yield the event loop: 8 MiB take 20 ms. */
export async function digestInTurns(bytes: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += bodyBounds.bytes) {
    if (at > 0) await nextTurn();
    hash.update(bytes.subarray(at, at + bodyBounds.bytes));
  }
  return hash.digest('base64url');
}

function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64url');
}

/** `undefined`: the body goes to the node unchanged. */
function canonicalText(text: string): string | undefined {
  try {
    return canonicalView(parseNodeJson(text, { maxValues: bodyBounds.values }));
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    if (leftToNodes.has(error.fault)) return undefined;
    throw new GatewayError('malformed', `parse request payload error: ${error.message}`, { cause: error });
  }
}

/**
 * Faults that leave the body to the node, unchanged and keyed by its bytes: a duplicate key has no agreed meaning, a
 * reserved key changes its meaning when members are sorted, and some nodes refuse the last two even in a member that
 * the canonical form leaves out.
 */
const leftToNodes: ReadonlySet<JsonFault> = new Set([
  'duplicate key',
  'reserved key',
  'too many values',
  'lone surrogate',
  'number out of range',
]);

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Strict: a replacement character would make two different bodies equal. */
function decodeUtf8(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (error) {
    throw new GatewayError('malformed', 'parse request payload error: the body is not UTF-8', { cause: error });
  }
}

/** `undefined` for type arguments that are too long, or that only a newer node may parse. */
function canonicalView(body: JsonValue): string | undefined {
  const request = asObject(body);
  if (request === undefined) throw refused('an object is expected');
  const types = memberList(request, 'type_arguments').map(typeText);
  if (types.reduce((sum, text) => sum + text.length, 0) > bodyBounds.typeCharacters) return undefined;
  const typeArguments = types.map(canonicalTypeArgument);
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

function typeText(value: JsonValue): string {
  if (typeof value !== 'string') throw refused('"type_arguments" holds something that is not a string');
  return value;
}

function canonicalTypeArgument(text: string): string | undefined {
  const tag = findTypeTag(text);
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
