/** Made-up values: each as JSON in a spelling that nodes take, and as the value the reference encoder takes. */
import type { Random } from '../support/random.ts';
import { address } from './generate-name.ts';
import type { ReferenceType } from './reference.ts';

/** The type of a value. */
export interface ValueType {
  readonly type: ReferenceType;
  /** Types of the elements of a vector or an option, or of the fields of a struct. */
  readonly inner: readonly ValueType[];
  readonly fieldNames: readonly string[];
}

export interface GeneratedValue {
  readonly json: string;
  readonly value: unknown;
}

const texts = ['', 'a', 'hé', '漢字', '😀', '\u0000nul', '"\\/\n', 'x'.repeat(127), 'é'.repeat(64), '0x01', '\u2028'];

/** `nested`: inside of a vector, an option or a struct, where an object is written as a struct. */
export function generateValue(random: Random, generated: ValueType, nested: boolean): GeneratedValue {
  const { type } = generated;
  switch (type.kind) {
    case 'bool': {
      const value = random.chance(2);
      return { json: String(value), value };
    }
    case 'integer': {
      const value = random.integer(type.bits);
      if (type.bits < 64) return { json: String(value), value: Number(value) };
      return { json: type.bits === 256 ? `"${value}"` : spellU64(random, value), value };
    }
    case 'address': {
      const value = address(random);
      return { json: JSON.stringify(spellAddress(random, value)), value };
    }
    case 'object': {
      const value = address(random);
      const json = JSON.stringify(spellAddress(random, value));
      return { json: nested ? `{"inner":${json}}` : json, value };
    }
    case 'string': {
      const value = random.pick(texts);
      return { json: spellString(random, value), value };
    }
    case 'vector': {
      const [element] = generated.inner;
      if (isByte(element!)) return bytes(random, lengthOf(random));
      const items = Array.from({ length: itemCount(random, element!) }, () => generateValue(random, element!, true));
      return { json: `[${items.map(({ json }) => json).join(',')}]`, value: items.map(({ value }) => value) };
    }
    case 'option': {
      const [element] = generated.inner;
      if (random.chance(3)) return { json: isByte(element!) ? '{"vec":"0x"}' : '{"vec":[]}', value: { none: null } };
      const some = generateValue(random, element!, true);
      const hex = Number(some.value).toString(16).padStart(2, '0');
      return { json: isByte(element!) ? `{"vec":"0x${hex}"}` : `{"vec":[${some.json}]}`, value: { some: some.value } };
    }
    case 'struct': {
      const fields = generated.inner.map((field) => generateValue(random, field, true));
      const members = fields.map(({ json }, at): [string, string] => [generated.fieldNames[at]!, json]);
      return { json: spellObject(random, members), value: fields.map(({ value }) => value) };
    }
    case 'signer':
      throw new Error('a signer is no argument');
  }
}

/** JSON that no node takes for this type as a whole parameter. */
export function generateInvalid(random: Random, { type, inner }: ValueType): string {
  switch (type.kind) {
    case 'bool':
      return random.pick(['"true"', '1', 'null', '[]', '{}']);
    case 'integer': {
      const above = String(1n << BigInt(type.bits));
      if (type.bits < 64) return random.pick([above, '-1', '1.0', '1e0', '10e-1', '"1"', 'null', '[1]', 'true', '1E2']);
      return random.pick([
        `"${above}"`,
        '"-1"',
        '1',
        '" 1"',
        '"1.0"',
        '"0x1"',
        '"1e0"',
        'null',
        '"1_0"',
        '"++1"',
        '["1"]',
      ]);
    }
    case 'address':
      return random.pick([
        `"0x${'1'.repeat(65)}"`,
        '"0X1"',
        '""',
        '"0x"',
        '"zz"',
        '1',
        '" 0x1"',
        '"-1"',
        '{"inner":"0x1"}',
      ]);
    case 'object':
      return random.pick(['{"inner":"0x1"}', '""', '"0x"', '1', 'null', '["0x1"]']);
    case 'string':
      return random.pick(['5', 'null', 'true', '["a"]', '{"bytes":"0x61"}', '"\\ud800"', '"a\\udc00"']);
    case 'vector':
      if (isByte(inner[0]!))
        return random.pick(['[1,2]', '"0x1"', '"0xzz"', '"0X01"', 'null', '5', '"\u0130\u0130"', '"0x 1"']);
      return random.pick(['"0x01"', 'null', '5', '{"0":1}', '[[[[[[[[[[[]]]]]]]]]]]', '[null]']);
    case 'option':
      return random.pick(['null', '[]', '"5"', '{}', '{"vec":null}', '{"vec":[null]}', '{"vec":5}', '{"vec":"x"}']);
    case 'struct':
      return random.pick(['null', '{}', '[]', '"0x1"', '{"x":1}']);
    case 'signer':
      throw new Error('a signer is no argument');
  }
}

/** An address as clients write it: short or long, `0x` or not, any case. */
export function spellAddress(random: Random, digits: string): string {
  const short = random.chance(2) ? digits.replace(/^0+(?=.)/, '') : digits;
  const cased = random.chance(4) ? short.toUpperCase() : short;
  return random.chance(4) ? cased : `0x${cased}`;
}

/** A decimal string, sometimes with leading zeros or a plus. */
export function spellU64(random: Random, value: bigint): string {
  return `"${random.pick(['', '', '', '', '0', '00', '+', '+0'])}${value}"`;
}

/** Members in any order, with spaces and unknown members. */
export function spellObject(random: Random, members: readonly (readonly [string, string])[]): string {
  const space = random.pick(['', '', ' ', '\n\t']);
  const unknown: [string, string][] = random.chance(4) ? [['zz unknown', '[1.5e3,{"a":null}]']] : [];
  const spelled = random
    .shuffle([...members, ...unknown])
    .map(([key, json]) => `${spellString(random, key)}${space}:${json}`);
  return `{${space}${spelled.join(`,${space}`)}${space}}`;
}

/** A JSON string, sometimes all in escapes. */
function spellString(random: Random, text: string): string {
  if (!random.chance(8)) return JSON.stringify(text);
  const units = text.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return `"${units.join('')}"`;
}

function bytes(random: Random, length: number): GeneratedValue {
  const digits = random.hex(length * 2);
  const cased = random.chance(4) ? digits.toUpperCase() : digits;
  const value = Array.from({ length }, (_, at) => Number.parseInt(digits.slice(at * 2, at * 2 + 2), 16));
  return { json: `"${random.chance(4) ? '' : '0x'}${cased}"`, value };
}

function isByte({ type }: ValueType): boolean {
  return type.kind === 'integer' && type.bits === 8;
}

/** Around the places where a length takes one more byte, now and then. */
function lengthOf(random: Random): number {
  if (!random.chance(12)) return random.below(6);
  return random.chance(20) ? random.pick([16_383, 16_384]) : random.pick([126, 127, 128, 129, 300]);
}

function itemCount(random: Random, element: ValueType): number {
  if (element.inner.length > 0) return random.below(3);
  return random.chance(30) ? random.pick([127, 128]) : random.below(4);
}
