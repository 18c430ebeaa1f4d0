/** The answer to one request that the front has taken, in the form and with the headers of Node's HTTP server. */
import type { Socket } from 'node:net';
import type { Outgoing } from '../proxy/message.ts';
import { STATUS_CODES } from '../proxy/node-http.ts';
import type { ConnectionHeaders } from './connection-headers.ts';

/** Larger bodies are cheaper written beside the head than copied behind it. */
const largestJoined = 4 * 1024;

export interface ResponseParts {
  readonly socket: Socket;
  readonly headers: ConnectionHeaders;
  /** Called when the answer is handed to the socket, or the connection shall end without one. */
  onDone(response: FrontResponse): void;
}

export class FrontResponse implements Outgoing {
  statusCode = 200;
  shouldKeepAlive = true;
  headersSent = false;
  readonly #parts: ResponseParts;
  #head = '';
  #onClose: (() => void) | undefined;

  constructor(parts: ResponseParts) {
    this.#parts = parts;
  }

  get destroyed(): boolean {
    return this.#parts.socket.destroyed;
  }

  writeHead(status: number, head: readonly string[]): this {
    this.statusCode = status;
    this.headersSent = true;
    this.#head = headText(status, head);
    return this;
  }

  end(body?: string | Buffer, encoding: 'latin1' | 'utf8' = 'latin1'): this {
    const { socket, headers, onDone } = this.#parts;
    const head = this.#head + headers.endOfHead(this.shouldKeepAlive);
    if (body === undefined) socket.write(head, 'latin1');
    else if (typeof body === 'string') socket.write(head + body, encoding);
    else if (body.length <= largestJoined) socket.write(head + body.toString('latin1'), 'latin1');
    else {
      socket.cork();
      socket.write(head, 'latin1');
      socket.write(body);
      socket.uncork();
    }
    onDone(this);
    return this;
  }

  destroy(): void {
    this.#parts.socket.destroy();
  }

  once(_event: 'close', listener: () => void): this {
    this.#onClose = listener;
    return this;
  }

  /** The client has gone before the answer was out. */
  close(): void {
    this.#onClose?.();
  }
}

/** A head but for its end. Throws on what HTTP forbids in a header, as Node does. */
function headText(status: number, head: readonly string[]): string {
  let text = statusLine(status);
  for (let at = 0; at + 1 < head.length; at += 2) {
    const value = head[at + 1] as string;
    if (forbidden.test(value)) throw new Error('a header of the answer holds what HTTP forbids');
    text += `${head[at]}: ${value}\r\n`;
  }
  return text;
}

/** RFC 9110 5.5; a line feed would begin another header. */
export const forbidden = /[^\t -~\x80-\xff]/;

export function statusLine(status: number): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`;
}
