/** The answer to one request that the fast path has taken, in the form and with the headers of Node's HTTP server. */
import type { Socket } from 'node:net';
import type { Outgoing } from '../message.ts';
import type { Arena } from './arena.ts';
import { headText, type LiveHeaders } from './head-text.ts';

/** The connection that an answer goes out on. */
export interface AnswerSink {
  readonly socket: Socket;
  /** Sends it at the end of this turn of the event loop. */
  send(text: string, encoding: 'latin1' | 'utf8'): void;
  /** As `send`, the bytes of `arena` from `from` to its end in use. */
  sendFrom(arena: Arena, from: number): void;
  /** Sends a body with the head that was given last. */
  sendBehind(body: Buffer): void;
  /**
   * Sends a piece of a body behind what waits, now; false: the next one shall wait until the socket drains. `onSent` is
   * called later, once the kernel has the piece or the connection is gone.
   */
  sendPiece(piece: Buffer, onSent?: () => void): boolean;
  /** Sends what waits for the end of the turn, now. */
  flush(): void;
  /** Sends it, and ends the connection. */
  finish(): void;
}

/** Parts of one answer. */
export interface ResponseParts {
  readonly connection: AnswerSink;
  readonly live: LiveHeaders;
  /** Called when the answer is handed to the socket, or the connection shall end without one. */
  readonly onDone: (response: FastResponse) => void;
}

/** One answer, written in the form of Node's `ServerResponse`. */
export class FastResponse implements Outgoing {
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
    // Nothing is sent when this throws, so that an error can be.
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
      // The body stays in memory until the kernel has its last piece. A short piece causes no 'drain'.
      connection.sendPiece(Buffer.isBuffer(body) ? body : Buffer.from(body ?? '', encoding), () => this.close());
    } else if (body === undefined) connection.send(head, 'latin1');
    else if (typeof body === 'string') connection.send(head + body, encoding);
    else {
      connection.send(head, 'latin1');
      connection.sendBehind(body);
    }
    onDone(this);
    // The exchange ends in this turn: it would take an earlier event for a client that has gone.
    if (!this.#hasPieces && this.#onClose.length > 0) queueMicrotask(() => this.close());
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
