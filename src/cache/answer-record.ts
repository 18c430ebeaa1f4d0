/** The bytes that stand for an answer in the slabs of the memory tier: what is beside its body, and the body. */
import type { LedgerVersion } from '../ledger/version.ts';
import type { CachedResponse, Coded } from './entry.ts';

/** Where a record's parts begin; the numbers are little-endian. */
const at = {
  flags: 0,
  contentType: 1,
  status: 2,
  body: 4,
  gasUsed: 8,
  cursor: 10,
  committedAt: 12,
  digest: 20,
  rest: 42,
};
const flag = { immutable: 1, gasUsed: 2, cursor: 4, committedAt: 8 };
const digestChars = 22;
const longestText = 0xff;

/** Content types that have been met: few, or whoever sends others keeps their answers in another way. */
export class ContentTypes {
  readonly #names: string[] = [];
  readonly #numbers = new Map<string, number>();

  /** `undefined`: there are too many already. */
  numberOf(name: string): number | undefined {
    const known = this.#numbers.get(name);
    if (known !== undefined || this.#names.length > 0xff) return known;
    this.#numbers.set(name, this.#names.length);
    return this.#names.push(name) - 1;
  }

  nameOf(number: number): string {
    return this.#names[number] as string;
  }
}

/** Bytes of the answer's record; `undefined` where it has none, because a part of it has no room there. */
export function recordBytes({ gasUsed = '', cursor = '', body, digest, status }: CachedResponse): number | undefined {
  const hasRoom = isShortAscii(gasUsed) && isShortAscii(cursor) && digest.length === digestChars && status <= 0xffff;
  return hasRoom ? at.rest + gasUsed.length + cursor.length + body.length : undefined;
}

/** Writes the record of an answer that has one. */
export function writeRecord(bytes: Buffer, offset: number, answer: CachedResponse, contentType: number): void {
  const { gasUsed, cursor, committedAt, body, isImmutable } = answer;
  let flags = isImmutable ? flag.immutable : 0;
  if (gasUsed !== undefined) flags |= flag.gasUsed;
  if (cursor !== undefined) flags |= flag.cursor;
  if (committedAt !== undefined) flags |= flag.committedAt;
  bytes[offset + at.flags] = flags;
  bytes[offset + at.contentType] = contentType;
  bytes.writeUInt16LE(answer.status, offset + at.status);
  bytes.writeUInt32LE(body.length, offset + at.body);
  bytes[offset + at.gasUsed] = gasUsed?.length ?? 0;
  bytes[offset + at.cursor] = cursor?.length ?? 0;
  if (committedAt !== undefined) bytes.writeBigUInt64LE(committedAt, offset + at.committedAt);
  bytes.write(answer.digest, offset + at.digest, 'latin1');
  let next = offset + at.rest;
  if (gasUsed !== undefined) next += bytes.write(gasUsed, next, 'latin1');
  if (cursor !== undefined) next += bytes.write(cursor, next, 'latin1');
  body.copy(bytes, next);
}

/** Whether the record is of the answer with this digest. */
export function hasDigest(bytes: Buffer, offset: number, digest: string): boolean {
  const from = offset + at.digest;
  for (let index = 0; index < digestChars; index += 1) {
    if (bytes[from + index] !== digest.charCodeAt(index)) return false;
  }
  return digest.length === digestChars;
}

/** What a record does not say of its answer. */
interface Beside {
  readonly types: ContentTypes;
  readonly coded: Coded;
}

/** Reads a record. The body is a copy: what the block holds next must not show in an answer that is still being sent. */
export function readRecord(bytes: Buffer, offset: number, { types, coded }: Beside): CachedResponse {
  const flags = byteAt(bytes, offset + at.flags);
  const gasUsed = offset + at.rest;
  const cursor = gasUsed + byteAt(bytes, offset + at.gasUsed);
  const body = cursor + byteAt(bytes, offset + at.cursor);
  const has = (part: number): boolean => (flags & part) !== 0;
  const copy = Buffer.allocUnsafe(bodyLength(bytes, offset));
  bytes.copy(copy, 0, body, body + copy.length);
  return {
    status: bytes.readUInt16LE(offset + at.status),
    contentType: types.nameOf(byteAt(bytes, offset + at.contentType)),
    body: copy,
    gasUsed: has(flag.gasUsed) ? bytes.toString('latin1', gasUsed, cursor) : undefined,
    cursor: has(flag.cursor) ? bytes.toString('latin1', cursor, body) : undefined,
    committedAt: has(flag.committedAt) ? (bytes.readBigUInt64LE(offset + at.committedAt) as LedgerVersion) : undefined,
    isImmutable: has(flag.immutable),
    digest: bytes.toString('latin1', offset + at.digest, gasUsed),
    coded,
  };
}

/** Where the body of a record begins. */
export function bodyOffset(bytes: Buffer, offset: number): number {
  return offset + at.rest + byteAt(bytes, offset + at.gasUsed) + byteAt(bytes, offset + at.cursor);
}

/** Bytes of the body of a record. */
export function bodyLength(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset + at.body);
}

function byteAt(bytes: Buffer, index: number): number {
  return bytes[index] as number;
}

/** ASCII has as many bytes as characters. */
function isShortAscii(text: string): boolean {
  return text.length <= longestText && Buffer.byteLength(text) === text.length;
}
