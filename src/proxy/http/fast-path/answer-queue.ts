/** The written answers of one connection, which leave together at the end of a turn of the event loop. */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { UnsentAnswers } from '../unsent-answers.ts';
import { arenaBytes, type Arena, type Arenas } from './arena.ts';
import type { AnswerSink } from './response.ts';

/** Queues answers until the end of a turn. */
export interface Flushable {
  /** Sends the queued answers, if any. */
  flush(): void;
}

/**
 * Flushes connections together at the end of a turn: consecutive sends find the kernel's code and data in the CPU
 * cache, and one socket gets one write. No answer waits longer than the turn.
 */
export class TurnEnd {
  #sending: Flushable[] = [];
  readonly #flush = (): void => {
    const sending = this.#sending;
    this.#sending = [];
    for (const one of sending) one.flush();
  };

  /** Calls `flush` at the end of this turn. Call it once per turn and connection. */
  add(one: Flushable): void {
    if (this.#sending.length === 0) setImmediate(this.#flush);
    this.#sending.push(one);
  }
}

/** Parts shared by all queues. */
export interface AnswerQueueParts {
  readonly turnEnd: TurnEnd;
  readonly arenas: Arenas;
  readonly proxy: { readonly unsent: UnsentAnswers };
}

/** Joins answers of one form into one write, and counts what the client leaves unread. */
export class AnswerQueue implements AnswerSink, Flushable {
  readonly socket: Socket;
  readonly isEncrypted: boolean;
  readonly #parts: AnswerQueueParts;
  /** Queued text, empty while an arena is queued. */
  #text = '';
  #encoding: 'latin1' | 'utf8' = 'latin1';
  #arena: Arena | undefined;
  #from = 0;
  #to = 0;
  /** Large body that follows the queued answers, in a buffer of its own. */
  #body: Buffer | undefined;

  constructor(socket: Socket, parts: AnswerQueueParts) {
    this.socket = socket;
    this.isEncrypted = socket instanceof TLSSocket;
    this.#parts = parts;
  }

  /** Nothing is queued, and the client has read everything. */
  get isEmpty(): boolean {
    return this.#text === '' && this.#arena === undefined && this.socket.writableLength === 0;
  }

  send(text: string, encoding: 'latin1' | 'utf8'): void {
    // Answers of another form must not overtake the queued ones.
    if (this.#arena !== undefined || this.#body !== undefined || encoding !== this.#encoding) this.flush();
    if (this.#text === '') this.#parts.turnEnd.add(this);
    this.#text += text;
    this.#encoding = encoding;
  }

  sendFrom(arena: Arena, from: number): void {
    const to = arena.used;
    const isNext = this.#arena === arena && this.#to === from && this.#body === undefined;
    if (!isNext) {
      // Ahead of the flush, which would otherwise free the arena.
      this.#parts.arenas.hold(arena);
      this.flush();
      this.#parts.turnEnd.add(this);
      this.#arena = arena;
      this.#from = from;
    }
    this.#to = to;
  }

  sendBehind(body: Buffer): void {
    this.#body = body;
  }

  sendPiece(piece: Buffer, onSent?: () => void): boolean {
    return this.socket.write(piece, onSent);
  }

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
    this.#parts.proxy.unsent.trackSocket(this.socket, this.isEncrypted ? 0 : arenaBytes);
  }

  /** `isCopied`: a body follows, which the client may read slowly, so the arena is released at once. */
  #writeFrom(arena: Arena, isCopied: boolean): void {
    const { bytes } = arena;
    this.#write(isCopied ? copyOf(bytes, this.#from, this.#to) : bytes.subarray(this.#from, this.#to));
    this.#parts.arenas.release(arena, isCopied || this.socket.writableLength === 0);
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
