/**
 * Parses requests of the fast path: `GET`, `HEAD`, or `POST` with one plain length, HTTP/1.1, in the plainest form (RFC
 * 9112 2 and 3). Node's parser gets every other form, and alone decides on errors.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Access } from '../../../access/index.ts';
import type { ContentCoding } from '../../../cache/index.ts';
import type { AnswerForm } from '../../../ledger/index.ts';
import { answerForm, chooseCoding } from '../negotiate.ts';
import { ownCopy } from '../target-cache.ts';
import { isAuthority } from '../target.ts';

/** Headers of a request, parsed once for all requests with the same text. */
export interface HeaderBlock {
  /** By lower-case name; repeated names are unsupported. */
  readonly headers: IncomingHttpHeaders;
  /** Nothing but the form and the coding depends on these headers. */
  readonly isPlain: boolean;
  /** Demands of freshness, which only the general way meets. */
  readonly isDemanding: boolean;
  readonly origin: string | undefined;
  /** Value of `If-None-Match`. */
  readonly condition: string | undefined;
  /** False: the connection closes after the answer. */
  readonly isKept: boolean;
  readonly form: AnswerForm;
  /** Coding of the answer, if stored in it. */
  readonly coding: ContentCoding | undefined;
  /** The key in these headers. */
  readonly known: Parameters<Access['tenantOf']>[1];
}

/** Head of a request in plain form. */
export interface PlainHead {
  readonly method: 'GET' | 'HEAD' | 'POST';
  readonly target: string;
  readonly block: HeaderBlock;
  /** Offset of the body. */
  readonly bodyFrom: number;
  /** Offset of the next request, which may lie behind the received bytes. */
  readonly end: number;
}

const version = ' HTTP/1.1\r\n';
const endOfHead = '\r\n\r\n';
/** Longer blocks are rare, and would bloat the cache. */
const longestBlock = 4 * 1024;
const mostHeaders = 64;
/** In bytes; the server reads longer bodies. */
const longestBody = 64 * 1024;

/** Reads the head at `from`; `undefined`: incomplete or unsupported. `text`: latin1. */
export function readHead(text: string, from: number, blocks: HeaderBlocks): PlainHead | undefined {
  const method = methodAt(text, from);
  if (method === undefined) return undefined;
  const begin = from + method.length + 1;
  const afterTarget = text.indexOf(' ', begin);
  if (afterTarget === -1 || !text.startsWith(version, afterTarget)) return undefined;
  const afterLine = afterTarget + version.length;
  const end = text.indexOf(endOfHead, afterLine);
  if (end === -1) return undefined;
  const bodyFrom = end + endOfHead.length;
  let lines = text.slice(afterLine, end);
  let length = 0;
  if (method === 'POST') {
    // A line feed within the target would make one name of two requests with bodies (`postedName`).
    if (text.indexOf('\n', begin) !== afterLine - 1) return undefined;
    const found = lengthLine.exec(lines);
    length = Number(found?.[1]);
    if (found === null || length > longestBody) return undefined;
    // The same for all bodies of a client. A second length stays, and is unsupported.
    lines = without(lines, found);
  }
  const block = blocks.find(lines, method === 'POST');
  return block && { method, target: text.slice(begin, afterTarget), block, bodyFrom, end: bodyFrom + length };
}

function methodAt(text: string, from: number): PlainHead['method'] | undefined {
  if (text.startsWith('GET /', from)) return 'GET';
  if (text.startsWith('POST /', from)) return 'POST';
  return text.startsWith('HEAD /', from) ? 'HEAD' : undefined;
}

const lengthLine = /(?:^|\r\n)content-length: ?(0|[1-9]\d{0,4})(?=\r\n|$)/i;

/** Caches parsed blocks by their text, which clients of one kind share. */
export class HeaderBlocks {
  readonly #parsed = new Map<string, HeaderBlock | undefined>();
  /** The newest block with and without a length: clients mix reads, and a comparison costs less than a hash. */
  readonly #newest: [FoundBlock, FoundBlock] = [noBlock, noBlock];

  /**
   * `undefined`: unsupported. `text`: between the request line and the empty line, without the length of a body, if
   * `isFramed`.
   */
  find(text: string, isFramed = false): HeaderBlock | undefined {
    const newest = this.#newest[isFramed ? 1 : 0];
    if (text === newest.text) return newest.block;
    const block = this.#lookUp(text);
    this.#newest[isFramed ? 1 : 0] = { text, block };
    return block;
  }

  #lookUp(text: string): HeaderBlock | undefined {
    if (text.length > longestBlock) return undefined;
    const known = this.#parsed.get(text);
    if (known !== undefined || this.#parsed.has(text)) return known;
    const condition = conditionLine.exec(text);
    if (condition !== null) return this.#withCondition(without(text, condition), condition[1] ?? '');
    // A substring would keep the text of the whole chunk in memory.
    const own = ownCopy(text);
    const block = readBlock(own);
    // Changing blocks of one client must neither fill the memory nor block others.
    if (this.#parsed.size >= mostBlocks) this.#parsed.clear();
    this.#parsed.set(own, block);
    return block;
  }

  /** `lines`: without the condition, so that they are the same for all targets of a client. */
  #withCondition(lines: string, condition: string): HeaderBlock | undefined {
    const block = this.#lookUp(lines);
    // A second condition.
    if (block === undefined || block.condition !== undefined) return undefined;
    const own = ownCopy(condition);
    return { ...block, headers: { ...block.headers, 'if-none-match': own }, isPlain: false, condition: own };
  }
}

const mostBlocks = 512;

interface FoundBlock {
  readonly text: string;
  readonly block: HeaderBlock | undefined;
}

const noBlock: FoundBlock = { text: '', block: undefined };

const conditionLine = /(?:^|\r\n)if-none-match: ?((?:[!-~](?:[\t -~]*[!-~])?)?)(?=\r\n|$)/i;

function without(lines: string, found: RegExpExecArray): string {
  const before = lines.slice(0, found.index);
  const after = lines.slice(found.index + found[0].length);
  return before === '' ? after.slice(2) : before + after;
}

/** One header: a token, a value of visible ASCII, and at most one blank between. */
const field = /^([!#$%&'*+.^`|~\w-]+): ?([!-~](?:[\t -~]*[!-~])?)?$/;

/** Unsupported headers: they frame a message, change the protocol, or ask for a part. */
const refused: ReadonlySet<string> = new Set(
  [
    'content-length transfer-encoding trailer te upgrade expect keep-alive proxy-connection http2-settings',
    'content-encoding range if-range if-match if-modified-since if-unmodified-since proxy-authorization __proto__',
  ].flatMap((names) => names.split(' ')),
);
const demand = /^ledgergate-/;

function readBlock(text: string): HeaderBlock | undefined {
  const lines = text.split('\r\n');
  if (lines.length > mostHeaders) return undefined;
  const headers: Record<string, string> = {};
  let isDemanding = false;
  for (const line of lines) {
    const [, given, value = ''] = field.exec(line) ?? [];
    if (given === undefined) return undefined;
    const name = given.toLowerCase();
    if (refused.has(name) || Object.hasOwn(headers, name)) return undefined;
    if (demand.test(name)) isDemanding = true;
    headers[name] = value;
  }
  const { host = '', 'content-type': type = '', origin } = headers;
  if (host === '' || !isAuthority(host) || type.includes(',')) return undefined;
  const { accept, 'accept-encoding': codings, connection = 'keep-alive' } = headers;
  const kept = connection.toLowerCase();
  if (kept !== 'keep-alive' && kept !== 'close') return undefined;
  // Node's server has the event streams.
  if (accept?.toLowerCase().includes('text/event-stream') === true) return undefined;
  const isKept = kept === 'keep-alive';
  const known = { generation: 0, entry: undefined };
  const isPlain = !isDemanding && origin === undefined;
  const form = answerForm(accept);
  const coding = chooseCoding(codings);
  return { headers, isPlain, isDemanding, origin, condition: undefined, isKept, form, coding, known };
}
