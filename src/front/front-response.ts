/** The answer to one request that the front has taken, in the form and with the headers of Node's HTTP server. */
import type { Socket } from 'node:net';
import type { Outgoing } from '../proxy/message.ts';
import type { Arena } from './arena.ts';
import { headText } from './head-text.ts';
import type { LiveHeaders } from './live-headers.ts';

/** Where answers are sent. */
export interface Answering {
  readonly socket: Socket;
  /** Sends it at the end of this turn of the event loop. */
  send(text: string, encoding: 'latin1' | 'utf8'): void;
  /** As `send`, of what lies in `arena` from `from` on, to where it is in use. */
  sendFrom(arena: Arena, from: number): void;
  /** Sends a body with the head that was given last. */
  sendBehind(body: Buffer): void;
  /** Sends what waits for the end of the turn, now. */
  flush(): void;
  /** Sends it, and ends the connection. */
  finish(): void;
}

export interface ResponseParts {
  readonly connection: Answering;
  readonly live: LiveHeaders;
  /** Called when the answer is handed to the socket, or the connection shall end without one. */
  readonly onDone: (response: FrontResponse) => void;
}

export class FrontResponse implements Outgoing {
  statusCode = 200;
  shouldKeepAlive = true;
  headersSent = false;
  readonly #parts: ResponseParts;
  #head = '';
  #isClosed = false;
  #onClose: (() => void) | undefined;

  constructor(parts: ResponseParts) {
    this.#parts = parts;
  }

  get destroyed(): boolean {
    return this.#isClosed || this.#parts.connection.socket.destroyed;
  }

  writeHead(status: number, head: readonly string[]): this {
    // Where this throws, nothing is sent yet, and an error can be.
    this.#head = headText(status, head);
    this.statusCode = status;
    this.headersSent = true;
    return this;
  }

  end(body?: string | Buffer, encoding: 'latin1' | 'utf8' = 'latin1'): this {
    // Written behind the end of the connection, it would cut off answers that are still on their way.
    if (this.#isClosed) return this;
    const { connection, live, onDone } = this.#parts;
    const head = this.#head + live.endOfHead(this.shouldKeepAlive);
    if (body === undefined) connection.send(head, 'latin1');
    else if (typeof body === 'string') connection.send(head + body, encoding);
    else {
      connection.send(head, 'latin1');
      connection.sendBehind(body);
    }
    onDone(this);
    return this;
  }

  destroy(): void {
    this.#parts.connection.socket.destroy();
  }

  once(_event: 'close', listener: () => void): this {
    this.#onClose = listener;
    return this;
  }

  /** The client has gone before the answer was out. */
  close(): void {
    this.#isClosed = true;
    this.#onClose?.();
  }
}
