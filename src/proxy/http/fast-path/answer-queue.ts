/**
 * The written answers of one connection, which leave together at the end of a turn of the event loop, and the memory that
 * all connections write them into.
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { LiveHeaders } from '../heads.ts';
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

  /**
   * Sends a piece of a body now, behind queued answers; false: wait for 'drain'. The socket calls `onSent` later, once
   * the kernel accepts the piece or the connection closes.
   */
  sendPiece(piece: Buffer, onSent?: () => void): boolean {
    return this.socket.write(piece, onSent);
  }

  /** Sends queued answers, and ends the connection. */
  finish(): void {
    this.flush();
    this.socket.destroySoon();
  }

  /** Sends queued answers now, if there are any. */
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
