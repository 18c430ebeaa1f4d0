/** What nodes, balancers and broken servers may write as an answer, made from a number. */
import { Random } from '../../support/random.ts';

/** The bytes of one answer, in the pieces that they are written in. */
export interface AnswerStream {
  readonly pieces: readonly Buffer[];
  /** The connection ends behind them. */
  readonly isLast: boolean;
  /** Nothing was damaged. */
  readonly isSound: boolean;
}

const starts = ['HTTP/1.1 200 OK', 'HTTP/1.1 404 Not Found', 'HTTP/1.1 200', 'HTTP/1.1 200 ', 'HTTP/1.0 200 OK'];
const fields = [
  'Content-Type: application/json',
  'content-type: application/x-bcs',
  'X-Node-Chain-Id: 1',
  'X-NODE-LEDGER-VERSION:  9000000000 ',
  'Set-Cookie: a=b',
  'Set-Cookie: c=d',
  'Keep-Alive: timeout=5',
  'Connection: keep-alive',
  'Date: Sat, 21 Nov 2026 00:00:00 GMT',
  'X-Empty:',
  'X-High: caf\u00e9',
];
const oddFields = [
  'Content-Length: 5',
  'Content-Length: 3',
  'Content-Length: 05',
  'Content-Length: 5, 5',
  'Content-Length: -1',
  'Content-Length : 5',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding: xchunked',
  'Connection: close',
  'Connection: upgrade',
  'Upgrade: websocket',
  ' folded: line',
  'No colon here',
  ': no name',
  'B\u00e4d: name',
  'X: a\u0000b',
  'X: a\rb',
  'X: a\nContent-Length: 1',
];
/** Not 100, which undici takes for an error, and RFC 9110 15.2 for something to be passed over. */
const interim = ['HTTP/1.1 102 Processing\r\n\r\n', 'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n'];

/** The same for the same number. A third of them are sound. */
export function answerStream(seed: number): AnswerStream {
  const random = new Random(seed);
  const isSound = random.below(3) === 0;
  const body = '{"a":1}'.repeat(random.below(40));
  const form = random.below(3);
  const isOdd = !isSound && random.below(2) === 0;
  const head = [
    random.pick(starts.slice(0, form === 1 ? 4 : 5)),
    ...Array.from({ length: random.below(6) }, () => random.pick(fields)),
    ...(isOdd ? [random.pick(oddFields)] : []),
    ...(form === 0 ? [`Content-Length: ${body.length}`] : form === 1 ? ['Transfer-Encoding: chunked'] : []),
    ...(isOdd && random.below(2) === 0 ? [random.pick(oddFields)] : []),
  ];
  const first = random.below(6) === 0 ? random.pick(interim) : '';
  const text = `${first}${head.join('\r\n')}\r\n\r\n${form === 1 ? chunks(body, random) : body}`;
  const bytes = Buffer.from(isSound ? text : damaged(text, random), 'latin1');
  // Whoever is asked for what has no end but the connection's has to end it.
  const isLast = !isSound || form === 2 || head[0]?.startsWith('HTTP/1.0') === true;
  return { pieces: cut(bytes, random), isLast, isSound };
}

function chunks(body: string, random: Random): string {
  let text = '';
  for (let at = 0; at < body.length;) {
    const size = Math.min(body.length - at, 1 + random.below(60));
    const extension = random.below(8) === 0 ? ';x=y' : '';
    text += `${size.toString(16)}${extension}\r\n${body.slice(at, at + size)}\r\n`;
    at += size;
  }
  return `${text}0\r\n${random.below(6) === 0 ? 'X-Trailer: z\r\n' : ''}\r\n`;
}

function damaged(text: string, random: Random): string {
  let made = text;
  for (let times = random.below(3); times > 0; times -= 1) {
    const at = random.below(made.length + 1);
    const length = random.below(4);
    const other = random.pick(['', '\r\n', '\n', '\r', '0', ' ', ':', 'HTTP/1.1 200 OK\r\n', '\u0000', ';', 'a', '-']);
    made = made.slice(0, at) + other + made.slice(at + length);
  }
  return random.below(6) === 0 ? made.slice(0, random.below(made.length + 1)) : made;
}

function cut(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const size = random.below(4) === 0 ? 1 + random.below(30) : bytes.length;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}
