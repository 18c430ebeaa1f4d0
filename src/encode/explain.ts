/** A signing message taken apart field by field, as a person reads it: from the finished bytes, not from the writer. */
import { encodeToHex, prepareSubmission, type EncodeContext } from './encode-submission.ts';
import type { Layout } from './layout.ts';
import { unencodedBy, type Unencoded } from './outcome.ts';
import { payloadVariant, type PreparedCall, type PreparedSubmission } from './transaction.ts';
import { canonicalAddress } from '../ledger/index.ts';
import type { IntegerBits } from './bcs.ts';

/** One field of the bytes, named and explained. */
export interface ExplainedPart {
  /** Lowercase, without `0x`. */
  readonly hex: string;
  readonly field: string;
  readonly meaning: string;
}

/** The parts of a signing message in order, or the outcome that there is none. */
export type SubmissionExplanation =
  { readonly kind: 'explained'; readonly hex: string; readonly parts: readonly ExplainedPart[] } | Unencoded;

/** Encodes the request and takes the bytes apart. Rejects as `loadModule` does, or with a `RangeError`. */
export async function explainSubmission(bodyText: string, context: EncodeContext): Promise<SubmissionExplanation> {
  try {
    const transaction = await prepareSubmission(bodyText, context);
    const hex = encodeToHex(transaction, context);
    const reader = new PartReader(Buffer.from(hex.slice(2), 'hex'));
    readMessage(reader, transaction, context.signingDomain);
    return { kind: 'explained', hex, parts: reader.end() };
  } catch (error) {
    return unencodedBy(error);
  }
}

/** The parts as a table for a terminal: offset, bytes (32 a line), field and meaning. */
export function formatExplanation(parts: readonly ExplainedPart[]): string {
  const lines: string[] = [];
  let offset = 0;
  for (const { hex, field, meaning } of parts) {
    const [first = '', ...rest] = hex.match(/.{1,64}/g) ?? [];
    lines.push(`${String(offset).padStart(6)}  ${first.padEnd(64)}  ${field}: ${meaning}`);
    for (const line of rest) lines.push(`${' '.repeat(8)}${line}`);
    offset += hex.length / 2;
  }
  return `${lines.join('\n')}\n`;
}

function readMessage(reader: PartReader, transaction: PreparedSubmission, domain: string): void {
  const isMultiAgent = transaction.submission.secondarySigners !== undefined;
  const label = isMultiAgent ? 'RawTransactionWithData' : 'RawTransaction';
  reader.raw(32, 'prefix', `SHA3-256 of "${domain}::${label}"`);
  if (isMultiAgent) reader.variant('kind', ['multi-agent without fee payer']);
  readRawTransaction(reader, transaction);
  if (!isMultiAgent) return;
  const count = reader.length('secondary signers', 'addresses');
  for (let at = 0; at < count; at += 1) reader.address(`secondary signer ${at}`);
}

function readRawTransaction(reader: PartReader, { submission, prepared }: PreparedSubmission): void {
  reader.address('sender');
  const note = submission.nonce === undefined ? '' : ', the largest, because a nonce takes its place';
  reader.integer(64, 'sequence number', note);
  const kinds = ['script', 'module bundle', 'entry function', 'multisig', 'versioned payload'];
  const kind = reader.variant('payload', kinds);
  if (kind === payloadVariant.entryFunction) {
    readEntryFunction(reader, prepared);
  } else if (kind === payloadVariant.multisig) {
    reader.address('multisig account');
    if (reader.isSome('multisig payload')) {
      reader.variant('multisig payload', ['entry function']);
      readEntryFunction(reader, prepared);
    }
  } else {
    readVersionedPayload(reader, prepared);
  }
  reader.integer(64, 'max gas amount');
  reader.integer(64, 'gas unit price');
  const expiration = Number(submission.expirationTimestampSecs) * 1000;
  const date = new Date(expiration);
  reader.integer(64, 'expiration', Number.isNaN(date.getTime()) ? ' seconds' : ` seconds, ${date.toISOString()}`);
  reader.integer(8, 'chain id');
}

function readVersionedPayload(reader: PartReader, prepared: PreparedCall | undefined): void {
  reader.variant('versioned payload', ['V1']);
  const executables = ['script', 'entry function', 'nothing'];
  if (executables[reader.variant('executable', executables)] === 'entry function') readEntryFunction(reader, prepared);
  reader.variant('extra config', ['V1']);
  if (reader.isSome('multisig account')) reader.address('multisig account');
  if (reader.isSome('nonce')) reader.integer(64, 'nonce');
}

function readEntryFunction(reader: PartReader, prepared: PreparedCall | undefined): void {
  reader.address('module address');
  reader.string('module name');
  reader.string('function name');
  const tags = reader.length('type arguments', 'types');
  for (let at = 0; at < tags; at += 1) readTypeTag(reader, `type argument ${at}`);
  const count = reader.length('arguments', 'values');
  for (let at = 0; at < count; at += 1) {
    const field = `argument ${at}, ${prepared?.function.parameters?.[at]?.text ?? ''}`;
    reader.length(field, 'bytes');
    const layout = prepared?.layouts[at];
    if (layout === undefined) throw new RangeError(`no layout for ${field}`);
    readValue(reader, layout, field);
  }
}

const typeTags = ['bool', 'u8', 'u64', 'u128', 'address', 'signer', 'vector', 'struct', 'u16', 'u32', 'u256'];

function readTypeTag(reader: PartReader, field: string): void {
  const kind = typeTags[reader.variant(field, typeTags)];
  if (kind === 'vector') readTypeTag(reader, `${field}, element`);
  if (kind !== 'struct') return;
  reader.address(`${field}, address`);
  reader.string(`${field}, module`);
  reader.string(`${field}, name`);
  const count = reader.length(`${field}, type arguments`, 'types');
  for (let at = 0; at < count; at += 1) readTypeTag(reader, `${field}.${at}`);
}

function readValue(reader: PartReader, layout: Layout, field: string): void {
  switch (layout.kind) {
    case 'bool':
      reader.variant(field, ['false', 'true']);
      return;
    case 'integer':
      reader.integer(layout.bits, field);
      return;
    case 'address':
      reader.address(field);
      return;
    case 'bytes':
      reader.raw(reader.length(field, 'bytes'), field, 'bytes');
      return;
    case 'string':
      reader.string(field);
      return;
    case 'vector':
    case 'option': {
      const count = reader.length(field, layout.kind === 'option' ? 'value, of at most one' : 'elements');
      for (let at = 0; at < count; at += 1) readValue(reader, layout.element, `${field}[${at}]`);
      return;
    }
    case 'struct':
      for (const member of layout.fields) readValue(reader, member.layout, `${field}.${member.name}`);
  }
}

/** The reading half of BCS: every method takes one part from the front; it throws `RangeError` where bytes do not match. */
class PartReader {
  readonly #bytes: Buffer;
  readonly #parts: ExplainedPart[] = [];
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** All parts, once nothing is left over. */
  end(): readonly ExplainedPart[] {
    if (this.#at !== this.#bytes.length) throw new RangeError(`${this.#bytes.length - this.#at} bytes left over`);
    return this.#parts;
  }

  /** `count` bytes; none make no part. */
  raw(count: number, field: string, meaning: string): void {
    const bytes = this.#take(count);
    if (count > 0) this.#note(bytes, field, meaning);
  }

  /** 32 bytes. */
  address(field: string): void {
    const bytes = this.#take(32);
    this.#note(bytes, field, canonicalAddress(bytes.toString('hex')));
  }

  /** Little-endian; `note` follows the decimal number. */
  integer(bits: IntegerBits, field: string, note = ''): void {
    const bytes = this.#take(bits / 8);
    this.#note(bytes, field, `u${bits} ${BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)}${note}`);
  }

  /** One byte that chooses among `names`; answers with its number. */
  variant(field: string, names: readonly string[]): number {
    const bytes = this.#take(1);
    const variant = bytes.readUInt8();
    const name = names[variant];
    if (name === undefined) throw new RangeError(`${field}: no variant ${variant}`);
    this.#note(bytes, field, `${variant}, ${name}`);
    return variant;
  }

  /** The byte before an optional value. */
  isSome(field: string): boolean {
    return this.variant(field, ['none', 'some']) === 1;
  }

  /** A ULEB128 count of `what`. */
  length(field: string, what: string): number {
    const start = this.#at;
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#take(1).readUInt8();
      value += (byte % 128) * factor;
      if (byte < 128) break;
      if (factor > 128 ** 3) throw new RangeError(`${field}: a length of more than five bytes`);
    }
    this.#note(this.#bytes.subarray(start, this.#at), field, `${value} ${what}`);
    return value;
  }

  /** A ULEB128 count and so many bytes of UTF-8. */
  string(field: string): void {
    const bytes = this.#take(this.length(field, 'bytes of text'));
    if (bytes.length > 0) this.#note(bytes, field, JSON.stringify(bytes.toString()));
  }

  #take(count: number): Buffer {
    const end = this.#at + count;
    if (end > this.#bytes.length) throw new RangeError(`${count} bytes expected at ${this.#at}`);
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  #note(bytes: Buffer, field: string, meaning: string): void {
    this.#parts.push({ hex: bytes.toString('hex'), field, meaning });
  }
}
