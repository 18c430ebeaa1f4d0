/** The answer to one request of the fast path, with the form and headers of Node's HTTP server. */
import type { Socket } from 'node:net';
import type { Outgoing } from '../message.ts';
import type { Arena } from './arena.ts';
import { headText, type LiveHeaders } from './head-text.ts';

/** The connection that carries an answer. */
export interface AnswerSink {
  readonly socket: Socket;
  /** Queues it for the end of this turn of the event loop. */
  send(text: string, encoding: 'latin1' | 'utf8'): void;
  /** Queues the bytes of `arena` from `from` to its end in use. */
  sendFrom(arena: Arena, from: number): void;
  /** Queues a body behind the newest head. */
  sendBehind(body: Buffer): void;
  /**
   * Sends a piece of a body now, behind queued answers; false: wait for 'drain'. The socket calls `onSent` later, once
   * the kernel accepts the piece or the connection closes.
   */
  sendPiece(piece: Buffer, onSent?: () => void): boolean;
  /** Sends queued answers now. */
  flush(): void;
  /** Sends queued answers, and ends the connection. */
  finish(): void;
}

/** Connection, live headers and end of one answer. */
export interface ResponseParts {
  readonly connection: AnswerSink;
  readonly live: LiveHeaders;
  /** Called when the socket has the answer, or the connection ends without one. */
  readonly onDone: (response: FastResponse) => void;
}

/** One answer, in the form of Node's `ServerResponse`. */
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
    // Throws before anything is sent, so that an error answer remains possible.
    this.#head = headText(status, head);
    this.statusCode = status;
    this.headersSent = true;
    return this;
  }

  end(body?: string | Buffer, encoding: 'latin1' | 'utf8' = 'latin1'): this {
    // A write after the connection's end would cut off answers in flight.
    if (this.#isClosed) return this;
    const { connection, onDone } = this.#parts;
    const head = this.#hasPieces ? '' : this.#wholeHead();
    if (this.#hasPieces) {
      // The body stays in memory until the kernel accepts its last piece; a short piece causes no 'drain'.
      connection.sendPiece(Buffer.isBuffer(body) ? body : Buffer.from(body ?? '', encoding), () => this.close());
    } else if (body === undefined) connection.send(head, 'latin1');
    else if (typeof body === 'string') connection.send(head + body, encoding);
    else {
      connection.send(head, 'latin1');
      connection.sendBehind(body);
    }
    onDone(this);
    // The exchange ends in this turn, and would take an earlier 'close' for a hang-up.
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

  /** 0: the connection itself reports unread short answers. */
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

  /** Reports that the answer is out, or its client gone. */
  close(): void {
    this.#isClosed = true;
    for (const listener of this.#onClose.splice(0)) listener();
  }
}
