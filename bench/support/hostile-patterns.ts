/** The patterns of hostile clients that `bench/hostile.ts` measures another client beside. */

/** Bytes of the request of a number. */
export type NumberedBytes = (n: number) => Buffer;

interface Common {
  readonly title: string;
  readonly connections: number;
  /** Sections of the gateway's config. */
  readonly listen?: Readonly<Record<string, unknown>>;
  readonly isTls?: boolean;
  /** To the operations port. */
  readonly isAdmin?: boolean;
  /** Needs a node that knows modules and large resources; others have a cheaper one. */
  readonly needsLedger?: boolean;
}

export type HostilePattern = Common &
  (
    | { readonly kind: 'flood'; readonly bytes: NumberedBytes; readonly bytesPerSecond?: number }
    | { readonly kind: 'again'; readonly bytes: NumberedBytes }
    | { readonly kind: 'resets'; readonly path: (n: number) => string }
  );

const mark = '#########';

/** Requests that differ in a number of nine digits in place of each mark; a mark of six or three is a part of it. */
function numbered(text: string): NumberedBytes {
  const template = Buffer.from(text, 'latin1');
  const places = [...text.matchAll(/#{9}|#{6}|#{3}/g)].map(({ 0: found, index }) => ({ index, length: found.length }));
  return (n) => {
    const bytes = Buffer.from(template);
    const digits = digitsOf(n);
    for (const { index, length } of places) bytes.write(partOf(digits, length), index, 'latin1');
    return bytes;
  };
}

function digitsOf(n: number): string {
  return String(n % 1e9).padStart(mark.length, '0');
}

function partOf(digits: string, length: number): string {
  return length === 3 ? digits.slice(6) : digits.slice(0, length);
}

/** A read for each number, which both nodes answer. */
export function pathOf(n: number, bytes = 400): string {
  return pathFor(partOf(digitsOf(n), 6), partOf(digitsOf(n), 3), bytes);
}

function pathFor(account: string, version: string, bytes = 400): string {
  return `/v1/accounts/0x5a${account}/resource/0x1::ledgergate_sample::Padded${bytes}?ledger_version=1${version}`;
}

/** The quiet client has read it into memory. */
export const hitPath = pathOf(1);
const missPath = pathFor('######', '###');

const get = (path: string, lines = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${lines}\r\n`;
const lines60 = Array.from({ length: 60 }, (_, at) => `X-Field-${at}: some value of a usual length\r\n`).join('');
const hits60 = numbered(get(hitPath, `TE: trailers\r\n${lines60}`));

function post(path: string, body: string, lines = ''): NumberedBytes {
  const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${lines}`;
  return numbered(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

const callOf = (args: string): string =>
  `{"function":"0x1::coin::name","type_arguments":[],"arguments":["${mark}",${args}]}`;
const viewOf = (args: string): NumberedBytes => post('/v1/view?ledger_version=5', callOf(args));
const many = (count: number, of: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => of(at)).join(',');

const nested = `[${many(500, () => `${'['.repeat(105)}1${']'.repeat(105)}`)}]`;
const wide = `[${many(27_000, () => '"1"')}]`;
const escaped = `[${many(9_000, () => String.raw`"\u0041\n\"x"`)}]`;
const reversed = `{${many(8_000, (at) => `"k${String(9_000 - at)}":${at}`)}}`;
const gas = '"max_gas_amount":"2000","gas_unit_price":"100","expiration_timestamp_secs":"32425224034"';
const transactionOf = (args: string, more = ''): string =>
  `{"sender":"0x1","sequence_number":"${mark}",${gas},"payload":{"type":"entry_function_payload","function":"0x1::coin::transfer","type_arguments":["0x1::m::T"],"arguments":["0x1",${args}]}${more}}`;
const signature = ',"signature":{"type":"ed25519_signature","public_key":"0x00","signature":"0x00"}';
const bodies = { kind: 'again', connections: 16 } as const;
const pipelined = { kind: 'flood', bytesPerSecond: 5_000_000 } as const;

/** First, for comparison, nobody. */
export const hostilePatterns: readonly HostilePattern[] = [
  { title: 'nobody', connections: 0, kind: 'again', bytes: hits60 },
  { title: 'pipelined hits of 60 lines, handed over, 4', connections: 4, bytes: hits60, ...pipelined },
  { title: 'pipelined hits of 60 lines, handed over, 8', connections: 8, bytes: hits60, ...pipelined },
  {
    title: 'pipelined hits of 60 lines, no fast path, 8',
    connections: 8,
    bytes: hits60,
    ...pipelined,
    listen: { fastPath: false },
  },
  { title: 'pipelined hits of 60 lines, TLS, 8', connections: 8, bytes: hits60, ...pipelined, isTls: true },
  { title: 'pipelined hits on the fast path, 8', connections: 8, bytes: numbered(get(hitPath)), kind: 'flood' },
  {
    title: 'pipelined plain hits, no fast path, 8',
    connections: 8,
    bytes: numbered(get(hitPath)),
    kind: 'flood',
    listen: { fastPath: false },
  },
  {
    title: 'reset misses of HTTP/2, 1',
    connections: 1,
    kind: 'resets',
    isTls: true,
    path: pathOf,
  },
  {
    title: 'reset misses of HTTP/2, 4',
    connections: 4,
    kind: 'resets',
    isTls: true,
    path: pathOf,
  },
  {
    title: 'unique targets of 15 kB',
    connections: 16,
    kind: 'flood',
    bytes: numbered(get(`/v1/accounts/0x1?x=${mark}${'y'.repeat(15_000)}`)),
  },
  {
    title: 'unique cookies of 3 kB, hits',
    connections: 16,
    kind: 'flood',
    bytes: numbered(get(hitPath, `Cookie: a=${mark}${'y'.repeat(3_000)}\r\n`)),
  },
  {
    title: 'unique cookies of 3 kB, misses',
    connections: 16,
    kind: 'flood',
    bytes: numbered(get(missPath, `Cookie: a=${mark}${'y'.repeat(3_000)}\r\n`)),
  },
  {
    title: 'misses of 1 MB in Brotli',
    connections: 16,
    kind: 'again',
    needsLedger: true,
    bytes: numbered(get(pathFor('######', '###', 1_000_000), 'Accept-Encoding: br\r\n')),
  },
  {
    title: 'simulations of 60 kB',
    ...bodies,
    bytes: post('/v1/transactions/simulate', transactionOf(`"0x${'0'.repeat(60_000)}"`, signature)),
  },
  { title: 'views of 110 kB, 105 deep', ...bodies, bytes: viewOf(nested) },
  { title: 'views of 110 kB, one wide array', ...bodies, bytes: viewOf(wide) },
  { title: 'views of 9,000 texts with escapes', ...bodies, bytes: viewOf(escaped) },
  { title: 'views of 8,000 keys in reverse order', ...bodies, bytes: viewOf(reversed) },
  {
    title: 'table items of 110 kB',
    ...bodies,
    bytes: post(
      '/v1/tables/0x1/item?ledger_version=5',
      `{"key_type":"0x1::m::T","value_type":"u64","key":[${mark.replace('#', '1')},${nested}]}`,
    ),
  },
  {
    title: 'simulations of 110 kB, nested',
    ...bodies,
    bytes: post('/v1/transactions/simulate', transactionOf(nested, signature)),
  },
  {
    title: 'signing bodies of 110 kB, wide',
    ...bodies,
    needsLedger: true,
    bytes: post('/v1/transactions/encode_submission', transactionOf(wide)),
  },
  {
    title: 'signing bodies of 110 kB, nested',
    ...bodies,
    needsLedger: true,
    bytes: post('/v1/transactions/encode_submission', transactionOf(nested)),
  },
  {
    title: 'admin bodies of 1 MB',
    ...bodies,
    isAdmin: true,
    bytes: post('/admin/purge', `{"x":"${mark}","y":[${many(10, () => nested)}]}`),
  },
];
