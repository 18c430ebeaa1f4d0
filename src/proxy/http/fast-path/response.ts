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
  /** The answer to `HEAD` has no body. */
  readonly isHead: boolean;
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
  /** The body has no length, and goes in chunks (RFC 9112 7.1). */
  #isChunked = false;
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
    this.#isChunked = !this.#parts.isHead && status !== 204 && status !== 304 && !hasLength(head);
    this.statusCode = status;
    this.headersSent = true;
    return this;
  }

  end(body?: string | Buffer, encoding: 'latin1' | 'utf8' = 'latin1'): this {
    // A write after the connection's end would cut off answers in flight.
    if (this.#isClosed) return this;
    if (this.#isChunked && body !== undefined && body.length > 0) {
      this.write(Buffer.isBuffer(body) ? body : Buffer.from(body, encoding));
      return this.end();
    }
    const { connection, onDone } = this.#parts;
    if (this.#hasPieces) {
      const last = this.#isChunked ? lastChunk : Buffer.isBuffer(body) ? body : Buffer.from(body ?? '', encoding);
      // The body stays in memory until the kernel accepts its last piece; a short piece causes no 'drain'.
      connection.sendPiece(last, () => this.close());
    } else this.#endAtOnce(this.#wholeHead() + (this.#isChunked ? textOfLastChunk : ''), body, encoding);
    onDone(this);
    // The exchange ends in this turn, and would take an earlier 'close' for a hang-up.
    if (!this.#hasPieces && this.#onClose.length > 0) queueMicrotask(() => this.close());
    return this;
  }

  #endAtOnce(head: string, body: string | Buffer | undefined, encoding: 'latin1' | 'utf8'): void {
    const { connection } = this.#parts;
    if (typeof body === 'string') connection.send(head + body, encoding);
    else connection.send(head, 'latin1');
    if (Buffer.isBuffer(body)) connection.sendBehind(body);
  }

  write(piece: Buffer): boolean {
    if (this.#isClosed) return false;
    const { connection } = this.#parts;
    if (!this.#hasPieces) {
      this.#hasPieces = true;
      connection.send(this.#wholeHead(), 'latin1');
      connection.flush();
    }
    if (!this.#isChunked) return connection.sendPiece(piece);
    // An empty chunk would end the body.
    return piece.length === 0 || connection.sendPiece(chunkOf(piece));
  }

  /** 0: the connection itself reports unread short answers. */
  get writableLength(): number {
    return 0;
  }

  #wholeHead(): string {
    const { live } = this.#parts;
    return this.#head + live.endOfHead(this.shouldKeepAlive, this.#isChunked);
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

const textOfLastChunk = '0\r\n\r\n';
const lastChunk = Buffer.from(textOfLastChunk);

function chunkOf(piece: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, endOfChunk]);
}

const endOfChunk = Buffer.from('\r\n');

/** `head`: names and values in turn. */
function hasLength(head: readonly string[]): boolean {
  return head.some((text, at) => at % 2 === 0 && text.toLowerCase() === 'content-length');
}
