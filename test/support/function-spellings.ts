/** Ways to ask a node for a view of `0x1::ledgergate_sample::echo`, in the hope that a gateway reads another function. */
import { deflateSync, gzipSync } from 'node:zlib';

/** A request to run the view. */
export interface Spelling {
  readonly title: string;
  /** Default POST. */
  readonly method?: string;
  /** Below the base path, without a version. Default `/view`. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Whether a key without lists gets it to a node; no node gets it from any key otherwise. */
  readonly isForNodes: boolean;
}

/** The function of every spelling. */
export const spelled = '0x1::ledgergate_sample::echo';
/** Another one of the sample node. */
export const other = '0x1::ledgergate_sample::version';

interface Body {
  /** JSON text of the name. */
  readonly name?: string;
  readonly types?: string;
  readonly values?: string;
  /** Members ahead of the others, and behind. */
  readonly first?: string;
  readonly last?: string;
}

/** A body in JSON, by default the plain one. */
export function viewBody({ name = `"${spelled}"`, types = '', values = '', first = '', last = '' }: Body = {}): Buffer {
  return Buffer.from(`{${first}"function":${name},"type_arguments":[${types}],"arguments":[${values}]${last}}`);
}

const jsonType = { 'content-type': 'application/json' };
const bcsType = { 'content-type': 'application/x.aptos.view_function+bcs' };

const hexOf = (text: string): string => Buffer.from(text).toString('hex');
const address = `${'00'.repeat(31)}01`;
/** ViewFunction in BCS: address, module and function, no type arguments, the arguments. */
const bcs = (module: string, name: string, rest = '0000'): Buffer => Buffer.from(address + module + name + rest, 'hex');
const module = `10${hexOf('ledgergate_sample')}`.replace(/^10/, '11');
const echo = `04${hexOf('echo')}`;

type Row = readonly [title: string, body: Buffer, more?: Partial<Spelling>];

const passedPath = (path: string, more: Partial<Spelling> = {}): Row => [
  `the path ${path}`,
  viewBody(),
  { path, ...more },
];
const refusedPath = (path: string): Row => passedPath(path, { isForNodes: false });
const coded = (coding: string, body: Buffer, type: Readonly<Record<string, string>> = jsonType): Row => [
  `${coding} in ${type['content-type']}`,
  body,
  { headers: { ...type, 'content-encoding': coding } },
];
const inBcs = (title: string, body: Buffer): Row => [title, body, { headers: bcsType }];
const notJson = (title: string, body: Buffer): Row => [title, body, { isForNodes: false }];

const rows: readonly Row[] = [
  ['plain', viewBody()],
  ['an address without 0x', viewBody({ name: '"1::ledgergate_sample::echo"' })],
  ['an address of some zeros', viewBody({ name: '"0x0001::ledgergate_sample::echo"' })],
  ['an address of all zeros', viewBody({ name: `"0x${'0'.repeat(63)}1::ledgergate_sample::echo"` })],
  ['an address of zeros without 0x', viewBody({ name: `"${'0'.repeat(63)}1::ledgergate_sample::echo"` })],
  ['an escaped letter', viewBody({ name: '"0x1::ledgergate_sample::\\u0065cho"' })],
  ['every letter escaped', viewBody({ name: `"${spelled.replaceAll(/./g, escaped)}"` })],
  ['an escaped colon and zeros', viewBody({ name: '"0x01\\u003a\\u003Aledgergate_sample::echo"' })],
  ['an escaped member', Buffer.from(viewBody().toString().replace('"function"', '"\\u0066unctio\\u006e"'))],
  [
    'white space',
    Buffer.from(
      viewBody()
        .toString()
        .replaceAll(/([:,{[])(?=["\]])/g, '$1 \t\r\n'),
    ),
  ],
  ['members in another order', Buffer.from(`{"arguments":[],"type_arguments":[],"function":"${spelled}"}`)],
  ['members that nodes ignore', viewBody({ first: `"Function":"${other}",`, last: `,"functio":"${other}"` })],
  ['another function ahead', viewBody({ first: `"function":"${other}",` })],
  ['another function behind', viewBody({ last: `,"function":"${other}"` })],
  ['another function ahead, its member escaped', viewBody({ first: `"\\u0066unction":"${other}",` })],
  ['another function behind, its member escaped', viewBody({ last: `,"functi\\u006fn":"${other}"` })],
  ['a member twice within an argument', viewBody({ values: '{"a":1,"a":2}' })],
  ['a member that nodes keep for numbers', viewBody({ last: ',"x":{"$serde_json::private::Number":"1"}' })],
  ['half of a surrogate pair', viewBody({ last: ',"x":"\\ud800"' })],
  ['a number beyond doubles', viewBody({ values: '1e999' })],
  ['a type of newer nodes', viewBody({ types: '"|u64|u64 has copy"' })],
  ['above 8 kB', viewBody({ values: `"${'a'.repeat(10_000)}"` })],
  [
    'above 8 kB, another function far behind',
    viewBody({ values: `"${'a'.repeat(10_000)}"`, last: `,"function":"${other}"` }),
  ],
  ['above 64 KiB', viewBody({ values: `"${'a'.repeat(66_000)}"` })],
  [
    'above 64 KiB, another function ahead',
    viewBody({ first: `"function":"${other}",`, values: `"${'a'.repeat(66_000)}"` }),
  ],
  ['more values than are parsed', viewBody({ values: `${'0,'.repeat(5_100)}0` })],
  inBcs('BCS', bcs(module, echo)),
  inBcs('BCS with an argument', bcs(module, echo, '00010401020304')),
  inBcs('BCS, a length in a longer form', bcs(module, `8400${hexOf('echo')}`)),
  inBcs('BCS, both lengths in a longer form', bcs(`9100${module.slice(2)}`, `848000${hexOf('echo')}`)),
  coded('gzip', gzipSync(viewBody())),
  coded('deflate', deflateSync(viewBody())),
  coded('identity', viewBody()),
  coded('gzip, gzip', gzipSync(gzipSync(viewBody()))),
  coded('gzip', gzipSync(bcs(module, echo)), bcsType),
  passedPath('/vie%77'),
  passedPath('/%76%69%65%77'),
  passedPath('/View'),
  passedPath('/VIEW'),
  passedPath('/view/'),
  passedPath('/view.json'),
  passedPath('/view%20'),
  passedPath('/view;a=b'),
  passedPath('/v%C4%B1ew'),
  passedPath('/%EF%BD%96iew'),
  passedPath('/-/view'),
  passedPath('/view', { method: 'PUT', title: 'PUT' }),
  passedPath('/View', { method: 'PATCH', title: 'PATCH' }),
  passedPath('/view', { method: 'DELETE', title: 'DELETE' }),
  refusedPath('//view'),
  refusedPath('/x/../view'),
  refusedPath('/%2e/view'),
  refusedPath('/view%2F'),
  refusedPath('/vie%2577'),
  refusedPath('/view%00'),
  refusedPath('/x;a/view'),
  notJson('letters of full width', viewBody({ name: '"0x1::ledgergate_sample::ｅcho"' })),
  notJson('an ignorable character', viewBody({ name: '"0x1::ledgergate_sample::e\\u00adcho"' })),
  notJson('blanks around the name', viewBody({ name: '" 0x1::ledgergate_sample::echo "' })),
  notJson('percent-encoding in the name', viewBody({ name: '"0x1::ledgergate_sample::%65cho"' })),
  notJson('a byte order mark', Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), viewBody()])),
  notJson('UTF-16', Buffer.from(viewBody().toString(), 'utf16le')),
  notJson('a NUL behind the name', viewBody({ name: '"0x1::ledgergate_sample::echo\\u0000"' })),
  notJson('text behind the value', Buffer.concat([viewBody(), Buffer.from('{}')])),
];

function escaped(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** All spellings, each with a title of its own. */
export const spellings: readonly Spelling[] = rows.map(([title, body, more]) =>
  Object.assign({ title, body, headers: jsonType, isForNodes: true }, more),
);
