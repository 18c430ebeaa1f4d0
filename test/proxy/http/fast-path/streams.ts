/** Streams of client bytes made from a seed: requests, near-requests, and pieces of both. */
import { Random } from '../../../support/random.ts';
import { testKey } from '../../../support/keys.ts';
import { encodeRequest, submission } from '../../../support/submission.ts';

/** One connection's bytes, in the pieces of their writes. */
export interface ClientStream {
  readonly pieces: readonly Buffer[];
  /** For failure messages. */
  readonly bytes: Buffer;
}

const account = '/v1/accounts/0x5a000001';
/** Targets that both gateways have cached. */
export const knownTargets = [
  `${account}/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000`,
  `${account}/resource/0x1%3A%3Aledgergate_sample%3A%3APadded60?ledger_version=1001`,
  `${account}/resource/0x1::ledgergate_sample::Padded2000?ledger_version=1002`,
  `${account}/resource/0x1::ledgergate_sample::Padded20000?ledger_version=1003`,
  `${account}/resource/0x1::ledgergate_sample::Padded400`,
  `${account}/resource/0x1::nobody::Here?ledger_version=1004`,
];
/** Entity tags of `knownTargets`, in their order, from the first answers of a gateway. */
export const knownTags: string[] = [];
/** Targets that are unknown, malformed, or not for the fast path. */
export const otherTargets = [
  ['/v1', '/v1/', '/v1/blocks/by_height/1', '/v1/blocks/by_height/1?x=1'],
  ['/v1/accounts/0x1/module/coin?ledger_version=900', '/v1/accounts/0x01/module/coin?ledger_version=0900'],
  [`${account}/resource/0x1::ledgergate_sample::Padded300?ledger_version=18446744073709551616`],
  [`${account}/resource/0x1::ledgergate_sample::Padded300?ledger_version=`],
  [`${account}/resource/0x1::ledgergate_sample::Padded300?ledger_version=5&ledger_version=6`],
  [`${account}/resource/nonsense?ledger_version=5`, `${account}/resource/0x1::a::B%3C?ledger_version=5`],
  [`${account}/../0x1/module/coin?ledger_version=900`, `${account}//resource/0x1::a::B?ledger_version=5`],
  [`/v1/transactions/by_hash/0x${'ab'.repeat(32)}`, '/v1/transactions/by_hash/nonsense', '/v1/-/healthy'],
  ['/v1/spec?x=1', '/v1/unknown', '/v1/accounts/0x1?ledger_version=900&x=1', '/v1/transactions?start=5&limit=2&x=1'],
  ['/nowhere', '/', '*', '/livez', 'http://127.0.0.1/v1/accounts/0x1/module/coin?ledger_version=900'],
  [`${account}/resource/0x1::ledgergate_sample::Padded400?ledger_version=1000#part`],
  [`/v1/accounts/0x1/module/${'a'.repeat(300)}?ledger_version=900`],
].flat();
export const often = (text: string, count: number): readonly string[] => Array.from({ length: count }, () => text);
const methods = [...often('GET', 5), 'HEAD', 'POST', 'OPTIONS', 'get', 'GETS', 'DELETE', 'CONNECT', 'PRI'];
const versions = [...often('HTTP/1.1', 4), 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', 'HTTP/1.1 ', ''];

const plainFields = [
  ['Accept: application/json', 'Accept: */*', 'Accept: application/x-bcs'],
  ['Accept: application/x-bcs, application/json', 'accept-encoding: gzip, br', 'Accept-Encoding: identity'],
  ['Accept-Encoding: zstd;q=0.5, gzip', 'User-Agent: somebody/1.0', 'Connection: keep-alive'],
  ['connection: Keep-Alive', 'X-Request-Id: 7', 'Cookie: a=b; c=d', 'Content-Type: application/json'],
].flat();
const oddFields = [
  ['Host: other', 'Host: 127.0.0.1, other', 'host:', 'Connection: close', 'Connection: close, keep-alive'],
  ['Connection: Upgrade', 'Connection: TE, close', 'Connection: x-request-id', 'Upgrade: websocket', 'Upgrade: h2c'],
  ['HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA', 'Content-Length: 0', 'Content-Length: 5', 'Content-Length: 05'],
  ['Content-Length: +5', 'Content-Length: -1', 'Content-Length: 5, 5', 'Content-Length: 5\r\nContent-Length: 6'],
  ['Content-Length : 5', 'Content-Length: 120', 'Transfer-Encoding: chunked', 'Transfer-Encoding: Chunked'],
  ['Transfer-Encoding: xchunked', 'Transfer-Encoding: identity', 'Transfer-Encoding: chunked, identity'],
  ['Transfer-Encoding: gzip, chunked', 'Transfer-Encoding\t: chunked', 'Transfer-Encoding:\x0bchunked'],
  ['Transfer-Encoding: chunked\r\nContent-Length: 5', 'X: y\r\n Transfer-Encoding: chunked'],
  ['X: y\rTransfer-Encoding: chunked', 'X: y\nTransfer-Encoding: chunked', 'X: y\r\n\tfolded', 'Trailer: x'],
  ['TE: trailers', 'Expect: 100-continue', 'Expect: something', 'Range: bytes=0-3', 'If-None-Match: *'],
  ['If-None-Match: "abc"', 'If-Modified-Since: Sat, 21 Nov 2026 00:00:00 GMT', 'If-Match: "abc"'],
  ['Origin: https://page.example', 'Ledgergate-Max-Staleness: 1s', 'Ledgergate-Max-Staleness: soon'],
  ['Ledgergate-Min-Version: 5', 'Ledgergate-Min-Version: 99999999'],
  ['traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'Authorization: Bearer x'],
  ['Content-Type: application/json, text/plain', 'Content-Encoding: gzip', 'X: \x00', 'X: \x7f', 'X: caf\xe9'],
  ['X : y', ' X: y', ': y', 'X', 'X:', 'X:   y   ', 'X\x00: y', 'X(: y', '__proto__: y', 'constructor: y'],
  [`X: ${'y'.repeat(5_000)}`, `X: ${'y'.repeat(60_000)}`],
].flat();
const lineEnds = [...often('\r\n', 6), '\n', '\r', '\r\r\n', '\r\n\r\n'];
const bodies = ['', 'hello', '5\r\nhello\r\n0\r\n\r\n', '0\r\n\r\n', '{}'];

/** Keys of streams: of all operations, of views alone, and expired. */
export const streamKeys = {
  all: testKey('all'),
  views: testKey('views', { operations: ['view'] }),
  expired: testKey('expired', { expires: '2020-01-01T00:00:00Z' }),
};

/** Values of `authorization` for one request, good or bad, sometimes two or none. */
export function keyedValues(random: Random): readonly string[] {
  const { all, views, expired } = streamKeys;
  return random.pick([
    ...Array.from({ length: 6 }, () => [`Bearer ${all.text}`]),
    [`bearer  ${all.text}`],
    [`Bearer ${views.text}`],
    [`Bearer ${expired.text}`],
    [`Bearer ${all.text.slice(0, -1)}`],
    [`Basic ${all.text}`],
    [`Bearer ${all.text}`, `Bearer ${views.text}`],
    [],
  ]);
}

/** The same as lines; for some, an address that no proxy has vouched for stands ahead of them. */
function keyLines(random: Random): string {
  const name = random.pick(['Authorization', 'authorization']);
  const lines = keyedValues(random).map((value) => `${name}: ${value}\r\n`);
  return (random.chance(14) ? 'X-Forwarded-For: 10.1.2.3\r\n' : '') + lines.join('');
}

/** Ends each stream: the server closes the connection after this request. */
const last = 'GET /v1/-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n';

export function makeStream(seed: number): ClientStream {
  const random = new Random(seed);
  const count = random.chance(3) ? 1 : 1 + random.below(5);
  let text = '';
  for (let index = 0; index < count; index += 1) text += requestOf(random);
  const bytes = Buffer.from(mutated(random, text) + last, 'latin1');
  return { bytes, pieces: split(random, bytes) };
}

/** A stream in which most requests have a key, good or bad, and some have it twice or in the target. */
export function makeKeyedStream(seed: number): ClientStream {
  const random = new Random(seed);
  let text = '';
  for (let count = 1 + random.below(5); count > 0; count -= 1) {
    text += random
      .pick([requestOf, plainRequest, plainRequest, postedRequest])(random)
      .replace('Host: 127.0.0.1\r\n', (host) => host + keyLines(random))
      .replace('ledger_version=1001', random.chance(30) ? `key=${streamKeys.all.text}` : 'ledger_version=1001');
  }
  const bytes = Buffer.from(
    mutated(random, text) + last.replace('Host', `Authorization: Bearer ${streamKeys.all.text}\r\nHost`),
    'latin1',
  );
  return { bytes, pieces: split(random, bytes) };
}

/** Valid requests that need a node, submissions among them, followed by malformed bytes. */
export function makeBrokenStream(seed: number): ClientStream {
  const random = new Random(seed);
  let text = '';
  for (let count = 1 + random.below(5); count > 0; count -= 1) text += wholeRequest(random);
  const bytes = Buffer.from(text + random.pick(broken) + last, 'latin1');
  return { bytes, pieces: split(random, bytes) };
}

function wholeRequest(random: Random): string {
  switch (random.below(5)) {
    case 0:
      return posted('/v1/transactions', submission({ sequenceNumber: random.below(1_000) }));
    case 1:
      return posted(`/v1/view?ledger_version=${random.below(5_000)}`, view);
    case 2:
      return `GET /v1/accounts/0x1?ledger_version=${random.below(5_000)}&x=1 HTTP/1.1\r\nHost: a\r\n\r\n`;
    default:
      return plainRequest(random);
  }
}

const view = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const json = 'Content-Type: application/json\r\n';
const postedTargets = [
  ['/v1/view?ledger_version=1000', '/v1/view?ledger_version=1000', '/v1/view?ledger_version=1001', '/v1/view'],
  ['/v1/view?ledger_version=', '/v1/view?ledger_version=99999999', '/v1/view/'],
  ['/v1/tables/0x1/item?ledger_version=1000', '/v1/tables/0x1/raw_item?ledger_version=1000'],
  ['/v1/tables/0x1/item?ledger_version=1000&x=1', '/v1/transactions/encode_submission'],
  ['/v1/transactions/encode_submission?x=1', '/v1/transactions/simulate', '/v1/transactions'],
  ['/v1/transactions/batch', '/v1/transactions/', '/v1/accounts/0x1', '/v1/unknown', '/v1//view', '/nowhere'],
].flat();
const postedTypes = [
  ['Content-Type: application/json', 'Content-Type: application/json', 'Content-Type: application/json'],
  ['content-type: application/json', 'Content-Type: application/json; charset=utf-8'],
  ['Content-Type: application/x.aptos.view_function+bcs', 'Content-Type: text/plain', 'X-Nothing: here'],
].flat();
const viewOf = (argument: string): string => view.replace('[]}', `${JSON.stringify([argument])}}`);
/** Reads that the gateways can answer, of which some bodies look like requests. */
const knownBodies = [
  view,
  ` ${view}`,
  view.replace(/"function"/, '"\\u0066unction"'),
  viewOf('GET / HTTP/1.1\r\n\r\n'),
  JSON.stringify({ key_type: 'u64', value_type: 'u64', key: '5' }),
  encodeRequest('0x1::aptos_account::transfer', ['0x2', '5']),
  submission(),
];
const oddBodies = [
  '',
  '{}',
  '{"function":',
  'GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n',
  `${view}GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n`,
  '\xff\xfe',
  ...[15_000, 17_000, 30_000, 64_000, 66_000].map((length) => viewOf('a'.repeat(length))),
];

function posted(target: string, body: string): string {
  return `POST ${target} HTTP/1.1\r\nHost: a\r\n${json}Content-Length: ${body.length}\r\n\r\n${body}`;
}

const chunked = `POST /v1/view HTTP/1.1\r\nHost: a\r\n${json}Transfer-Encoding: chunked\r\n\r\n`;
const broken = [
  'Q\r\n\r\n',
  '\0',
  'GET /v1',
  'GET /v1 HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n',
  `GET /v1 HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(60_000)}\r\n\r\n`,
  'GET /v1 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'POST /v1/view HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
  'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n',
  'QUERY /v1 HTTP/1.1\r\nHost: a\r\n\r\nQ\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  `${chunked}xyz\r\n`,
  `${chunked}5\r\nhelloworld\r\n`,
  `${chunked}5;${'a'.repeat(20_000)}\r\n`,
  `GET ${knownTargets[0]} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n`,
];

function requestOf(random: Random): string {
  if (random.chance(3)) return plainRequest(random);
  if (random.chance(4)) return postedRequest(random);
  const end = (): string => (random.chance(4) ? random.pick(lineEnds) : '\r\n');
  const target = random.pick(random.chance(2) ? knownTargets : otherTargets);
  const space = random.chance(20) ? random.pick(['  ', '\t', '']) : ' ';
  let text = `${random.pick(methods)}${space}${target}${space}${random.pick(versions)}${end()}`;
  if (!random.chance(12)) text += `Host: 127.0.0.1${end()}`;
  for (let fields = random.below(5); fields > 0; fields -= 1) {
    text += random.pick(random.chance(2) ? oddFields : plainFields) + end();
  }
  return text + end() + (random.chance(2) ? random.pick(bodies) : '');
}

/** Reads with a body, most of them plain; lengths, types and bodies are odd in some. */
function postedRequest(random: Random): string {
  const target = random.pick(postedTargets);
  const body = random.chance(3) ? random.pick(oddBodies) : random.pick(knownBodies);
  const length = random.chance(8) ? body.length + random.below(5) - 2 : body.length;
  const type = random.pick(postedTypes);
  const fields = ['Host: 127.0.0.1', type, `${random.pick(['Content-Length', 'content-length'])}: ${length}`];
  for (const field of [...plainFields.slice(0, -1), ...oddFields]) if (random.chance(40)) fields.push(field);
  return `POST ${target} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n${body}`;
}

/** The usual form of clients: the fast path answers most of these. */
function plainRequest(random: Random): string {
  const fields = ['Host: 127.0.0.1', ...plainFields.filter(() => random.chance(5))];
  if (random.chance(6)) fields.push(`${random.pick(['Origin', 'origin'])}: ${random.pick(origins)}`);
  const names = new Set<string>();
  const once = fields.filter((field) => {
    const [name = ''] = field.toLowerCase().split(':');
    return !names.has(name) && names.add(name);
  });
  const cold = `${account}/resource/0x1::ledgergate_sample::Padded${200 + random.below(900)}?ledger_version=${random.below(3_000)}`;
  const target = random.chance(4) ? cold : random.chance(12) ? '/v1' : random.pick(knownTargets);
  if (random.chance(4)) once.push(`${random.pick(['If-None-Match', 'if-none-match'])}: ${conditionOf(random, target)}`);
  return `${random.chance(6) ? 'HEAD' : 'GET'} ${target} HTTP/1.1\r\n${once.join('\r\n')}\r\n\r\n`;
}

const origins = ['https://page.example', 'https://other.example:8443', 'null', `https://${'a'.repeat(600)}`];

/** A condition that holds for the target, or nearly. */
function conditionOf(random: Random, target: string): string {
  const tag = knownTags[knownTargets.indexOf(target)] ?? '*';
  const other = random.pick(['"abc"', '*', ...knownTags]);
  const coded = tag.replace(/"$/, `-${random.pick(['gzip', 'br', 'zstd'])}"`);
  return random.pick([tag, tag, coded, `W/${tag}`, `${other}, ${tag}`, `${tag},${coded}`, other, tag.slice(1), '']);
}

/** Adds, removes or changes a byte in a third of all streams. */
function mutated(random: Random, text: string): string {
  if (!random.chance(3)) return text;
  let result = text;
  for (let changes = 1 + random.below(3); changes > 0; changes -= 1) {
    const at = random.below(result.length + 1);
    const put = random.chance(3)
      ? ''
      : random.pick(['\r', '\n', '\r\n', ' ', '\t', '\0', ':', 'a', '\xff', String.fromCharCode(random.below(256))]);
    result = result.slice(0, at) + put + result.slice(at + random.below(3));
  }
  return result;
}

function split(random: Random, bytes: Buffer): readonly Buffer[] {
  const cuts = Array.from({ length: random.chance(2) ? 0 : random.below(4) }, () => random.below(bytes.length + 1));
  const ends = [...cuts.sort((a, b) => a - b), bytes.length];
  let from = 0;
  return ends.map((end) => {
    const piece = bytes.subarray(from, end);
    from = end;
    return piece;
  });
}
