/**
 * The fast path accepts connections ahead of Node's HTTP server and answers plain reads. Anything else hands the
 * connection over, with every unanswered byte (docs/fast-path.md).
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { keepAliveMs } from '../heads.ts';
import type { FastPathMetrics } from '../http-metrics.ts';
import { stateOf } from '../server/connection-state.ts';
import { endInput, intercept } from '../server/paced-input.ts';
import type { ServerParts } from '../service.ts';
import { DirectMatches } from '../target-cache.ts';
import { AnswerTurn } from './answer-queue.ts';
import { type ConnectionOwner, FastConnection, lateCode } from './connection.ts';
import { FastStreams } from './h2-hits.ts';
import { HitText } from './hit-text.ts';
import { PreparedHits, PreparedInfo, SharedHeads } from './prepared-hits.ts';
import type { FastPathParts } from './request-answers.ts';
import { HeaderBlocks } from './request-head.ts';

/** The fast path of one server. */
export class FastPath implements ConnectionOwner {
  readonly #server: Server;
  readonly #proxy: ServerParts;
  readonly #metrics: FastPathMetrics;
  readonly #open = new Set<FastConnection>();
  readonly #timer: NodeJS.Timeout;
  readonly #passOn: (socket: Socket) => void;

  /** Throws when `server` has a connection listener besides its own. */
  constructor(server: Server, proxy: ServerParts, metrics: FastPathMetrics) {
    this.#server = server;
    this.#proxy = proxy;
    this.#metrics = metrics;
    const { tls } = proxy;
    const turn = new AnswerTurn();
    const sharedHeads = new SharedHeads();
    const hitText = new HitText(proxy, turn);
    const parts: FastPathParts = {
      proxy,
      metrics,
      blocks: new HeaderBlocks(),
      turn,
      directMatches: new DirectMatches(),
      hits: new PreparedHits(proxy, hitText, sharedHeads),
      info: new PreparedInfo(proxy, hitText),
    };
    const accept = (socket: Socket): void => void this.#open.add(new FastConnection(socket, parts, this));
    this.#passOn = tls === undefined ? intercept(server, accept) : tls.intercept(accept);
    if (tls !== undefined) new FastStreams(tls, parts, sharedHeads);
    this.#timer = setInterval(() => this.#closeQuiet(), proxy.times.checkMs).unref();
    server.once('close', () => clearInterval(this.#timer));
  }

  handOver(connection: FastConnection, rest: Buffer): void {
    this.#open.delete(connection);
    this.#metrics.handovers.inc();
    const { socket } = connection;
    this.#passOn(socket);
    if (socket.readableEnded) endInput(socket, rest);
    else {
      socket.unshift(rest);
      socket.resume();
    }
  }

  /** Emits the error that Node's server would. */
  refuse(socket: Socket, code: string): void {
    this.#server.emit('clientError', Object.assign(new Error('incomplete request'), { code }), socket);
  }

  onClose(connection: FastConnection): void {
    this.#open.delete(connection);
  }

  /** Closes the connections between two requests. */
  closeIdle(): void {
    for (const connection of this.#open) {
      if (stateOf(connection.socket).isOnFastPath && connection.isIdle) connection.socket.destroy();
    }
  }

  /** Closes connections quiet for as long as Node's server would wait, and watches the busy ones. */
  #closeQuiet(): void {
    const nowMs = performance.now();
    const { headMs, requestMs, inactivityMs: usualMs } = this.#proxy.times;
    // A reload may change it.
    const inactivityMs = this.#server.timeout || usualMs;
    for (const connection of this.#open) {
      const { socket } = connection;
      connection.watch(inactivityMs);
      connection.refuseLate(requestMs, nowMs);
      const quietMs = connection.quietMs(nowMs);
      const { isOnFastPath, isRefused } = stateOf(socket);
      if (isOnFastPath) {
        if (quietMs > keepAliveMs) socket.destroy();
      } else if (quietMs > headMs && !isRefused) {
        this.refuse(socket, lateCode);
      }
    }
  }
}
