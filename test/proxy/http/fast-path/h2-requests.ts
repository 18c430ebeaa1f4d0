/** Requests over HTTP/2 made from a seed, and one session's answers in comparable form. */
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import type { TestGateway } from '../../../support/gateway.ts';
import { Random } from '../../../support/random.ts';
import type { Ending } from '../../../support/temporary-folder.ts';
import { comparable } from './both-ways.ts';
import { keyedValues, knownTargets, often, otherTargets } from './streams.ts';

export interface H2Request {
  /** Names and values in turn, pseudo-headers included. */
  readonly raw: readonly string[];
  readonly body?: string;
  /** Error code of the client's reset at once; absent: it reads the answer. */
  readonly resetCode?: number;
}

const plainFields = [
  ['accept: application/json', 'accept: */*', 'accept: application/x-bcs'],
  ['accept: application/x-bcs, application/json', 'accept-encoding: gzip, br', 'accept-encoding: identity'],
  ['accept-encoding: zstd;q=0.5, gzip', 'accept-encoding: ', 'user-agent: somebody/1.0', 'x-request-id: 7'],
  ['cookie: a=b', 'content-type: application/json'],
].flat();
const oddFields = [
  ['host: 127.0.0.1', 'host: other', 'host: ', 'te: trailers', 'expect: 100-continue', 'expect: something'],
  ['range: bytes=0-3', 'if-none-match: *', 'if-none-match: "abc"'],
  ['if-modified-since: Sat, 21 Nov 2026 00:00:00 GMT', 'if-match: "abc"', 'origin: https://page.example'],
  ['ledgergate-max-staleness: 1s', 'ledgergate-max-staleness: soon', 'ledgergate-min-version: 5'],
  ['ledgergate-min-version: 99999999', 'traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'],
  ['content-type: application/json, text/plain', 'content-encoding: gzip', 'content-length: 0', 'content-length: 5'],
  ['trailer: x', 'x: caf\xe9', 'x: ', 'x:    y   ', 'constructor: y', `x: ${'y'.repeat(5_000)}`],
].flat();
const methods = [...often('GET', 12), 'HEAD', 'POST', 'OPTIONS', 'DELETE', 'get', 'CONNECT'];
const authorities = [...often('127.0.0.1', 12), 'a', '', 'user@host', 'a,b', 'x y'];

/** Name and value. */
function fieldOf(text: string): readonly string[] {
  const end = text.indexOf(': ');
  return [text.slice(0, end), text.slice(end + 2)];
}

/** `keyed`: most requests have a key, good or bad. */
export function h2Requests(seed: number, count: number, keyed: boolean): readonly H2Request[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => h2Request(random, keyed));
}

function h2Request(random: Random, keyed: boolean): H2Request {
  const method = random.pick(methods);
  const path = random.chance(4) ? random.pick(otherTargets) : random.pick(knownTargets);
  const pseudo = [
    [':method', method],
    [':scheme', random.chance(12) ? 'http' : 'https'],
    [':authority', random.pick(authorities)],
    [':path', path],
  ];
  // Without one of them, with another order, or none at all.
  if (random.chance(12)) pseudo.splice(random.below(pseudo.length), 1);
  if (random.chance(4)) pseudo.reverse();
  const fields: (readonly string[])[] = [];
  for (let left = random.below(4); left > 0; left -= 1) fields.push(fieldOf(random.pick(plainFields)));
  if (random.chance(4)) fields.push(fieldOf(random.pick(oddFields)));
  if (random.chance(12) && fields[0] !== undefined) fields.push(fields[0]);
  if (keyed) fields.push(...keyedValues(random).map((value) => ['authorization', value]));
  const hasBody = method === 'POST' || random.chance(20);
  const request = {
    raw: [...pseudo, ...fields].flat(),
    ...(hasBody && { body: random.pick(['', 'hello', '{}']) }),
    ...(random.chance(15) && { resetCode: random.pick([0, 1, 2, 8]) }),
  };
  // It ends its session, and answers of other streams are a matter of time (h2-differential.test.ts).
  return announcedBy(request) < (request.body ?? '').length ? h2Request(random, keyed) : request;
}

/** `content-length`; infinite: not sent. */
function announcedBy({ raw }: H2Request): number {
  const at = raw.indexOf('content-length');
  return at === -1 ? Infinity : Number(raw[at + 1]);
}

/**
 * Whether the HTTP server may drop the request ahead of its decision, and the fast path behind it: a stream that its client
 * resets, and one that node:http2 resets for a `content-length` without a body.
 */
export function mayBeDropped(request: H2Request): boolean {
  const announced = announcedBy(request);
  return request.resetCode !== undefined || (announced !== Infinity && announced !== (request.body ?? '').length);
}

/** A session whose end fails no test by itself. */
export function h2Client(t: Ending, gateway: TestGateway, ca: string, window?: number): ClientHttp2Session {
  const settings = window === undefined ? {} : { settings: { initialWindowSize: window } };
  const session = connect(new URL(gateway.url).origin, { ca, ...settings });
  session.on('error', () => undefined);
  t.after(() => session.destroy());
  return session;
}

/** Status, fields in their order and body of one answer, or how its stream ended. */
export function h2Answer(session: ClientHttp2Session, { raw, body, resetCode }: H2Request): Promise<string> {
  return new Promise((resolve) => {
    let head = '';
    const chunks: Buffer[] = [];
    try {
      const stream = session.request([...raw] as never, { endStream: body === undefined });
      stream.on('error', () => undefined);
      stream.on('response', (_: IncomingHttpHeaders, _flags: number, received: readonly string[]) => {
        head = received.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${received[at + 1]}`] : [])).join('\r\n');
      });
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('close', () => {
        // Its answer may have come before the reset, or not.
        if (resetCode !== undefined) resolve('reset');
        else resolve(comparable(`${stream.rstCode}\r\n${head}\r\n\r\n${Buffer.concat(chunks).toString('latin1')}`));
      });
      if (body !== undefined) stream.end(body);
      if (resetCode !== undefined) stream.close(resetCode);
    } catch (error) {
      // Refused by the client's own library.
      resolve(String(error));
    }
  });
}
