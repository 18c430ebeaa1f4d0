/**
 * The heads of requests that the fast path takes: `GET` or `HEAD`, HTTP/1.1, in the plainest form that clients write
 * (RFC 9112 2 and 3). Any other form, however well formed, is left to Node's parser, which alone decides what is
 * an error.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { ContentCoding } from '../../../cache/entry.ts';
import type { AnswerForm } from '../../../ledger/answer-form.ts';
import { answerForm, chooseCoding } from '../negotiate.ts';
import { isAuthority, ownCopy } from '../target.ts';

/** The headers of a request, judged once for all requests that have the same text there. */
export interface HeaderBlock {
  /** By name in lower case; each came once. */
  readonly headers: IncomingHttpHeaders;
  /** Nothing in it but the form and the coding of the answer can change what the answer is. */
  readonly isPlain: boolean;
  /** False: the connection ends with the answer. */
  readonly isKept: boolean;
  readonly form: AnswerForm;
  /** The coding that answers are given in where they have it. */
  readonly coding: ContentCoding | undefined;
}

/** A request's head in plain form. */
export interface PlainHead {
  readonly method: 'GET' | 'HEAD';
  readonly target: string;
  readonly block: HeaderBlock;
  /** Offset of the next request. */
  readonly end: number;
}

const version = ' HTTP/1.1\r\n';
const endOfHead = '\r\n\r\n';
/** Longer ones are rare, and would take much room while they are remembered. */
const longestBlock = 4 * 1024;
const mostHeaders = 64;

/** Reads the head that begins at `from`, `undefined` unless it is there to its end and taken. `text`: a byte a character. */
export function readHead(text: string, from: number, blocks: HeaderBlocks): PlainHead | undefined {
  const method = text.startsWith('GET /', from) ? 'GET' : text.startsWith('HEAD /', from) ? 'HEAD' : undefined;
  if (method === undefined) return undefined;
  const begin = from + method.length + 1;
  const afterTarget = text.indexOf(' ', begin);
  if (afterTarget === -1 || !text.startsWith(version, afterTarget)) return undefined;
  const afterLine = afterTarget + version.length;
  const end = text.indexOf(endOfHead, afterLine);
  if (end === -1) return undefined;
  const block = blocks.find(text.slice(afterLine, end));
  return block === undefined
    ? undefined
    : { method, target: text.slice(begin, afterTarget), block, end: end + endOfHead.length };
}

/** Blocks that were judged before, by their text: clients repeat it, and so do all clients of one kind. */
export class HeaderBlocks {
  readonly #parsed = new Map<string, HeaderBlock | undefined>();
  #lastText = '';
  #last: HeaderBlock | undefined;

  /** The block, `undefined` where it is not taken. `text`: between the request line and the empty line. */
  find(text: string): HeaderBlock | undefined {
    if (text === this.#lastText) return this.#last;
    const block = this.#lookUp(text);
    this.#lastText = text;
    this.#last = block;
    return block;
  }

  #lookUp(text: string): HeaderBlock | undefined {
    if (text.length > longestBlock) return undefined;
    if (this.#parsed.has(text)) return this.#parsed.get(text);
    // A cached block, and each of its headers, must not keep the text of the whole chunk.
    const own = ownCopy(text);
    const block = readBlock(own);
    // A client that sends another block each time must not fill the memory, nor keep others out.
    if (this.#parsed.size >= mostBlocks) this.#parsed.clear();
    this.#parsed.set(own, block);
    return block;
  }
}

const mostBlocks = 512;

/** One header: a token, a value of visible ASCII, and between them what everybody writes there. */
const field = /^([!#$%&'*+.^`|~\w-]+): ?([!-~](?:[\t -~]*[!-~])?)?$/;

/** Headers that frame a message, change the protocol, or ask for a part: the fast path takes none of them. */
const refused: ReadonlySet<string> = new Set(
  [
    'content-length transfer-encoding trailer te upgrade expect keep-alive proxy-connection http2-settings',
    'content-encoding range if-range if-match if-modified-since if-unmodified-since proxy-authorization __proto__',
  ].flatMap((names) => names.split(' ')),
);
/** Headers that can change an answer beside its form and coding. */
const decisive = /^(?:ledgergate-|origin$|if-none-match$)/;

function readBlock(text: string): HeaderBlock | undefined {
  const lines = text.split('\r\n');
  if (lines.length > mostHeaders) return undefined;
  const headers: Record<string, string> = {};
  let isPlain = true;
  for (const line of lines) {
    const [, given, value = ''] = field.exec(line) ?? [];
    if (given === undefined) return undefined;
    const name = given.toLowerCase();
    if (refused.has(name) || Object.hasOwn(headers, name)) return undefined;
    if (decisive.test(name)) isPlain = false;
    headers[name] = value;
  }
  const { host = '', 'content-type': type = '' } = headers;
  if (host === '' || !isAuthority(host) || type.includes(',')) return undefined;
  const { accept, 'accept-encoding': codings, connection = 'keep-alive' } = headers;
  const kept = connection.toLowerCase();
  if (kept !== 'keep-alive' && kept !== 'close') return undefined;
  const isKept = kept === 'keep-alive';
  return { headers, isPlain, isKept, form: answerForm(accept), coding: chooseCoding(codings) };
}
