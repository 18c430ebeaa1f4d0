/**
 * Heads of nodes' answers, read as strictly as a client may (RFC 9112 4 to 6): what is in doubt is refused, because a
 * body whose end is guessed is an answer of another request.
 */
import type { HeaderValues } from '../../ledger/ledger-headers.ts';
import { BadAnswerError } from './bad-answer.ts';
import { forbiddenInValue } from './field-value.ts';

/** How the end of a body is told: by its length in bytes, by its chunks, or by the end of the connection. */
export type Framing = { readonly kind: 'chunked' | 'close' } | { readonly kind: 'counted'; readonly bytes: number };

export interface AnswerHead {
  readonly status: number;
  /** By name in lower case, as `HeaderValues` has them. Shared by answers with the same head: not to be changed. */
  readonly headers: HeaderValues;
  /** As the headers have it; an answer without a body by its status or question has none whatever they say. */
  readonly framing: Framing;
  /** The node does not mean to close the connection. */
  readonly isKept: boolean;
  /** For how long the node keeps it, in ms, where it says so. */
  readonly keptMs: number | undefined;
}

const statusLine = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t -~\x80-\xff]*)?$/;
const fieldName = /^[!#$%&'*+.^`|~\w-]+$/;
const framingNames = new Set(['content-length', 'transfer-encoding']);
/** More than any body; what is beyond cannot be told exactly by a number. */
const longestLength = 15;

interface Field {
  readonly name: string;
  readonly value: string;
  /** Behind the value. */
  readonly hasSpace: boolean;
}

/** Whether a line is a header's, or a trailer's. */
export function isField(line: string): boolean {
  return readField(line) !== undefined;
}

/** RFC 9112 5. In time that grows with the line, whatever is in it: no expression that could try again. */
function readField(line: string): Field | undefined {
  const colon = line.indexOf(':');
  const name = line.slice(0, Math.max(colon, 0));
  let [from, to] = [colon + 1, line.length];
  while (from < to && isSpace(line, from)) from += 1;
  while (from < to && isSpace(line, to - 1)) to -= 1;
  const value = line.slice(from, to);
  if (!fieldName.test(name) || forbiddenInValue.test(value)) return undefined;
  return { name, value, hasSpace: to < line.length };
}

function isSpace(line: string, at: number): boolean {
  const code = line.charCodeAt(at);
  return code === 0x20 || code === 0x09;
}

/** `text`: from the status line to before the empty line, a byte a character. Throws `BadAnswerError`. */
export function readAnswerHead(text: string): AnswerHead {
  const lines = text.split('\r\n');
  const [, minor, status] = statusLine.exec(lines[0] ?? '') ?? [];
  if (status === undefined) throw new BadAnswerError('no status line of HTTP/1');
  const headers = readFields(lines);
  const framing = framingOf(headers, minor === '1');
  const connection = textOf(headers['connection']).toLowerCase();
  const isKept = minor === '1' && !/(?:^|[\t ,])close(?:$|[\t ,])/.test(connection);
  return { status: Number(status), headers, framing, isKept, keptMs: keptMsOf(textOf(headers['keep-alive'])) };
}

function readFields(lines: readonly string[]): HeaderValues {
  // Whatever name a node sends, it is nothing but a name.
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>;
  for (let at = 1; at < lines.length; at += 1) {
    const field = readField(lines[at] ?? '');
    if (field === undefined) throw new BadAnswerError('a line of its head is no header');
    const { value } = field;
    const key = field.name.toLowerCase();
    // The space is no part of the value, and not all who read it know that.
    if (framingNames.has(key) && field.hasSpace) throw new BadAnswerError('its end is told oddly');
    const before = headers[key];
    if (Array.isArray(before)) before.push(value);
    else headers[key] = before === undefined ? value : [before, value];
  }
  return headers;
}

/** RFC 9112 6.3. What is told in two ways, or in one twice, is refused. */
function framingOf(headers: HeaderValues, mayBeChunked: boolean): Framing {
  const { 'transfer-encoding': coding, 'content-length': length } = headers;
  if (coding !== undefined) {
    if (!mayBeChunked || length !== undefined || textOf(coding).toLowerCase() !== 'chunked') {
      throw new BadAnswerError('a transfer coding that leaves the end of the body in doubt');
    }
    return { kind: 'chunked' };
  }
  if (length === undefined) return { kind: 'close' };
  const text = textOf(length);
  if (!/^\d+$/.test(text) || text.length > longestLength) throw new BadAnswerError('its length is no number');
  return { kind: 'counted', bytes: Number(text) };
}

function keptMsOf(keepAlive: string): number | undefined {
  const seconds = /(?:^|[\t ,;])timeout=(\d{1,6})(?:$|[\t ,;])/.exec(keepAlive)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

function textOf(value: string | readonly string[] | undefined): string {
  return typeof value === 'string' ? value : (value?.join(', ') ?? '');
}

/** Heads that were read before: a node says the same in many answers, until its ledger moves. */
export class AnswerHeads {
  #known = new Map<string, AnswerHead>();
  #lastText = '';
  #last: AnswerHead | undefined;

  /** As `readAnswerHead`. */
  read(text: string): AnswerHead {
    if (this.#last !== undefined && text === this.#lastText) return this.#last;
    let head = this.#known.get(text);
    if (head === undefined) {
      head = readAnswerHead(text);
      if (this.#known.size >= mostKnown) this.#known = new Map();
      this.#known.set(text, head);
    }
    this.#lastText = text;
    this.#last = head;
    return head;
  }
}

const mostKnown = 32;
