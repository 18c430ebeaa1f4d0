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
  /** Sends a piece of a body behind what waits, now; false: the next one shall wait until the socket drains. */
  sendPiece(piece: Buffer): boolean;
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
  #hasPieces = false;
  #onClose: (() => void)[] = [];

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
    const { connection, onDone } = this.#parts;
    const head = this.#hasPieces ? '' : this.#wholeHead();
    if (this.#hasPieces) {
      if (Buffer.isBuffer(body)) connection.sendPiece(body);
    } else if (body === undefined) connection.send(head, 'latin1');
    else if (typeof body === 'string') connection.send(head + body, encoding);
    else {
      connection.send(head, 'latin1');
      connection.sendBehind(body);
    }
    onDone(this);
    this.#closeOnceTaken();
    return this;
  }

  write(piece: Buffer): boolean {
    if (this.#isClosed) return false;
    const { connection } = this.#parts;
    if (!this.#hasPieces) {
      this.#hasPieces = true;
      connection.send(this.#wholeHead(), 'latin1');
      connection.flush();
    }
    return connection.sendPiece(piece);
  }

  /** The connection reports what it has not taken of short answers itself. */
  get writableLength(): number {
    return 0;
  }

  #wholeHead(): string {
    return this.#head + this.#parts.live.endOfHead(this.shouldKeepAlive);
  }

  /** A body that went out by pieces stays in memory until the kernel has the last of them. */
  #closeOnceTaken(): void {
    if (this.#onClose.length === 0) return;
    const { socket } = this.#parts.connection;
    if (this.#hasPieces && socket.writableLength > 0) socket.once('drain', () => this.close());
    // The exchange ends in this turn: it would take an earlier event for a client that has gone.
    else queueMicrotask(() => this.close());
  }

  destroy(): void {
    this.#parts.connection.socket.destroy();
  }

  once(event: 'close' | 'drain', listener: () => void): this {
    if (event === 'close') this.#onClose.push(listener);
    else this.#parts.connection.socket.once('drain', listener);
    return this;
  }

  /** The answer is out, or its client has gone. */
  close(): void {
    this.#isClosed = true;
    for (const listener of this.#onClose.splice(0)) listener();
  }
}
