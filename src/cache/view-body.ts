/**
 * The canonical form of a view request. What is sent to the node is this form and not the client's text, so the answer
 * is by construction an answer to what the key says; a body without one is sent as it came, under a key of all its
 * bytes.
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

export type ViewContentType = 'application/json' | 'application/x.aptos.view_function+bcs';

/** A view request as it is keyed and sent. */
export interface ViewBody {
  readonly contentType: ViewContentType;
  /** Key part: `json:` and the canonical text, or `text:` or `bcs:` and a digest of the bytes. */
  readonly subject: string;
  readonly bytes: Buffer;
}

/**
 * Canonical body of a view request. Function and type arguments are written canonically; `arguments` by JSON value,
 * with numbers as their source text and strings untouched: without the ABI nobody knows whether `0x1` and `0x01` are
 * one address or two texts (protocol 6).
 *
 * A canonical form is only a gain in sharing: what has none here, or would hold up everybody else while it is made, is
 * keyed by its bytes and sent as it came. That is every JSON body above 128 kB, with more than 20,000 values, or with
 * more than 16,384 characters of type arguments.
 *
 * `digest`: SHA-256 over all of `bytes` in base64url, where it is known already (`digestInTurns`).
 *
 * Throws `GatewayError` for what is certainly refused: not JSON, a missing field, an unreadable function.
 */
export function parseViewBody(contentType: ViewContentType, bytes: Buffer, digest?: string): ViewBody {
  // BCS has one spelling per value, so the bytes are the canonical form.
  if (contentType !== 'application/json') return { contentType, subject: `bcs:${digest ?? digestOf(bytes)}`, bytes };
  const canonical = bytes.length > bodyBounds.bytes ? undefined : canonicalText(decodeUtf8(bytes));
  if (canonical === undefined) return { contentType, subject: `text:${digest ?? digestOf(bytes)}`, bytes };
  return { contentType, subject: `json:${canonical}`, bytes: Buffer.from(canonical) };
}

/** The digest of a body that is too large to be hashed at once, for `parseViewBody`: 8 MiB take 20 ms and more. */
export async function digestInTurns(bytes: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += bodyBounds.bytes) {
    if (at > 0) await nextTurn();
    hash.update(bytes.subarray(at, at + bodyBounds.bytes));
  }
  return hash.digest('base64url');
}

/** Bodies reach 8 MB, and a key shall not: SHA-256 over all of it. */
function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64url');
}

/** `undefined` where the node shall see the body as it came. */
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
 * A key written twice has no agreed meaning, a reserved one has another where it stands first than where members are
 * sorted, and the last two are refused as a whole by some nodes, also in a member that the canonical form leaves out:
 * a node reads the body as it came, under a key of its own.
 */
const leftToNodes: ReadonlySet<JsonFault> = new Set([
  'duplicate key',
  'reserved key',
  'too many values',
  'lone surrogate',
  'number out of range',
]);

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes strictly: a replacement character would make two different bodies alike. */
function decodeUtf8(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (error) {
    throw new GatewayError('malformed', 'parse request payload error: the body is not UTF-8', { cause: error });
  }
}

/** `undefined` for type arguments that are too long, or that only a newer node may understand. */
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
