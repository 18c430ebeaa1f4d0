/** Heads of answers as text, in the form of Node's HTTP server. */
import { STATUS_CODES } from '../server/lean-http.ts';
import { keepAliveMs } from '../server/listener.ts';

/** Bytes that HTTP forbids in a field value (RFC 9110 5.5): a line feed would begin another header. */
const forbiddenInValue = /[^\t -~\x80-\xff]/;

/** Status line and headers, without the empty line. `head`: names and values in turn. Throws as `fieldLines`. */
export function headText(status: number, head: readonly string[]): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n${fieldLines(head)}`;
}

/** One line per header. Throws on bytes that HTTP forbids in a value (RFC 9110 5.5), as Node does. */
export function fieldLines(head: readonly string[]): string {
  for (let at = 1; at < head.length; at += 2) {
    if (forbiddenInValue.test(head[at] as string)) throw new Error('an answer header contains bytes that HTTP forbids');
  }
  return ownLines(head);
}

/** One line per header, of values made by this program alone: numbers and names of bounds. */
export function ownLines(head: readonly string[]): string {
  let text = '';
  for (let at = 0; at + 1 < head.length; at += 2) text += `${head[at]}: ${head[at + 1]}\r\n`;
  return text;
}

const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveMs / 1000}\r\n\r\n`;
const chunked = 'Transfer-Encoding: chunked\r\n\r\n';
const close = 'Connection: close\r\n\r\n';

/** Headers shared by all answers of a moment: ledger headers, encoded once per change, and the date, once a second. */
export class LiveHeaders {
  #untilMs = -Infinity;
  #date = '';
  #ledger: readonly string[] | undefined;
  #kept = Buffer.alloc(0);
  #closing = Buffer.alloc(0);

  /** End of a head, with the empty line. `isChunked`: the body has no length. */
  endOfHead(isKept: boolean, isChunked = false): string {
    this.#renewDate(performance.now());
    const connection = isKept ? keepAlive : close;
    return this.#date + (isChunked ? connection.slice(0, -2) + chunked : connection);
  }

  /** Ledger headers and the end of a head. `nowMs`: `performance.now()`. */
  bytes(ledger: readonly string[], isKept: boolean, nowMs: number): Buffer {
    this.#renewDate(nowMs);
    if (ledger !== this.#ledger) {
      this.#ledger = ledger;
      const lines = fieldLines(ledger);
      this.#kept = Buffer.from(lines + this.#date + keepAlive, 'latin1');
      this.#closing = Buffer.from(lines + this.#date + close, 'latin1');
    }
    return isKept ? this.#kept : this.#closing;
  }

  #renewDate(nowMs: number): void {
    if (nowMs < this.#untilMs) return;
    const dateMs = Date.now();
    this.#untilMs = nowMs + 1000 - (dateMs % 1000);
    this.#date = `Date: ${new Date(dateMs).toUTCString()}\r\n`;
    this.#ledger = undefined;
  }
}
