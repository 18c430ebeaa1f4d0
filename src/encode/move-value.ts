/**
 * JSON arguments to BCS (protocol 5.4), never less strict than a node: what is refused here is asked of one anyway, what
 * is written here is signed. Throws `EncodeRefusal` for what nodes refuse, and `Handover` for the few spellings that node
 * versions read differently.
 */
import { Address, type JsonValue, quote } from '../ledger/index.ts';
import type { BcsWriter, IntegerBits } from './bcs.ts';
import type { Layout } from './layout.ts';
import { Handover, EncodeRefusal, type Steps } from './outcome.ts';

/** Writes one argument of a call: the ULEB128 count of its bytes, then the value in BCS. Takes a step for each value. */
export function writeArgument(
  writer: BcsWriter,
  layout: Layout,
  value: JsonValue,
  { index, steps }: { readonly index: number; readonly steps: Steps },
): void {
  const start = writer.beginBytes();
  try {
    writeValue(writer, layout, value, steps);
  } catch (error) {
    if (!(error instanceof EncodeRefusal)) throw error;
    throw invalidArgument(
      `parse arguments[${index}] failed, expect ${jsonName(layout)}, caused by error: ${error.message}`,
    );
  }
  writer.endBytes(start);
}

/** A fault in the meaning of a payload, with the prefix of nodes (protocol 3.4). */
export function invalidArgument(message: string): EncodeRefusal {
  return new EncodeRefusal(
    'invalid_input',
    `The given transaction is invalid: Failed to parse transaction payload: ${message}`,
  );
}

/** The JSON form of a layout, as nodes name it in messages. */
function jsonName(layout: Layout): string {
  switch (layout.kind) {
    case 'bool':
      return 'boolean';
    case 'integer':
      return layout.bits < 64 ? `integer<u${layout.bits}>` : `string<u${layout.bits}>`;
    case 'address':
      return 'string<address>';
    case 'bytes':
      return 'string<hex>';
    case 'string':
      return 'string<0x1::string::String>';
    case 'vector':
      return `array<${jsonName(layout.element)}>`;
    case 'option':
      return 'object<0x1::option::Option>';
    case 'struct':
      return `object<${layout.name}>`;
  }
}

function writeValue(writer: BcsWriter, layout: Layout, value: JsonValue, steps: Steps): void {
  steps.take();
  switch (layout.kind) {
    case 'bool':
      if (typeof value !== 'boolean') throw mismatch(value, 'a boolean');
      writer.bool(value);
      return;
    case 'integer':
      writer.integer(layout.bits < 64 ? readSmall(value, layout.bits) : readLarge(value, layout.bits), layout.bits);
      return;
    case 'address': {
      const text = readText(value);
      const address = Address.find(text);
      if (address === undefined) throw new EncodeRefusal('invalid_input', `Invalid account address: ${quote(text)}`);
      writer.address(address);
      return;
    }
    case 'bytes': {
      const text = readText(value);
      if (!writer.hex(hexDigits(text))) {
        throw new EncodeRefusal('invalid_input', `decode hex-encoded string(${quote(text)}) failed`);
      }
      return;
    }
    case 'string':
      writer.string(readText(value));
      return;
    case 'vector':
      writeItems(writer, layout.element, readItems(value), steps);
      return;
    case 'option':
      writeOption(writer, layout.element, value, steps);
      return;
    case 'struct':
      for (const field of layout.fields) writeValue(writer, field.layout, readMember(value, field.name), steps);
  }
}

function writeItems(writer: BcsWriter, element: Layout, items: readonly JsonValue[], steps: Steps): void {
  writer.sequenceLength(items.length);
  for (const item of items) writeValue(writer, element, item, steps);
}

/**
 * An option is written as the struct `{"vec": vector}`, so an option of u8 holds hex. A node's reading of a second
 * element or a second member is not established, and left to it.
 */
function writeOption(writer: BcsWriter, element: Layout, value: JsonValue, steps: Steps): void {
  const vector = readMember(value, 'vec');
  if (isObject(value) && value.members.size > 1) throw new Handover('doubtful value');
  if (element.kind === 'integer' && element.bits === 8) {
    if (hexDigits(readText(vector)).length > 2) throw new Handover('doubtful value');
    writeValue(writer, { kind: 'bytes' }, vector, steps);
    return;
  }
  const items = readItems(vector);
  if (items.length > 1) throw new Handover('doubtful value');
  writeItems(writer, element, items, steps);
}

function hexDigits(text: string): string {
  return text.startsWith('0x') ? text.slice(2) : text;
}

/** u8, u16, u32: a JSON number written as an integer. `1.0`, `1e0` and `"1"` are none. */
function readSmall(value: JsonValue, bits: IntegerBits): bigint {
  const text = isObjectLike(value) && value.kind === 'number' ? value.text : undefined;
  if (text === undefined) throw mismatch(value, `u${bits}`);
  // Whether -0 is an integer 0 or a fraction depends on how a node keeps its numbers.
  if (text === '-0') throw new Handover('doubtful value');
  const number = /^\d{1,10}$/.test(text) ? BigInt(text) : -1n;
  if (number < 0n || number >> BigInt(bits) !== 0n)
    throw new EncodeRefusal('invalid_input', `invalid number: ${quote(text)}`);
  return number;
}

/** u64, u128, u256: a string of decimal digits, leading zeros and (below 256 bits) one leading plus allowed. */
function readLarge(value: JsonValue, bits: IntegerBits): bigint {
  const text = readText(value);
  const [, plus, digits] = /^(\+?)0*([1-9]\d{0,77}|0)$/.exec(text) ?? [];
  // Older nodes read a u256 with another parser, which refuses a plus and takes an empty text for zero.
  if (bits === 256 && (plus === '+' || text === '')) throw new Handover('doubtful value');
  const number = digits === undefined ? -1n : BigInt(digits);
  if (number < 0n || number >> BigInt(bits) !== 0n) {
    throw new EncodeRefusal('invalid_input', `Parsing U${bits} string ${quote(text)} failed`);
  }
  return number;
}

function readText(value: JsonValue): string {
  if (typeof value !== 'string') throw mismatch(value, 'a string');
  return value;
}

function readItems(value: JsonValue): readonly JsonValue[] {
  if (isObjectLike(value) && value.kind === 'array') return value.items;
  throw mismatch(value, 'an array');
}

/** A struct's field by its name. Members without a field are ignored. */
function readMember(value: JsonValue, name: string): JsonValue {
  if (!isObject(value)) throw mismatch(value, 'an object');
  const member = value.members.get(name);
  if (member === undefined) throw new EncodeRefusal('invalid_input', `field ${name} not found.`);
  return member;
}

type JsonNode = Extract<JsonValue, { kind: string }>;

function isObjectLike(value: JsonValue): value is JsonNode {
  return typeof value === 'object' && value !== null;
}

function isObject(value: JsonValue): value is Extract<JsonNode, { kind: 'object' }> {
  return isObjectLike(value) && value.kind === 'object';
}

function mismatch(value: JsonValue, expected: string): EncodeRefusal {
  const found = isObjectLike(value) ? value.kind : typeof value === 'string' ? `string ${quote(value)}` : String(value);
  return new EncodeRefusal('invalid_input', `invalid type: ${found}, expected ${expected}`);
}
