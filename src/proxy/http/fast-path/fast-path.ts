/**
 * The fast path accepts connections ahead of Node's HTTP server and answers plain reads. Anything else hands the
 * connection over, with every unanswered byte (docs/fast-path.md).
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { stateOf } from '../server/connection-state.ts';
import { keepAliveMs } from '../server/listener.ts';
import { endInput, intercept } from '../server/paced-input.ts';
import type { FastPathMetrics } from '../request-metrics.ts';
import type { ServerParts } from '../service.ts';
import { TurnEnd } from './answer-queue.ts';
import { Arenas } from './arena.ts';
import { DirectMatches } from './direct-matches.ts';
import { FastConnection, lateCode, type FastPathParts } from './connection.ts';
import { FastStreams } from './fast-streams.ts';
import { LiveHeaders } from './head-text.ts';
import { HitStream } from './hit-stream.ts';
import { HitText } from './hit-text.ts';
import { PreparedHits } from './prepared-hits.ts';
import { SharedHeads } from './prepared-heads.ts';
import { PreparedInfo } from './prepared-info.ts';
import { HeaderBlocks } from './request-head.ts';

/** The fast path of one server. */
export class FastPath {
  readonly #server: Server;
  readonly #parts: ServerParts;
  readonly #open = new Set<FastConnection>();
  readonly #timer: NodeJS.Timeout;

  /** Throws when `server` has a connection listener besides its own. */
  constructor(server: Server, parts: ServerParts, metrics: FastPathMetrics) {
    this.#server = server;
    this.#parts = parts;
    const accept = (socket: Socket): void => void this.#open.add(new FastConnection(socket, shared));
    const passOn = parts.tls === undefined ? intercept(server, accept) : parts.tls.intercept(accept);
    const live = new LiveHeaders();
    const arenas = new Arenas();
    const blocks = new HeaderBlocks();
    const sharedHeads = new SharedHeads();
    const hitText = new HitText(parts, live, arenas);
    const shared: FastPathParts = {
      proxy: parts,
      metrics,
      blocks,
      live,
      hits: new PreparedHits(parts, hitText, sharedHeads),
      info: new PreparedInfo(parts, hitText),
      directMatches: new DirectMatches(),
      arenas,
      turnEnd: new TurnEnd(),
      handOver: (connection, rest) => {
        this.#open.delete(connection);
        metrics.handovers.inc();
        const { socket } = connection;
        passOn(socket);
        if (socket.readableEnded) endInput(socket, rest);
        else {
          socket.unshift(rest);
          socket.resume();
        }
      },
      refuse: ({ socket }, code) => this.#refuse(socket, code),
      onClose: (connection) => this.#open.delete(connection),
    };
    if (parts.tls !== undefined) {
      const hits = new PreparedHits(parts, new HitStream(parts.memory), sharedHeads);
      new FastStreams({ proxy: parts, metrics, blocks, hits, tls: parts.tls }).intercept();
    }
    this.#timer = setInterval(() => this.#closeQuiet(), parts.times.checkMs).unref();
    server.once('close', () => clearInterval(this.#timer));
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
    const { headMs, requestMs, inactivityMs: usualMs } = this.#parts.times;
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
        this.#refuse(socket, lateCode);
      }
    }
  }

  /** Emits the error that Node's server would. */
  #refuse(socket: Socket, code: string): void {
    this.#server.emit('clientError', Object.assign(new Error('incomplete request'), { code }), socket);
  }
}
