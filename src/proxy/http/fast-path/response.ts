/** The answer to one request of the fast path, with the form and headers of Node's HTTP server. */
import { headText } from '../heads.ts';
import type { Outgoing } from '../message.ts';
import type { AnswerQueue } from './answer-queue.ts';

/** One answer, in the form of Node's `ServerResponse`. */
export class FastResponse implements Outgoing {
  statusCode = 200;
  shouldKeepAlive = true;
  headersSent = false;
  readonly #connection: AnswerQueue;
  readonly #isHead: boolean;
  readonly #onDone: (response: FastResponse) => void;
  #head = '';
  #isClosed = false;
  #hasPieces = false;
  /** The body has no length, and goes in chunks (RFC 9112 7.1). */
  #isChunked = false;
  #onClose: (() => void)[] = [];

  /**
   * `isHead`: the answer has no body. `onDone`: called when the socket has the answer, or the connection ends without one.
   */
  constructor(connection: AnswerQueue, isHead: boolean, onDone: (response: FastResponse) => void) {
    this.#connection = connection;
    this.#isHead = isHead;
    this.#onDone = onDone;
  }

  get destroyed(): boolean {
    return this.#isClosed || this.#connection.socket.destroyed;
  }

  writeHead(status: number, head: readonly string[]): this {
    // Throws before anything is sent, so that an error answer remains possible.
    this.#head = headText(status, head);
    this.#isChunked = !this.#isHead && status !== 204 && status !== 304 && !hasLength(head);
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
    if (this.#hasPieces) {
      const last = this.#isChunked ? lastChunk : Buffer.isBuffer(body) ? body : Buffer.from(body ?? '', encoding);
      // The body stays in memory until the kernel accepts its last piece; a short piece causes no 'drain'.
      this.#connection.sendPiece(last, () => this.close());
    } else this.#endAtOnce(this.#wholeHead() + (this.#isChunked ? textOfLastChunk : ''), body, encoding);
    this.#onDone(this);
    // The exchange ends in this turn, and would take an earlier 'close' for a hang-up.
    if (!this.#hasPieces && this.#onClose.length > 0) queueMicrotask(() => this.close());
    return this;
  }

  #endAtOnce(head: string, body: string | Buffer | undefined, encoding: 'latin1' | 'utf8'): void {
    const connection = this.#connection;
    if (typeof body === 'string') connection.send(head + body, encoding);
    else connection.send(head, 'latin1');
    if (Buffer.isBuffer(body)) connection.sendBehind(body);
  }

  write(piece: Buffer): boolean {
    if (this.#isClosed) return false;
    const connection = this.#connection;
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
    return this.#head + this.#connection.live.endOfHead(this.shouldKeepAlive, this.#isChunked);
  }

  destroy(): void {
    this.#connection.socket.destroy();
  }

  once(event: 'close' | 'drain', listener: () => void): this {
    if (event === 'close') this.#onClose.push(listener);
    else this.#connection.socket.once('drain', listener);
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
