/**
 * Answers of a sample node before they are written, and the form that `Accept` selects (protocol 2.3). In BCS, numbers,
 * lengths, lists and options are real; the values inside are stand-ins, because a sample node has no encoder for Move types.
 */
import { createHash } from 'node:crypto';

/** One answer to a client. `ledgerHeaders`: whether the seven headers go with it (protocol 2.2). */
export interface SampleAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly ledgerHeaders: boolean;
  /** Set on answers of `/view` only. */
  readonly gasUsed?: bigint;
  /** Set on pages of resources and modules after which more remains. */
  readonly cursor?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Form of an answer that `Accept` selects. */
export type AcceptForm = 'json' | 'bcs';

const jsonType = 'application/json; charset=utf-8';
const bcsType = 'application/x-bcs';

/**
 * The first entry by falling q whose text is exactly one of the two types; anything else is JSON, never a 406
 * (protocol 2.3). An entry with parameters is sorted by its q but then not recognised.
 */
export function negotiate(accept: string | undefined): AcceptForm {
  const entries = (accept ?? '').split(',').map((text) => ({ text: text.trim().toLowerCase(), q: quality(text) }));
  for (const { text } of entries.sort((a, b) => b.q - a.q)) {
    if (text === 'application/json') return 'json';
    if (text === bcsType) return 'bcs';
  }
  return 'json';
}

function quality(entry: string): number {
  const q = /;\s*q=([0-9.]+)/i.exec(entry)?.[1];
  return q === undefined ? 1 : Number(q);
}

/** A JSON answer with ledger headers. */
export function jsonAnswer(body: string, status = 200): SampleAnswer {
  return { status, contentType: jsonType, body, ledgerHeaders: true };
}

/** The JSON text in the form asked for. `bcs`: the bytes of types whose frame a client can read. */
export function answerIn(form: AcceptForm, body: string, bcs?: () => Uint8Array): SampleAnswer {
  return form === 'json' ? jsonAnswer(body) : bcsAnswer(bcs?.() ?? standInBytes(body));
}

/** A BCS answer with ledger headers. */
export function bcsAnswer(body: Uint8Array): SampleAnswer {
  return { status: 200, contentType: bcsType, body, ledgerHeaders: true };
}

/** 32 bytes that depend on nothing but `json`: two states differ in BCS wherever they differ in JSON. */
export function standInBytes(json: string): Buffer {
  return createHash('sha256').update(json).digest();
}

/** A u64, little-endian. */
export function u64Bytes(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

/** A `HashValue`: its 32 bytes behind their length. `hash`: `0x` and 64 hex digits. */
export function hashBytes(hash: string): Buffer {
  return Buffer.concat([lengthBytes(32), Buffer.from(hash.slice(2), 'hex')]);
}

/** A length or a variant as ULEB128. */
export function lengthBytes(length: number): Buffer {
  const bytes: number[] = [];
  let rest = length;
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** A vector: the count, then the items. */
export function listBytes(items: readonly Uint8Array[]): Buffer {
  return Buffer.concat([lengthBytes(items.length), ...items]);
}

/** An option: 0, or 1 and the value. */
export function optionBytes(value: Uint8Array | undefined): Buffer {
  return value === undefined ? Buffer.from([0]) : Buffer.concat([Buffer.from([1]), value]);
}
