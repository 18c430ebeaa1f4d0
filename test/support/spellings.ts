/**
 * Meanings (addresses, type tags, JSON) and the many ways to spell each. `plain` texts are written here by
 * hand, so that they can stand against the canonical texts of `src`.
 */
import { Random } from './random.ts';
import { fc } from './fast-check.ts';

/** What a `Draw` starts from. Spellings do not shrink: the meaning that failed does, and tells enough. */
export const seed: fc.Arbitrary<number> = fc.noShrink(fc.integer());

/** A stream of choices, the same for the same seed. */
export class Draw {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  /** A whole number from 0 to `max`, `max` included. */
  upTo(max: number): number {
    return this.#random.below(max + 1);
  }

  pick<const T>(...options: readonly [T, ...T[]]): T {
    return options[this.upTo(options.length - 1)] ?? options[0];
  }

  flip(): boolean {
    return this.upTo(1) === 1;
  }

  mixedCase(text: string): string {
    return text.replace(/[a-zA-Z]/g, (letter) => (this.flip() ? letter.toUpperCase() : letter.toLowerCase()));
  }

  shuffled<T>(items: readonly T[]): readonly T[] {
    const left = [...items];
    return items.flatMap(() => left.splice(this.upTo(left.length - 1), 1));
  }
}

/** Significant hex digits, lowercase, `0` for zero. */
export type Hex = string;

export type Tag =
  | { readonly kind: 'primitive'; readonly name: string }
  | { readonly kind: 'vector'; readonly element: Tag }
  | StructTag;

export interface StructTag {
  readonly kind: 'struct';
  readonly address: Hex;
  readonly module: string;
  readonly name: string;
  readonly arguments: readonly Tag[];
}

/** A JSON value whose numbers are text. */
export type Json =
  | null
  | boolean
  | string
  | { readonly number: string }
  | readonly Json[]
  | { readonly members: readonly (readonly [string, Json])[] };

export const hex: fc.Arbitrary<Hex> = fc.stringMatching(/^(?:0|[1-9a-f][0-9a-f]{0,63})$/);

const reserved = /^(?:bool|u8|u16|u32|u64|u128|u256|i8|i16|i32|i64|i128|i256|address|signer|vector|true|false)$/;

const word: fc.Arbitrary<string> = fc
  .stringMatching(/^[A-Za-z][A-Za-z0-9_$]{0,12}$/)
  .filter((text) => !reserved.test(text));

const { struct } = fc.letrec<{ tag: Tag; struct: StructTag }>((tie) => ({
  struct: fc.record({
    kind: fc.constant('struct' as const),
    address: hex,
    module: word,
    name: word,
    arguments: fc.array(tie('tag'), { maxLength: 3, depthIdentifier: 'tag' }),
  }),
  tag: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'tag' },
    fc.record({
      kind: fc.constant('primitive' as const),
      name: fc.constantFrom('bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'address', 'signer'),
    }),
    fc.record({ kind: fc.constant('vector' as const), element: tie('tag') }),
    tie('struct'),
  ),
}));

export const structTag: fc.Arbitrary<StructTag> = struct;

/** The spelling that nodes print. */
export function plainTag(tag: Tag): string {
  if (tag.kind === 'primitive') return tag.name;
  if (tag.kind === 'vector') return `vector<${plainTag(tag.element)}>`;
  const list = tag.arguments.map(plainTag).join(', ');
  return `0x${tag.address}::${tag.module}::${tag.name}${list === '' ? '' : `<${list}>`}`;
}

/** Hex digits with drawn case and drawn leading zeros, 64 digits at most. */
export function spellHex(draw: Draw, digits: Hex): string {
  const zeros = '0'.repeat(draw.upTo(64 - digits.length));
  return draw.mixedCase(zeros + digits);
}

/** An address in a path: the prefix may be missing, and is lowercase. */
export function spellAddress(draw: Draw, digits: Hex): string {
  return draw.pick('', '0x') + spellHex(draw, digits);
}

/** A tag with drawn prefixes, case, white space, trailing commas and empty lists. */
export function spellTag(draw: Draw, tag: Tag): string {
  const gap = (): string => draw.pick('', '', '', ' ', '  ', '\t', '\n', '\r\f');
  const spell = (one: Tag): string => {
    if (one.kind === 'primitive') return gap() + one.name + gap();
    if (one.kind === 'vector') return `${gap()}vector${gap()}<${spell(one.element)}>${gap()}`;
    const address = draw.pick('0x', '0X') + spellHex(draw, one.address);
    const path = [address, one.module, one.name].map((part) => gap() + part + gap()).join('::');
    if (one.arguments.length === 0) return path + draw.pick('', '', '<>', '< >') + gap();
    const list = one.arguments.map(spell).join(',');
    return `${path}<${list}${draw.pick('', '', ',', ', ')}>${gap()}`;
  };
  return spell(tag);
}

/** A JSON text with drawn white space, order of members and escapes. */
export function spellJson(draw: Draw, value: Json): string {
  const gap = (): string => draw.pick('', '', ' ', '\n  ', '\t\r');
  const spell = (one: Json): string => gap() + bare(one) + gap();
  const bare = (one: Json): string => {
    if (one === null || typeof one === 'boolean') return String(one);
    if (typeof one === 'string') return spellString(draw, one);
    if ('number' in one) return one.number;
    if ('members' in one) {
      const members = draw
        .shuffled(one.members)
        .map(([key, member]) => `${gap()}${spellString(draw, key)}${gap()}:${spell(member)}`);
      return `{${members.length === 0 ? gap() : members.join(',')}}`;
    }
    return `[${one.length === 0 ? gap() : one.map(spell).join(',')}]`;
  };
  return spell(value);
}

const shortEscapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

function spellString(draw: Draw, text: string): string {
  let spelled = '';
  for (const unit of text.split('')) {
    const code = unit.charCodeAt(0);
    const mustEscape = code < 32 || unit === '"' || unit === '\\' || (code >= 0xd800 && code < 0xe000);
    const way = draw.pick('bare', 'bare', 'short', 'lower', 'upper');
    const digits = code.toString(16).padStart(4, '0');
    if (way === 'bare' && !mustEscape) spelled += unit;
    else if (way === 'short' && unit in shortEscapes) spelled += shortEscapes[unit];
    else if (way === 'short' && !mustEscape) spelled += unit;
    else spelled += `\\u${way === 'upper' ? digits.toUpperCase() : digits}`;
  }
  return `"${spelled}"`;
}
