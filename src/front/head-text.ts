/** Heads of answers as text, in the form that Node's HTTP server gives them. */
import { STATUS_CODES } from '../proxy/node-http.ts';

/** Bytes that HTTP forbids in a field value (RFC 9110 5.5): a line feed would begin another header. */
const forbiddenInValue = /[^\t -~\x80-\xff]/;

/** Status line and headers, without the empty line. `head`: names and values in turn. Throws as `fieldLines` does. */
export function headText(status: number, head: readonly string[]): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n${fieldLines(head)}`;
}

/** A line for each header. Throws on what HTTP forbids in a value (RFC 9110 5.5), as Node does. */
export function fieldLines(head: readonly string[]): string {
  let text = '';
  for (let at = 0; at + 1 < head.length; at += 2) {
    const value = head[at + 1] as string;
    if (forbiddenInValue.test(value)) throw new Error('a header of the answer holds what HTTP forbids');
    text += `${head[at]}: ${value}\r\n`;
  }
  return text;
}

/** Beginnings of heads that many answers have: few, for that is what they are made for. */
export class CommonHeads {
  readonly #known = new Map<string, Buffer>();

  /** From the status line on; one buffer for the same beginning. Throws as `fieldLines` does. */
  of(status: number, head: readonly string[]): Buffer {
    const text = headText(status, head);
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (this.#known.size >= mostKnown) this.#known.clear();
    const made = Buffer.from(text, 'latin1');
    this.#known.set(text, made);
    return made;
  }
}

const mostKnown = 64;
