/**
 * One client's connection while the front has it. Requests are answered one after the other; with the first bytes that
 * are not taken the connection goes to the HTTP server, for good, before anything of that request was answered.
 */
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { answerRead, guard } from '../proxy/answer-read.ts';
import { isRefused, setAnswering } from '../proxy/connection-state.ts';
import { Exchange } from '../proxy/exchange.ts';
import type { ServerParts } from '../proxy/server-parts.ts';
import type { ConnectionHeaders } from './connection-headers.ts';
import { FrontResponse } from './front-response.ts';
import { readOf } from './read-target.ts';
import { ownCopy, readHead, type HeaderBlocks, type RequestHead } from './request-head.ts';
import type { Alias } from '../proxy/aliases.ts';

/** What all connections share. */
export interface FrontParts {
  readonly proxy: ServerParts;
  readonly blocks: HeaderBlocks;
  readonly headers: ConnectionHeaders;
  /** Takes the connection over: what it sends next is `rest` and then what comes. */
  handOver(connection: FrontConnection, rest: Buffer): void;
  onClose(connection: FrontConnection): void;
}

/** What a client may send ahead of an answer before it is read no further. */
const mostAhead = 64 * 1024;

export class FrontConnection {
  readonly socket: Socket;
  /** When the last answer was given, or the connection accepted; `performance.now()`. */
  quietSinceMs = performance.now();
  /** Whether a request has come on it. */
  isAsked = false;
  readonly #parts: FrontParts;
  readonly #listeners;
  #answering: FrontResponse | undefined;
  /** What came meanwhile. */
  #ahead: Buffer | undefined;

  constructor(socket: Socket, parts: FrontParts) {
    this.socket = socket;
    this.#parts = parts;
    this.#listeners = {
      data: (chunk: Buffer) => this.#take(chunk),
      end: () => this.#end(),
      error: () => socket.destroy(),
      close: () => this.#close(),
    };
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
  }

  /** Nothing is under way on it: neither an answer nor bytes that the client has not taken. */
  get isIdle(): boolean {
    return this.#answering === undefined && this.socket.writableLength === 0;
  }

  #take(chunk: Buffer): void {
    if (this.#answering === undefined) return this.#serve(chunk);
    this.#ahead = this.#ahead === undefined ? chunk : Buffer.concat([this.#ahead, chunk]);
    if (this.#ahead.length > mostAhead) this.socket.pause();
    return undefined;
  }

  /** Answers the requests in `chunk` in order, as far as they are taken. */
  #serve(chunk: Buffer): void {
    const text = chunk.toString('latin1');
    for (let from = 0; from < text.length;) {
      const head = this.#mayAnswer() ? readHead(text, from, this.#parts.blocks) : undefined;
      if (head === undefined || !this.#answer(head)) return this.#leave(from === 0 ? chunk : chunk.subarray(from));
      from = head.end;
      if (this.socket.destroyed || this.socket.writableEnded) return undefined;
      if (this.#answering !== undefined && from < text.length) this.#ahead = chunk.subarray(from);
      if (this.#answering !== undefined) return undefined;
    }
    return undefined;
  }

  /** Who is refused, or takes nothing of what was written already, is dealt with by the server. */
  #mayAnswer(): boolean {
    const { gate } = this.#parts.proxy;
    return this.socket.writableLength === 0 && !isRefused(this.socket) && gate?.isOpen() !== false;
  }

  /** False: the request is not taken. */
  #answer(head: RequestHead): boolean {
    const { proxy } = this.#parts;
    const { target, block } = head;
    const { accept } = block.headers;
    const alias = proxy.aliases.find(target, accept) ?? this.#learn(target, accept);
    if (alias === undefined) return false;
    this.isAsked = true;
    this.#begin(head, alias);
    return true;
  }

  #learn(target: string, accept: string | undefined): Alias | undefined {
    const own = ownCopy(target);
    const alias = readOf(own, accept, this.#parts.proxy);
    if (alias !== undefined) this.#parts.proxy.aliases.learn(own, accept, alias);
    return alias;
  }

  #begin({ method, target, block: { headers } }: RequestHead, { route, read }: Alias): void {
    const { proxy, headers: ownHeaders } = this.#parts;
    const { socket } = this;
    const response = new FrontResponse({ socket, headers: ownHeaders, onDone: (done) => this.#done(done) });
    this.#answering = response;
    const request = { method, url: target, headers, socket, httpVersion: '1.1', httpVersionMajor: 1 };
    const exchange = new Exchange(request, response, route, proxy.observer);
    void guard(proxy, exchange, () => answerRead(proxy, exchange, read));
    if (this.#answering === undefined) return;
    this.quietSinceMs = performance.now();
    setAnswering(socket, true);
  }

  #done(response: FrontResponse): void {
    if (this.#answering !== response) return;
    this.#answering = undefined;
    this.quietSinceMs = performance.now();
    setAnswering(this.socket, false);
    if (!response.shouldKeepAlive) {
      this.socket.destroySoon();
      return;
    }
    const ahead = this.#ahead;
    if (ahead === undefined) return;
    this.#ahead = undefined;
    this.socket.resume();
    this.#serve(ahead);
  }

  #leave(rest: Buffer): void {
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    this.#parts.handOver(this, rest);
  }

  /** The client sends no more, which Node's server takes for a hang-up too. */
  #end(): void {
    this.#giveUp();
    this.socket.end();
  }

  #close(): void {
    this.#giveUp();
    this.#parts.onClose(this);
  }

  #giveUp(): void {
    const answering = this.#answering;
    this.#answering = undefined;
    answering?.close();
  }
}
