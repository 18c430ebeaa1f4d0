/** The headers that each answer ends its head with: made anew once a second. */
import { keepAliveMs } from '../proxy/listener.ts';

const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveMs / 1000}\r\n\r\n`;
const close = 'Connection: close\r\n\r\n';

export class ConnectionHeaders {
  #untilMs = -Infinity;
  #date = '';
  #kept = '';

  /** With the empty line. `nowMs`: `performance.now()`. */
  endOfHead(isKept: boolean, nowMs = performance.now()): string {
    if (nowMs >= this.#untilMs) this.#renew(nowMs);
    return isKept ? this.#kept : this.#date + close;
  }

  #renew(nowMs: number): void {
    const dateMs = Date.now();
    this.#untilMs = nowMs + 1000 - (dateMs % 1000);
    this.#date = `Date: ${new Date(dateMs).toUTCString()}\r\n`;
    this.#kept = this.#date + keepAlive;
  }
}
