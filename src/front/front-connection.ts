/**
 * One client's connection while the front has it. Requests are answered one after the other; with the first bytes that
 * are not taken the connection goes to the HTTP server, for good, before anything of that request was answered.
 */
import type { Socket } from 'node:net';
import type { FrontMetrics } from '../metrics/http-metrics.ts';
import { ownCopy, type Alias } from '../proxy/aliases.ts';
import { answerRead, guard, isOfLatest } from '../proxy/answer-read.ts';
import { isRefused, setAnswering } from '../proxy/connection-state.ts';
import { Exchange } from '../proxy/exchange.ts';
import type { Read } from '../proxy/read.ts';
import type { ServerParts } from '../proxy/server-parts.ts';
import type { Sending, TurnEnd } from './turn-end.ts';
import { arenaBytes, type Arena, type Arenas } from './arena.ts';
import { FrontResponse, type Answering } from './front-response.ts';
import type { KnownHits } from './known-hits.ts';
import type { LiveHeaders } from './live-headers.ts';
import { readOf } from './read-target.ts';
import { readHead, type HeaderBlocks, type RequestHead } from './request-head.ts';

/** What all connections share. */
export interface FrontParts {
  readonly proxy: ServerParts;
  readonly metrics: FrontMetrics;
  readonly blocks: HeaderBlocks;
  readonly live: LiveHeaders;
  readonly hits: KnownHits;
  readonly turnEnd: TurnEnd;
  readonly arenas: Arenas;
  /** Takes the connection over: what it sends next is `rest` and then what comes. */
  handOver(connection: FrontConnection, rest: Buffer): void;
  onClose(connection: FrontConnection): void;
}

/** Whoever sends more requests in one go is dealt with by the server, which has bounds for that. */
const mostAtOnce = 16;
/** What a client may send ahead of an answer before it is read no further. */
const mostAhead = 64 * 1024;

export class FrontConnection implements Answering, Sending {
  readonly socket: Socket;
  readonly #parts: FrontParts;
  readonly #listeners;
  #isAsked = false;
  /** Something has happened since it was looked at last. */
  #isActive = true;
  #quietSinceMs = 0;
  #answering: FrontResponse | undefined;
  /** What came meanwhile. */
  #ahead: Buffer | undefined;
  /** Answers that go out at the end of the turn. */
  #text = '';
  #encoding: 'latin1' | 'utf8' = 'latin1';
  #arena: Arena | undefined;
  /** Large, and of its own: it goes out behind them. */
  #body: Buffer | undefined;
  #from = 0;
  #to = 0;

  constructor(socket: Socket, parts: FrontParts) {
    this.socket = socket;
    this.#parts = parts;
    this.#listeners = {
      data: (chunk: Buffer) => this.#take(chunk),
      end: () => this.#end(),
      timeout: () => this.#endStuck(),
      error: () => socket.destroy(),
      close: () => this.#close(),
    };
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
  }

  /** Nothing is under way on it: neither an answer nor bytes that the client has not taken. */
  get isIdle(): boolean {
    return this.#answering === undefined && !this.#isSending && this.socket.writableLength === 0;
  }

  get #isSending(): boolean {
    return this.#text !== '' || this.#arena !== undefined;
  }

  send(text: string, encoding: 'latin1' | 'utf8'): void {
    // What comes in another form goes behind what waits.
    if (this.#arena !== undefined || this.#body !== undefined || encoding !== this.#encoding) this.flush();
    if (this.#text === '') this.#parts.turnEnd.add(this);
    this.#text += text;
    this.#encoding = encoding;
  }

  sendFrom(arena: Arena, from: number): void {
    const to = arena.used;
    const isNext = this.#arena === arena && this.#to === from && this.#body === undefined;
    if (!isNext) {
      // First, so that what is sent now does not free it.
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
    this.#text = '';
    this.#arena = undefined;
    this.#body = undefined;
    if (body !== undefined) this.socket.cork();
    if (text !== '') this.#write(text);
    else if (arena !== undefined) this.#writeFrom(arena, body !== undefined);
    if (body !== undefined) {
      this.#write(body);
      this.socket.uncork();
    }
    // Short answers that a client does not take keep the whole of an arena.
    if (this.socket.writableLength > 0) this.#parts.proxy.untaken.noteLeftOn(this.socket, arenaBytes);
  }

  /** `isCopied`: a body comes behind it, which the client may take long over, and the arena is for others. */
  #writeFrom(arena: Arena, isCopied: boolean): void {
    const bytes = arena.bytes.subarray(this.#from, this.#to);
    this.#write(isCopied ? Buffer.from(bytes) : bytes);
    this.#parts.arenas.release(arena, isCopied || this.socket.writableLength === 0);
  }

  #write(bytes: string | Buffer): void {
    if (!this.socket.destroyed) this.socket.write(bytes, this.#encoding);
  }

  /** Whether a request has come on it. */
  get isAsked(): boolean {
    return this.#isAsked;
  }

  /** For how long it has been idle, as far as was looked. To be called every few seconds, with `performance.now()`. */
  quietMs(nowMs: number): number {
    if (this.#isActive || !this.isIdle) {
      this.#isActive = false;
      this.#quietSinceMs = nowMs;
    }
    return nowMs - this.#quietSinceMs;
  }

  /**
   * Has the socket tell where nothing moves for so long while something is under way: it alone sees what a client takes
   * of a large answer. To be called as often as `quietMs`: told with each answer, hits would pay for it.
   */
  watch(inactivityMs: number): void {
    const timeoutMs = this.isIdle ? 0 : inactivityMs;
    if (timeoutMs !== (this.socket.timeout ?? 0)) this.socket.setTimeout(timeoutMs);
  }

  #endStuck(): void {
    // It may have become idle since it was looked at.
    if (!this.isIdle) this.socket.destroy();
  }

  #take(chunk: Buffer): void {
    // The last answer was given: what comes behind it is not read as a request any more (RFC 9112 9.6).
    if (this.socket.writableEnded) return;
    this.#isActive = true;
    this.#isAsked = true;
    if (this.#answering !== undefined) this.#keepAhead(chunk);
    else this.#serve(chunk);
  }

  /** Answers the requests in `chunk` in order, as far as they are taken. */
  #serve(chunk: Buffer): void {
    const text = chunk.toString('latin1');
    let answered = 0;
    for (let from = 0; from < text.length; answered += 1) {
      const head = answered < mostAtOnce && this.#mayAnswer() ? readHead(text, from, this.#parts.blocks) : undefined;
      if (head === undefined || !this.#answer(head)) return this.#leave(from === 0 ? chunk : chunk.subarray(from));
      from = head.end;
      if (this.socket.destroyed || this.socket.writableEnded) return undefined;
      if (this.#answering !== undefined && from < text.length) this.#keepAhead(chunk.subarray(from));
      if (this.#answering !== undefined) return undefined;
    }
    return undefined;
  }

  /** Who is refused, or takes nothing of what was written already, is dealt with by the server. */
  #mayAnswer(): boolean {
    return this.socket.writableLength === 0 && !isRefused(this.socket);
  }

  #keepAhead(bytes: Buffer): void {
    this.#ahead = this.#ahead === undefined ? bytes : Buffer.concat([this.#ahead, bytes]);
    if (this.#ahead.length > mostAhead) this.socket.pause();
  }

  #serveAhead(): void {
    const ahead = this.#ahead;
    if (ahead === undefined) return;
    this.#ahead = undefined;
    // Paused again where too much of it is left.
    this.socket.resume();
    this.#serve(ahead);
  }

  /** False: the request is not taken. */
  #answer(head: RequestHead): boolean {
    const { method, target, block } = head;
    const { proxy, hits, metrics } = this.#parts;
    const known = proxy.aliases.find(target, block.form);
    const alias = known ?? readOf(target, block.headers.accept, proxy);
    if (alias === undefined) return false;
    const kept = known ?? this.#learnt(head, alias);
    if (method === 'GET' && kept !== undefined && hits.answer(block, kept, this)) {
      metrics.known.inc();
      return true;
    }
    metrics.read.inc();
    this.#begin(head, kept ?? alias);
    return true;
  }

  /** As it is kept from now on, or for this once; `undefined`: memory has no answer to it. */
  #learnt(head: RequestHead, alias: Alias): Alias | undefined {
    if (!this.#comesAgain(alias.read)) return undefined;
    return this.#parts.proxy.aliases.isWorthLearning() ? this.#learn(head) : alias;
  }

  /** Most targets with a version of their own come once: they would push out those that come again. */
  #comesAgain(read: Read): boolean {
    return isOfLatest(read) || this.#parts.proxy.reader.locate(read) !== undefined;
  }

  #learn({ target, block }: RequestHead): Alias | undefined {
    // One that is kept must not keep the text of all that came with it.
    const own = ownCopy(target);
    const alias = readOf(own, block.headers.accept, this.#parts.proxy);
    if (alias !== undefined) this.#parts.proxy.aliases.learn(own, alias);
    return alias;
  }

  #begin({ method, target, block: { headers, isKept } }: RequestHead, { route, read }: Alias): void {
    const { proxy, live } = this.#parts;
    const { socket } = this;
    const response = new FrontResponse({ connection: this, live, onDone: (done) => this.#done(done) });
    response.shouldKeepAlive = isKept;
    this.#answering = response;
    const request = { method, url: target, headers, socket, httpVersion: '1.1', httpVersionMajor: 1 };
    const exchange = new Exchange(request, response, route, proxy.observer);
    void guard(proxy, exchange, () => answerRead(proxy, exchange, read));
    if (this.#answering !== undefined) setAnswering(socket, true);
  }

  #done(response: FrontResponse): void {
    if (this.#answering !== response) return;
    this.#answering = undefined;
    this.#isActive = true;
    setAnswering(this.socket, false);
    if (!response.shouldKeepAlive) {
      this.finish();
      return;
    }
    this.#serveAhead();
  }

  #leave(rest: Buffer): void {
    this.flush();
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    this.#parts.handOver(this, rest);
  }

  /** The client sends no more, which Node's server takes for a hang-up too. */
  #end(): void {
    if (this.#answering?.headersSent === true) {
      // The rest of its body is sent at the client's pace; the connection ends behind it.
      this.#answering.shouldKeepAlive = false;
      return;
    }
    this.#giveUp();
    this.flush();
    this.socket.end();
  }

  #close(): void {
    this.#giveUp();
    this.#parts.onClose(this);
  }

  #giveUp(): void {
    const answering = this.#answering;
    this.#answering = undefined;
    this.#ahead = undefined;
    answering?.close();
  }
}
