/**
 * Canonical forms of JSON request bodies. The gateway sends the form to the node, not the client's text: the answer is by
 * construction the answer to the key. A body without a canonical form is sent unchanged, keyed by all its bytes.
 */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { bodyBounds } from '../ledger/body-bounds.ts';
import { GatewayError } from '../ledger/errors.ts';
import { JsonError, parseNodeJson, type JsonFault, type JsonObject, type JsonValue } from '../ledger/json-value.ts';
import { findTypeTag, formatTypeTag } from '../ledger/type-tag.ts';

/** A body as it is keyed and sent. */
export interface CanonicalBody {
  /** Key part: `json:` and the canonical text, or `text:` and a digest of the bytes. */
  readonly subject: string;
  readonly bytes: Buffer;
}

/**
 * The canonical body, of which `canonical` makes the text; `undefined` from it leaves the body as it is.
 *
 * The canonical form only improves sharing. A body that would block the event loop (above 128 kB or 20,000 values) is
 * keyed by its bytes and sent unchanged. `digest`: SHA-256 over `bytes` in base64url, where `digestInTurns` has computed
 * it. Throws `GatewayError` for a body that is no JSON object, and as `canonical` does.
 */
export function canonicalBody(
  bytes: Buffer,
  digest: string | undefined,
  canonical: (body: JsonObject) => string | undefined,
): CanonicalBody {
  const text = bytes.length > bodyBounds.bytes ? undefined : canonicalText(decodeUtf8(bytes), canonical);
  if (text === undefined) return { subject: `text:${digest ?? digestOf(bytes)}`, bytes };
  return { subject: `json:${text}`, bytes: Buffer.from(text) };
}

/** SHA-256 in base64url, in steps that yield the event loop: 8 MiB take 20 ms. */
export async function digestInTurns(bytes: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += bodyBounds.bytes) {
    if (at > 0) await nextTurn();
    hash.update(bytes.subarray(at, at + bodyBounds.bytes));
  }
  return hash.digest('base64url');
}

/** SHA-256 in base64url. */
export function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64url');
}

/** `undefined`: the body goes to the node unchanged. */
function canonicalText(text: string, canonical: (body: JsonObject) => string | undefined): string | undefined {
  try {
    const body = parseNodeJson(text, { maxValues: bodyBounds.values });
    if (body === null || typeof body !== 'object' || body.kind !== 'object') throw refused('an object is expected');
    return canonical(body);
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

/** A type in a body, canonical; `undefined`: a text that only a newer node may parse. Throws `GatewayError` 400. */
export function canonicalType(value: JsonValue | undefined, name: string): string | undefined {
  if (typeof value !== 'string') throw refused(`"${name}" holds something that is not a string`);
  const tag = value.length > bodyBounds.typeCharacters ? undefined : findTypeTag(value);
  return tag === undefined ? undefined : formatTypeTag(tag);
}

/** The error for a body that every node refuses. */
export function refused(why: string): GatewayError {
  return new GatewayError('malformed', `parse request payload error: ${why}`);
}
