/**
 * Canonical forms of JSON request bodies. The gateway sends the form to the node, not the client's text: the answer is by
 * construction the answer to the key. A body without a canonical form is sent unchanged, keyed by all its bytes.
 */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  Address,
  FunctionId,
  GatewayError,
  isIdentifier,
  JsonError,
  type JsonObject,
  JsonValue,
  quote,
  TypeTag,
} from '../../ledger/index.ts';

/** A body as it is keyed and sent. */
export interface CanonicalBody {
  /** Key part: `json:` and the canonical text, or `text:` and a digest of the bytes. */
  readonly subject: string;
  readonly bytes: Buffer;
  /** Canonical name of a view's function; `undefined`: the body does not show it beyond doubt. */
  readonly functionId: string | undefined;
}

/** Makes the canonical text of a body; `undefined` leaves the body as it is. Throws `GatewayError`. */
type Canonical = (body: JsonObject) => { readonly text: string; readonly functionId?: string } | undefined;

/**
 * Largest body with a canonical form, in bytes. The form only improves sharing, nearly every body of clients has less than
 * half of this, and a parse holds up all other clients: this much takes some 0.4 ms at worst, 100 kB took 2 to 8.
 */
export const canonicalBytes = 8 * 1024;
/** Largest view that is parsed for a client with rights by function, in bytes: it takes some 3 ms at worst. */
const restrictedBytes = 64 * 1024;
/** Smaller bodies are worked on outside of `bodyTurns`, in bytes: nearly all, and the work takes less than 0.1 ms. */
export const turnlessBytes = 2 * 1024;
/** Bytes that are digested at once: 0.1 ms. */
export const digestedBytes = 128 * 1024;

/**
 * A body above `parsedBytes` is sent unchanged, and one above `canonicalBytes` is keyed by its bytes, for clients with and
 * without rights by function alike. `digest`: of `digestInTurns`, where it has run. Throws `GatewayError` for a body that is
 * no JSON object.
 */
function canonicalBody(
  bytes: Buffer,
  digest: string | undefined,
  canonical: Canonical,
  parsedBytes = canonicalBytes,
): CanonicalBody {
  const found = bytes.length > parsedBytes ? undefined : canonicalText(bytes, canonical);
  const isShort = bytes.length <= canonicalBytes;
  const subject = found !== undefined && isShort ? `json:${found.text}` : `text:${digest ?? digestOf(bytes)}`;
  return { subject, bytes: found === undefined ? bytes : Buffer.from(found.text), functionId: found?.functionId };
}

/** SHA-256 in base64url, in steps that yield the event loop: 8 MiB take 20 ms. */
export async function digestInTurns(bytes: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += digestedBytes) {
    if (at > 0) await nextTurn();
    hash.update(bytes.subarray(at, at + digestedBytes));
  }
  return hash.digest('base64url');
}

function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64url');
}

function canonicalText(bytes: Buffer, canonical: Canonical): ReturnType<Canonical> {
  try {
    const body = JsonValue.parseOfNodes(textOf(bytes));
    if (body === null || typeof body !== 'object' || body.kind !== 'object') throw refused('an object is expected');
    return canonical(body);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    if (leftToNodes.has(error.fault)) return undefined;
    throw refused(error.message, error);
  }
}

/**
 * Faults that leave the body to the node, unchanged and keyed by its bytes: a duplicate key has no agreed meaning, a
 * reserved key changes its meaning when members are sorted, and some nodes refuse the last two even in a member that
 * the canonical form leaves out. Only a body above `canonicalBytes` has more values than are parsed here.
 */
const leftToNodes: ReadonlySet<JsonError['fault']> = new Set([
  'duplicate key',
  'reserved key',
  'lone surrogate',
  'number out of range',
  'too many values',
]);

/** Strict, because a replacement character would make two different bodies equal. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The bytes as text; `undefined` unless they are UTF-8. */
export function findText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw refused('the body is not UTF-8', cause);
  }
}

/** A type in a body, canonical; `undefined`: a text that only a newer node may parse. */
function canonicalType(value: JsonValue | undefined, name: string): string | undefined {
  if (typeof value !== 'string') throw refused(`"${name}" holds something that is not a string`);
  const tag = TypeTag.find(value);
  return tag === undefined ? undefined : TypeTag.format(tag);
}

/** The error for a body that every node refuses. */
function refused(why: string, cause?: unknown): GatewayError {
  return new GatewayError('malformed', `parse request payload error: ${why}`, { cause });
}

/** Content types of a view request. */
export type ViewContentType = 'application/json' | 'application/x.aptos.view_function+bcs';

/**
 * The canonical body of a view request. Function and type arguments are canonical; `arguments` follow their JSON value,
 * numbers as source text, strings untouched: only the ABI decides whether `0x1` and `0x01` are one address or two texts
 * (protocol 6). For a client with rights by function (`isRestricted`) larger bodies are parsed, too. Throws `GatewayError`
 * for bodies that every node refuses: not JSON, a missing field, an unreadable function.
 */
export function parseViewBody(
  contentType: ViewContentType,
  bytes: Buffer,
  { digest, isRestricted = false }: { digest?: string | undefined; isRestricted?: boolean | undefined } = {},
): CanonicalBody {
  // BCS has one spelling per value, so the bytes are the canonical form.
  if (contentType !== 'application/json')
    return { subject: `bcs:${digest ?? digestOf(bytes)}`, bytes, functionId: functionInBcs(bytes) };
  return canonicalBody(bytes, digest, canonicalView, isRestricted ? restrictedBytes : canonicalBytes);
}

/** `undefined` for type arguments that only a newer node may parse. */
function canonicalView(request: JsonObject): ReturnType<Canonical> {
  const typeArguments = memberList(request, 'type_arguments').map((text) => canonicalType(text, 'type_arguments'));
  if (typeArguments.includes(undefined)) return undefined;
  const list = memberList(request, 'arguments').map((value) => JsonValue.canonical(value));
  const typeList = typeArguments.map((type) => JSON.stringify(type)).join();
  const functionId = canonicalFunction(request);
  return {
    text: `{"function":"${functionId}","type_arguments":[${typeList}],"arguments":[${list.join()}]}`,
    functionId,
  };
}

function canonicalFunction(request: JsonObject): string {
  const text = request.members.get('function');
  if (typeof text !== 'string') throw refused('"function" is missing or not a string');
  const id = FunctionId.find(text);
  if (id === undefined) throw refused(`invalid entry function ID ${quote(text)}`);
  return FunctionId.format(id);
}

const addressBytes = 32;

/**
 * The function of a view in BCS: an address, then the names of module and function (protocol 6). `undefined`: a node may
 * read it otherwise.
 */
function functionInBcs(bytes: Buffer): string | undefined {
  const module = nameAt(bytes, addressBytes);
  const called = module && nameAt(bytes, module.end);
  if (module === undefined || called === undefined) return undefined;
  const address = Address.ofDigits(bytes.toString('hex', 0, addressBytes));
  return FunctionId.format({ address, module: module.name, name: called.name });
}

/** A name behind its length in ULEB128, in its only form. Names above 16 kB are of no module. */
function nameAt(bytes: Buffer, at: number): { readonly name: string; readonly end: number } | undefined {
  const [low = 0, high = 0] = bytes.subarray(at, at + 2);
  const isLong = low >= 0x80;
  // A zero behind it would be a second form of a shorter length.
  if (isLong && (high === 0 || high >= 0x80)) return undefined;
  const from = at + (isLong ? 2 : 1);
  const end = from + (isLong ? (low & 0x7f) + (high << 7) : low);
  const name = end > bytes.length ? '' : bytes.toString('latin1', from, end);
  return isIdentifier(name) ? { name, end } : undefined;
}

function memberList(request: JsonObject, name: string): readonly JsonValue[] {
  const value = request.members.get(name);
  if (value === null || typeof value !== 'object' || value.kind !== 'array') {
    throw refused(`"${name}" is missing or not an array`);
  }
  return value.items;
}

/**
 * The canonical body of a request for a table item (protocol 1, rows 15 and 16): key and value types as type tags; the key
 * by its JSON value, numbers as source text, strings untouched, because only the type decides whether `0x1` and `0x01` are
 * one key. A member that the gateway does not know leaves the body as it is. Throws `GatewayError` for bodies that every
 * node refuses.
 */
export function parseTableBody(
  operation: 'table_item' | 'raw_table_item',
  bytes: Buffer,
  digest: string | undefined,
): CanonicalBody {
  return canonicalBody(bytes, digest, operation === 'table_item' ? canonicalItem : canonicalRawItem);
}

function canonicalItem(body: JsonObject): ReturnType<Canonical> {
  const key = body.members.get('key');
  if (key === undefined) throw refused('"key" is missing');
  const keyType = canonicalType(body.members.get('key_type'), 'key_type');
  const valueType = canonicalType(body.members.get('value_type'), 'value_type');
  if (keyType === undefined || valueType === undefined || body.members.size > 3) return undefined;
  const types = `"key_type":${JSON.stringify(keyType)},"value_type":${JSON.stringify(valueType)}`;
  return { text: `{${types},"key":${JsonValue.canonical(key)}}` };
}

function canonicalRawItem(body: JsonObject): ReturnType<Canonical> {
  const key = body.members.get('key');
  if (key === undefined) throw refused('"key" is missing');
  return body.members.size > 1 ? undefined : { text: `{"key":${JsonValue.canonical(key)}}` };
}
