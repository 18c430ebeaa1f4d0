/** The headers that all answers have at a moment: the ledger's, made anew when they change, and the date, each second. */
import { keepAliveMs } from '../proxy/listener.ts';
import { fieldLines } from './head-text.ts';

const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveMs / 1000}\r\n\r\n`;
const close = 'Connection: close\r\n\r\n';

export class LiveHeaders {
  #untilMs = -Infinity;
  #date = '';
  #ledger: readonly string[] | undefined;
  #kept = Buffer.alloc(0);
  #closing = Buffer.alloc(0);

  /** The end of a head, with the empty line. */
  endOfHead(isKept: boolean): string {
    this.#renewDate(performance.now());
    return this.#date + (isKept ? keepAlive : close);
  }

  /** The ledger headers and the end of a head. `nowMs`: `performance.now()`. */
  bytes(ledger: readonly string[], isKept: boolean, nowMs: number): Buffer {
    this.#renewDate(nowMs);
    if (ledger !== this.#ledger) {
      this.#ledger = ledger;
      const lines = fieldLines(ledger) + this.#date;
      this.#kept = Buffer.from(lines + keepAlive, 'latin1');
      this.#closing = Buffer.from(lines + close, 'latin1');
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
