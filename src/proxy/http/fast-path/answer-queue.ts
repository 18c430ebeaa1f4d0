/**
 * The answers of one connection, with the form and headers of Node's HTTP server: they leave together at the end of a turn
 * of the event loop, from memory that all connections share.
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { hasField, headText, LiveHeaders } from '../heads.ts';
import type { Outgoing } from '../message.ts';
import type { UnsentAnswers } from '../unsent-answers.ts';

/**
 * Bytes of an arena, which holds the answers of one turn of the event loop. Small, because a client that reads nothing
 * keeps the whole arena of its answer.
 */
export const arenaBytes = 64 * 1024;
/** Bound of the free arenas. */
const mostSpare = 16;

/** Buffer that holds answers until the kernel accepts them. */
export class Arena {
  readonly bytes = Buffer.allocUnsafeSlow(arenaBytes);
  /** Bytes in use, from offset 0. */
  used = 0;
  /** Unsent answers in it. */
  waiting = 0;
  /** The kernel has not accepted some of its bytes, which must not change. */
  isLent = false;
}

/**
 * The answers of a turn, of all connections: their arenas, and the queues to flush at its end. Consecutive sends find the
 * kernel's code and data in the CPU cache, and one socket gets one write. No answer waits longer than the turn.
 */
export class AnswerTurn {
  readonly live = new LiveHeaders();
  #current = new Arena();
  readonly #spare: Arena[] = [];
  #sending: AnswerQueue[] = [];
  readonly #flush = (): void => {
    const sending = this.#sending;
    this.#sending = [];
    for (const one of sending) one.flush();
  };

  /** Flushes `queue` at the end of this turn. Call it once per turn and connection. */
  add(queue: AnswerQueue): void {
    if (this.#sending.length === 0) setImmediate(this.#flush);
    this.#sending.push(queue);
  }

  /** An arena with `size` free bytes (at most 64 KiB) behind those in use. */
  withRoom(size: number): Arena {
    const current = this.#current;
    if (!current.isLent && current.used + size <= arenaBytes) return current;
    this.#current = this.#spare.pop() ?? new Arena();
    return this.#current;
  }

  /** Uncounts a sent answer in `arena`. `isTaken`: the kernel accepted all of its bytes. */
  release(arena: Arena, isTaken: boolean): void {
    arena.waiting -= 1;
    arena.isLent ||= !isTaken;
    if (arena.waiting > 0 || arena.isLent) return;
    arena.used = 0;
    if (arena !== this.#current && this.#spare.length < mostSpare) this.#spare.push(arena);
  }
}

/** Joins answers of one form into one write, and counts what the client leaves unread. */
export class AnswerQueue {
  readonly socket: Socket;
  readonly isEncrypted: boolean;
  readonly #turn: AnswerTurn;
  readonly #unsent: UnsentAnswers;
  /** Queued text, empty while an arena is queued. */
  #text = '';
  #encoding: 'latin1' | 'utf8' = 'latin1';
  #arena: Arena | undefined;
  #from = 0;
  #to = 0;
  /** Large body that follows the queued answers, in a buffer of its own. */
  #body: Buffer | undefined;

  constructor(socket: Socket, turn: AnswerTurn, unsent: UnsentAnswers) {
    this.socket = socket;
    this.isEncrypted = socket instanceof TLSSocket;
    this.#turn = turn;
    this.#unsent = unsent;
  }

  /** The end of each head. */
  get live(): LiveHeaders {
    return this.#turn.live;
  }

  /** Nothing is queued, and the client has read everything. */
  get isEmpty(): boolean {
    return this.#text === '' && this.#arena === undefined && this.socket.writableLength === 0;
  }

  /** Queues it for the end of this turn. */
  send(text: string, encoding: 'latin1' | 'utf8'): void {
    // Answers of another form must not overtake the queued ones.
    if (this.#arena !== undefined || this.#body !== undefined || encoding !== this.#encoding) this.flush();
    if (this.#text === '') this.#turn.add(this);
    this.#text += text;
    this.#encoding = encoding;
  }

  /** Queues the bytes of `arena` from `from` to its end in use. */
  sendFrom(arena: Arena, from: number): void {
    const to = arena.used;
    const isNext = this.#arena === arena && this.#to === from && this.#body === undefined;
    if (!isNext) {
      // Counted ahead of the flush, which would otherwise free the arena.
      arena.waiting += 1;
      this.flush();
      this.#turn.add(this);
      this.#arena = arena;
      this.#from = from;
    }
    this.#to = to;
  }

  /** Queues a body behind the newest head. */
  sendBehind(body: Buffer): void {
    this.#body = body;
  }

  /** Sends queued answers, and ends the connection. */
  finish(): void {
    this.flush();
    this.socket.destroySoon();
  }

  flush(): void {
    const text = this.#text;
    const arena = this.#arena;
    const body = this.#body;
    if (text === '' && arena === undefined) return;
    this.#text = '';
    this.#arena = undefined;
    this.#body = undefined;
    // TLS reports a write as done in a later turn, and keeps its own copy of the bytes until then.
    const isBehind = !this.isEncrypted || this.socket.writableLength > 0;
    if (body !== undefined) this.socket.cork();
    if (text !== '') this.#write(text);
    else if (arena !== undefined) this.#writeFrom(arena, body !== undefined || this.isEncrypted);
    if (body !== undefined) {
      this.#write(body);
      this.socket.uncork();
    }
    if (!isBehind || this.socket.writableLength === 0) return;
    // An unread short answer keeps its whole arena.
    this.#unsent.trackSocket(this.socket, this.isEncrypted ? 0 : arenaBytes);
  }

  /** `isCopied`: a body follows, which the client may read slowly, so the arena is released at once. */
  #writeFrom(arena: Arena, isCopied: boolean): void {
    const { bytes } = arena;
    this.#write(isCopied ? copyOf(bytes, this.#from, this.#to) : bytes.subarray(this.#from, this.#to));
    this.#turn.release(arena, isCopied || this.socket.writableLength === 0);
  }

  #write(bytes: string | Buffer): void {
    if (!this.socket.destroyed) this.socket.write(bytes, this.#encoding);
  }
}

/** Without the two views that `Buffer.from` of a part would take. */
function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from);
  bytes.copy(copy, 0, from, to);
  return copy;
}

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
  #onClose: (() => void)[] | undefined;

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
    return this.writeHeadOfLedger(status, head, []);
  }

  writeHeadOfLedger(status: number, head: readonly string[], ledger: readonly string[]): this {
    // Throws before anything is sent, so that an error answer remains possible.
    this.#head = headText(status, head) + (ledger.length === 0 ? '' : this.#connection.live.lines(ledger));
    this.#isChunked = !this.#isHead && status !== 204 && status !== 304 && !hasField(head, 'content-length');
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
      // The body stays in memory until the kernel accepts its last piece, or the connection closes; a short piece causes
      // no 'drain'.
      this.#connection.socket.write(last, () => this.close());
    } else {
      const head = this.#wholeHead() + (this.#isChunked ? textOfLastChunk : '');
      if (typeof body === 'string') this.#connection.send(head + body, encoding);
      else this.#connection.send(head, 'latin1');
      if (Buffer.isBuffer(body)) this.#connection.sendBehind(body);
    }
    this.#onDone(this);
    // The exchange ends in this turn, and would take an earlier 'close' for a hang-up.
    if (!this.#hasPieces && this.#onClose !== undefined) queueMicrotask(() => this.close());
    return this;
  }

  write(piece: Buffer): boolean {
    if (this.#isClosed) return false;
    const connection = this.#connection;
    if (!this.#hasPieces) {
      this.#hasPieces = true;
      connection.send(this.#wholeHead(), 'latin1');
      connection.flush();
    }
    if (!this.#isChunked) return connection.socket.write(piece);
    // An empty chunk would end the body.
    return piece.length === 0 || connection.socket.write(chunkOf(piece));
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
    if (event === 'close' && this.#onClose === undefined) this.#onClose = [listener];
    else if (event === 'close') this.#onClose?.push(listener);
    else this.#connection.socket.once('drain', listener);
    return this;
  }

  /** Reports that the answer is out, or its client gone. */
  close(): void {
    this.#isClosed = true;
    const listeners = this.#onClose ?? [];
    this.#onClose = undefined;
    for (const listener of listeners) listener();
  }
}

const textOfLastChunk = '0\r\n\r\n';
const lastChunk = Buffer.from(textOfLastChunk);

function chunkOf(piece: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, endOfChunk]);
}

const endOfChunk = Buffer.from('\r\n');
