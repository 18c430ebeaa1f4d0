/** The headers that all answers have at a moment: the ledger's, made anew when they change, and the date, each second. */
import { keepAliveMs } from '../proxy/listener.ts';
import { fieldLines } from './head-text.ts';

const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveMs / 1000}\r\n\r\n`;
const close = 'Connection: close\r\n\r\n';

export class LiveHeaders {
  #untilMs = -Infinity;
  #date = '';
  #ledger: readonly string[] = [];
  #bytes = Buffer.alloc(0);

  /** The end of a head, with the empty line. */
  endOfHead(isKept: boolean): string {
    this.#renewDate(performance.now());
    return this.#date + (isKept ? keepAlive : close);
  }

  /** The ledger headers and the end of a head of a connection that is kept. `nowMs`: `performance.now()`. */
  bytes(ledger: readonly string[], nowMs: number): Buffer {
    if (this.#renewDate(nowMs) || ledger !== this.#ledger) {
      this.#ledger = ledger;
      this.#bytes = Buffer.from(fieldLines(ledger) + this.#date + keepAlive, 'latin1');
    }
    return this.#bytes;
  }

  #renewDate(nowMs: number): boolean {
    if (nowMs < this.#untilMs) return false;
    const dateMs = Date.now();
    this.#untilMs = nowMs + 1000 - (dateMs % 1000);
    this.#date = `Date: ${new Date(dateMs).toUTCString()}\r\n`;
    return true;
  }
}
