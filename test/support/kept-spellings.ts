/** Requests for kept and shared reads by their meaning, the many spellings of each, and the requests next to it. */
import { Draw, type Json, plainTag, spellAddress, spellJson, spellTag, type StructTag, type Tag } from './spellings.ts';

/** One value of a request. */
export interface Value<Spelled = string> {
  /** Its meaning; in a body, as JSON. */
  readonly plain: string;
  /** The parameter means the same as none. */
  readonly isOff?: boolean;
  readonly spell: (draw: Draw) => Spelled;
  /** A value next to it, of another meaning. */
  readonly other: (draw: Draw) => Value<Spelled>;
}

export const address = (digits: string): Value => ({
  plain: `0x${digits}`,
  spell: (draw) => spellAddress(draw, digits),
  other: (draw) => address(otherHex(draw, digits)),
});

export const tag = (struct: StructTag): Value => ({
  plain: plainTag(struct),
  spell: (draw) => spellTag(draw, struct),
  other: (draw) => tag(otherStruct(draw, struct)),
});

export const number = (value: bigint): Value => ({
  plain: String(value),
  spell: (draw) => draw.pick('', '', '', '+') + '0'.repeat(draw.pick(0, 0, 1, 3, 30)) + String(value),
  other: (draw) => {
    const drawn = draw.pick(value + 1n, value - 1n, value * 10n, value / 10n);
    const isOther = drawn >= 0n && drawn < 2n ** 64n && drawn !== value;
    return number(isOther ? drawn : value === 0n ? 1n : value - 1n);
  },
});

export const word = (text: string): Value => ({
  plain: text,
  spell: () => text,
  other: (draw) => word(`${text}${draw.pick('_', 'a', '1')}`),
});

const hash = (digits: string): Value => ({
  plain: `0x${digits}`,
  spell: (draw) => draw.pick('', '0x') + draw.mixedCase(digits),
  other: (draw) => hash(otherDigit(draw, digits)),
});

const cursor = (hex: string): Value => ({
  plain: hex,
  spell: () => hex,
  other: (draw) => cursor(otherDigit(draw, hex)),
});

export const flag = (isOn: boolean): Value => ({
  plain: String(isOn),
  isOff: !isOn,
  spell: () => String(isOn),
  other: () => flag(!isOn),
});

/** A type in a body. */
export const type = (of: Tag): Value<Json> => ({
  plain: JSON.stringify(plainTag(of)),
  spell: (draw) => spellTag(draw, of),
  other: (draw) => type(of.kind === 'struct' ? otherStruct(draw, of) : { kind: 'vector', element: of }),
});

const types = (of: readonly Tag[]): Value<Json> => ({
  plain: JSON.stringify(of.map(plainTag)),
  spell: (draw) => of.map((one) => spellTag(draw, one)),
  other: () => types([...of, { kind: 'primitive', name: 'bool' }]),
});

/** The function of a view: the struct tag of its names. */
const called = (of: StructTag): Value<Json> => ({
  plain: JSON.stringify(`0x${of.address}::${of.module}::${of.name}`),
  spell: (draw) => `${spellAddress(draw, of.address)}::${of.module}::${of.name}`,
  other: (draw) => called(otherStruct(draw, of)),
});

export const json = (value: Json): Value<Json> => ({
  plain: spellJson(new Draw(0), value),
  spell: () => value,
  other: (draw) => json(otherJson(draw, value)),
});

/** The meaning of a request. Two requests mean the same exactly when `meaningOf` of them is the same. */
export interface KeptRequest {
  readonly kind: string;
  readonly method: 'GET' | 'POST';
  /** Segments below the base path: fixed ones, and values. */
  readonly path: readonly (string | Value)[];
  readonly query: readonly (readonly [name: string, value: Value])[];
  readonly form: 'json' | 'bcs';
  readonly body?: readonly (readonly [name: string, value: Value<Json>])[];
  /** Nodes ignore members of the body that they do not know. */
  readonly isOpen?: boolean;
}

/** A request as a client writes it. */
export interface SpelledRequest {
  readonly method: 'GET' | 'POST';
  readonly target: string;
  readonly accept: string | undefined;
  readonly body: string;
}

const words = ['a', 'A', 'b', 'coin', 'Coin', 'x_1', 'x1', 'x$1'] as const;

function drawHex(draw: Draw): string {
  const length = draw.pick(1, 1, 2, 3, 40, 63, 64);
  const first = '123456789abcdef'.charAt(draw.upTo(14));
  if (length === 1 && draw.upTo(3) === 0) return '0';
  return first + Array.from({ length: length - 1 }, () => '0123456789abcdef'.charAt(draw.upTo(15))).join('');
}

const anyAddress = (draw: Draw): Value => address(drawHex(draw));
const anyWord = (draw: Draw): Value => word(draw.pick(...words));
const anyHash = (draw: Draw): Value => hash(times(64, () => '0123456789abcdef'.charAt(draw.upTo(15))).join(''));
const anyNumber = (draw: Draw): Value =>
  number(draw.pick(BigInt(draw.upTo(9)), BigInt(draw.upTo(5_000)), 2n ** 53n + 1n, 2n ** 64n - 1n));
const anyLimit = (draw: Draw): Value => number(1n + BigInt(draw.upTo(120)));

function drawStruct(draw: Draw, depth = 0): StructTag {
  const count = depth < 2 ? draw.pick(0, 0, 1, 2) : 0;
  const names = { module: draw.pick(...words), name: draw.pick(...words) };
  return { kind: 'struct', address: drawHex(draw), ...names, arguments: times(count, () => drawTag(draw, depth + 1)) };
}

function drawTag(draw: Draw, depth: number): Tag {
  const kind = depth > 2 ? 'primitive' : draw.pick('primitive', 'vector', 'struct');
  if (kind === 'struct') return drawStruct(draw, depth);
  if (kind === 'vector') return { kind, element: drawTag(draw, depth + 1) };
  return { kind, name: draw.pick('bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'address', 'signer') };
}

const anyTag = (draw: Draw): Value => tag(drawStruct(draw));

function times<T>(count: number, make: () => T): readonly T[] {
  return Array.from({ length: count }, make);
}

type Query = KeptRequest['query'];

function some(draw: Draw, name: string, value: (draw: Draw) => Value): Query {
  return draw.flip() ? [[name, value(draw)]] : [];
}

const pinned = (draw: Draw): Query => [['ledger_version', anyNumber(draw)]];

const characters = 'aZ0 "\\/\b\n\u0000\u001f\u00e9\u2028\uffff';

function drawJson(draw: Draw, depth = 0): Json {
  const inner = (): Json => drawJson(draw, depth + 1);
  switch (draw.pick('plain', 'text', 'number', ...(depth < 3 ? (['list', 'members'] as const) : []))) {
    case 'plain':
      return draw.pick<Json>('0x1', '0x01', '1', 'null', '', true, false, null);
    case 'text':
      return times(draw.upTo(6), () => characters.charAt(draw.upTo(characters.length - 1))).join('');
    case 'number': {
      const digits = draw.pick('0', '7', '10', '120', '18446744073709551616');
      return { number: draw.pick('', '-') + digits + draw.pick('', '', '.0', '.50') + draw.pick('', '', 'e0', 'E+2') };
    }
    case 'list':
      return times(draw.upTo(3), inner);
    case 'members':
      return { members: ['a', 'B', '', '\u00e9"'].filter(() => draw.flip()).map((name) => [name, inner()] as const) };
  }
}

type Make = (draw: Draw) => Pick<KeptRequest, 'path' | 'query'> & Partial<KeptRequest>;

const events = (draw: Draw): Query => [['start', anyNumber(draw)], ...some(draw, 'limit', anyLimit)];
const flags = (draw: Draw): Query => some(draw, 'with_transactions', () => flag(draw.flip()));
const page = (draw: Draw): Query => [
  ...pinned(draw),
  ...some(draw, 'start', () => cursor(drawHex(draw))),
  ...some(draw, 'limit', anyLimit),
];

/** Each kind of request. `lenient`: nodes and the gateway ignore parameters that they do not know. */
const kinds: Readonly<Record<string, Make>> = {
  'resource lenient': (draw) => ({
    path: ['accounts', anyAddress(draw), 'resource', anyTag(draw)],
    query: pinned(draw),
  }),
  'module lenient': (draw) => ({ path: ['accounts', anyAddress(draw), 'module', anyWord(draw)], query: pinned(draw) }),
  'view lenient': (draw) => ({
    method: 'POST',
    path: ['view'],
    query: pinned(draw),
    body: [
      ['function', called(drawStruct(draw, 2))],
      ['type_arguments', types(times(draw.upTo(2), () => drawTag(draw, 0)))],
      ['arguments', json(times(draw.upTo(3), () => drawJson(draw)))],
    ],
    isOpen: true,
  }),
  'by hash lenient': (draw) => ({ path: ['transactions', 'by_hash', anyHash(draw)], query: [] }),
  'wait by hash lenient': (draw) => ({ path: ['transactions', 'wait_by_hash', anyHash(draw)], query: [] }),
  account: (draw) => ({ path: ['accounts', anyAddress(draw)], query: pinned(draw) }),
  balance: (draw) => {
    const asset = draw.flip() ? anyTag(draw) : anyAddress(draw);
    return { path: ['accounts', anyAddress(draw), 'balance', asset], query: pinned(draw) };
  },
  resources: (draw) => ({ path: ['accounts', anyAddress(draw), 'resources'], query: page(draw) }),
  modules: (draw) => ({ path: ['accounts', anyAddress(draw), 'modules'], query: page(draw) }),
  'table item': (draw) => ({
    method: 'POST',
    path: ['tables', anyAddress(draw), 'item'],
    query: pinned(draw),
    body: [
      ['key_type', type(drawTag(draw, 0))],
      ['value_type', type(drawTag(draw, 0))],
      ['key', json(drawJson(draw))],
    ],
  }),
  'raw item': (draw) => ({
    method: 'POST',
    path: ['tables', anyAddress(draw), 'raw_item'],
    query: pinned(draw),
    body: [['key', json(drawJson(draw))]],
  }),
  'by version': (draw) => ({ path: ['transactions', 'by_version', anyNumber(draw)], query: [] }),
  transactions: (draw) => ({ path: ['transactions'], query: events(draw) }),
  'newest transactions': (draw) => ({ path: ['transactions'], query: some(draw, 'limit', anyLimit) }),
  'auxiliary info': (draw) => ({
    path: ['transactions', 'auxiliary_info'],
    query: [['start_version', anyNumber(draw)], ...some(draw, 'limit', anyLimit)],
  }),
  'block by height': (draw) => ({ path: ['blocks', 'by_height', anyNumber(draw)], query: flags(draw) }),
  'block by version': (draw) => ({ path: ['blocks', 'by_version', anyNumber(draw)], query: flags(draw) }),
  'events by number': (draw) => ({
    path: ['accounts', anyAddress(draw), 'events', anyNumber(draw)],
    query: events(draw),
  }),
  'events by handle': (draw) => ({
    path: ['accounts', anyAddress(draw), 'events', anyTag(draw), anyWord(draw)],
    query: events(draw),
  }),
  'newest events': (draw) => ({
    path: ['accounts', anyAddress(draw), 'events', anyNumber(draw)],
    query: some(draw, 'limit', anyLimit),
  }),
  'account transactions': (draw) => ({
    path: ['accounts', anyAddress(draw), 'transactions'],
    query: [...some(draw, 'start', anyNumber), ...some(draw, 'limit', anyNumber)],
  }),
  'transaction summaries': (draw) => ({
    path: ['accounts', anyAddress(draw), 'transaction_summaries'],
    query: [
      ...some(draw, 'start_version', anyNumber),
      ...some(draw, 'end_version', anyNumber),
      ...some(draw, 'limit', anyNumber),
    ],
  }),
};

/** The names of all kinds. */
export const keptKinds: readonly string[] = Object.keys(kinds);

/** A request of one kind. */
export function drawRequest(draw: Draw, kind: string): KeptRequest {
  const made = kinds[kind]?.(draw);
  if (made === undefined) throw new Error(`no kind ${kind}`);
  return { kind, method: 'GET', form: draw.pick('json', 'json', 'bcs'), ...made };
}

/** The meaning as one text, written without the code under test. */
export function meaningOf({ method, path, query, form, body = [] }: KeptRequest): string {
  const parameters = query.flatMap(([name, { plain, isOff = false }]) => (isOff ? [] : [`${name}=${plain}`])).sort();
  const members = body.map(([name, { plain }]) => `${name}:${plain}`);
  const segments = path.map((part) => (typeof part === 'string' ? part : part.plain));
  return [method, form, segments.join('/'), parameters.join('&'), members.join(',')].join(' ');
}

/** The JSON of the body, read without the code under test; `undefined`: it has none. */
export function bodyOf({ body }: KeptRequest): unknown {
  return body && JSON.parse(`{${body.map(([name, { plain }]) => `"${name}":${plain}`).join()}}`);
}

/** The request as some client might write it. */
export function spellRequest(draw: Draw, request: KeptRequest): SpelledRequest {
  const { method, path, query, form } = request;
  const segments = path.map((part) => (typeof part === 'string' ? part : encodeSome(draw, part.spell(draw))));
  const noise = (): string => draw.pick('', '', '', '&');
  const parameters = draw
    .shuffled(query)
    .map(([name, value]) => `${noise()}${encodeSome(draw, name)}=${encodeSome(draw, value.spell(draw))}`);
  const off = draw.upTo(4) === 0 && path[0] === 'blocks' && query.length === 0 ? ['with_transactions=false'] : [];
  const text = [...parameters, ...off].join('&');
  const mark = text === '' ? draw.pick('', '', '?') : '?';
  return {
    method,
    target: `/v1/${segments.join('/')}${mark}${text}${text === '' ? '' : noise()}`,
    accept:
      form === 'bcs'
        ? draw.pick('application/x-bcs', 'APPLICATION/X-BCS', 'application/x-bcs, application/json;q=0.5')
        : draw.pick(undefined, '*/*', 'application/json', 'text/html, application/json'),
    body: spellBody(draw, request),
  };
}

function spellBody(draw: Draw, { body, isOpen = false }: KeptRequest): string {
  if (body === undefined) return '';
  const members: [string, Json][] = body.map(([name, value]) => [name, value.spell(draw)]);
  if (isOpen && draw.flip()) members.push(['comment', 'nodes ignore what they do not know']);
  return spellJson(draw, { members });
}

/** Percent-encodes all that must be (a plus sign in a query is a blank otherwise), and some more, in either case. */
function encodeSome(draw: Draw, text: string): string {
  let encoded = '';
  for (const character of text) {
    const isFree = /[A-Za-z0-9_.-]/.test(character);
    if (isFree && draw.upTo(7) !== 0) encoded += character;
    else {
      const digits = character.charCodeAt(0).toString(16).padStart(2, '0');
      encoded += `%${draw.flip() ? digits.toUpperCase() : digits}`;
    }
  }
  return encoded;
}

/**
 * Another request that differs in one place: one character, one number, one parameter more or fewer, the form, or the
 * kind. `undefined` where the drawn change does not exist.
 */
export function neighbourOf(draw: Draw, request: KeptRequest): KeptRequest | undefined {
  const { path, query, body = [] } = request;
  switch (draw.pick('path', 'path', 'query', 'query', 'body', 'form', 'word', 'fewer')) {
    case 'path': {
      const places = path.flatMap((part, at) => (typeof part === 'string' ? [] : [at]));
      const at = places[draw.upTo(Math.max(0, places.length - 1))];
      const value = at === undefined ? undefined : path[at];
      if (at === undefined || value === undefined || typeof value === 'string') return undefined;
      return { ...request, path: path.with(at, value.other(draw)) };
    }
    case 'query': {
      const at = draw.upTo(Math.max(0, query.length - 1));
      const [name, value] = query[at] ?? [];
      if (name === undefined || value === undefined) return undefined;
      return { ...request, query: query.with(at, [name, value.other(draw)]) };
    }
    case 'fewer':
      return query.length === 0 ? undefined : { ...request, query: query.toSpliced(draw.upTo(query.length - 1), 1) };
    case 'body': {
      const at = draw.upTo(Math.max(0, body.length - 1));
      const [name, value] = body[at] ?? [];
      if (name === undefined || value === undefined) return undefined;
      return { ...request, body: body.with(at, [name, value.other(draw)]) };
    }
    case 'form':
      return { ...request, form: request.form === 'json' ? 'bcs' : 'json' };
    case 'word': {
      const pairs: Readonly<Record<string, string>> = {
        resources: 'modules',
        modules: 'resources',
        transactions: 'transaction_summaries',
        by_hash: 'wait_by_hash',
        by_height: 'by_version',
        auxiliary_info: 'by_version',
      };
      const at = path.findIndex((part, index) => index > 0 && typeof part === 'string' && part in pairs);
      const part = path[at];
      if (typeof part !== 'string' || part === 'by_hash') return undefined;
      return { ...request, path: path.with(at, pairs[part] ?? part) };
    }
  }
}

function otherDigit(draw: Draw, digits: string): string {
  const at = draw.upTo(digits.length - 1);
  const digit = ((Number.parseInt(digits.charAt(at), 16) + 1 + draw.upTo(14)) % 16).toString(16);
  return digits.slice(0, at) + digit + digits.slice(at + 1);
}

/** Another address: one digit changed, or one appended. */
function otherHex(draw: Draw, digits: string): string {
  const isLonger = digits !== '0' && digits.length < 64 && draw.flip();
  return (isLonger ? `${digits}0` : otherDigit(draw, digits)).replace(/^0+(?=.)/, '');
}

function otherStruct(draw: Draw, tag: StructTag): StructTag {
  switch (draw.pick('address', 'module', 'name', 'more')) {
    case 'address':
      return { ...tag, address: otherHex(draw, tag.address) };
    case 'module':
      return { ...tag, module: `${tag.module}_` };
    case 'name':
      return { ...tag, name: `${tag.name}_` };
    case 'more':
      return { ...tag, arguments: [...tag.arguments, { kind: 'primitive', name: 'bool' }] };
  }
}

/** A value of another meaning: another type, number text, character, item or depth. */
function otherJson(draw: Draw, value: Json): Json {
  if (typeof value === 'string') return draw.flip() ? `${value} ` : [value];
  if (typeof value === 'boolean') return String(value);
  if (value === null || 'members' in value) return [value];
  if ('number' in value)
    return draw.flip() ? value.number : { number: value.number + (/[.eE]/.test(value.number) ? '1' : '.0') };
  const at = draw.upTo(value.length);
  const inside = value[at];
  return inside === undefined ? draw.pick<Json>([value], [...value, null]) : value.with(at, otherJson(draw, inside));
}
