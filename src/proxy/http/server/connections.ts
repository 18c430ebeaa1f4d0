/**
 * The clients' connections: how many there may be, and how the gateway leaves politely.
 *
 * At the bound a new connection takes the place of those that have waited longest for a next request. An idle connection
 * costs its client one more connect, which clients have to be ready for at any time; a refused one costs an error, and
 * whoever holds the bound's worth of idle ones would keep everybody else out. What has a request under way is never
 * closed, nor what has just sent something: its next request may be on its way. Where all are busy, new ones are told so.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { isAnswered, hasNoRequest, markRefused } from './connection-state.ts';
import type { H2Sessions } from './h2-sessions.ts';

export interface ConnectionsOptions {
  /** Default: no bound. */
  readonly max?: number;
  readonly onRefused?: () => void;
  /** An idle one made room. */
  readonly onDisplaced?: () => void;
  /** Those of the connections that speak HTTP/2, under TLS. */
  readonly sessions?: H2Sessions | undefined;
  /** Has those of the connections that Node's server has not been given. */
  readonly fastPath?: { closeIdle(): void } | undefined;
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
}

/** What was last seen of a connection. */
interface ConnectionActivity {
  bytesRead: number;
  /** Since when nothing came, as far as was looked. */
  quietSinceMs: number;
}

/** How often is looked at who is quiet, where the bound is near. */
const sampleMs = 1_000;
/** Quiet for less is not idle. */
const idleMs = 1_000;
/** To be told that it is one too many, a client has to send its request: it has this long. */
const refusalMs = 2_000;

export class Connections {
  readonly #server: Server;
  readonly #options: ConnectionsOptions;
  readonly #max: number;
  readonly #now: () => number;
  readonly #open = new Map<Socket, ConnectionActivity>();
  /** Beyond the bound, waiting to be told. */
  readonly #refused = new Set<Socket>();
  /** What had come on a connection without a request when it was looked at last. */
  readonly #silent = new WeakMap<Socket, number>();
  readonly #timer: NodeJS.Timeout;
  /** Nobody was idle, and the search is not repeated for each newcomer. */
  #noneIdleUntilMs = -Infinity;

  constructor(server: Server, options: ConnectionsOptions = {}) {
    const { max = Infinity, now = () => performance.now() } = options;
    this.#server = server;
    this.#options = options;
    this.#max = max;
    this.#now = now;
    server.on('connection', (socket: Socket) => this.#accept(socket));
    this.#timer = setInterval(() => this.sample(), sampleMs);
    this.#timer.unref();
    server.once('close', () => clearInterval(this.#timer));
  }

  /** Those within the bound. */
  get open(): number {
    return this.#open.size;
  }

  /** No more requests are wanted: over HTTP/1.1 every answer says so, over HTTP/2 each connection is told. */
  leave(): void {
    this.#options.sessions?.leave();
  }

  /** Closes what waits for a next request, and what has never sent one: Node counts only the former as idle. */
  closeIdle(): void {
    this.#server.closeIdleConnections();
    this.#options.sessions?.close();
    this.#options.fastPath?.closeIdle();
    for (const socket of [...this.#open.keys(), ...this.#refused]) {
      if (this.#isSilent(socket)) socket.destroy();
    }
  }

  /** Closes all, whatever is under way. */
  closeAll(): void {
    this.#server.closeAllConnections();
    for (const socket of [...this.#open.keys(), ...this.#refused]) socket.destroy();
  }

  /** Nothing, or no more than its part of a handshake, has come since it was looked at last: a first request may be on its way. */
  #isSilent(socket: Socket): boolean {
    const { bytesRead } = socket;
    if (bytesRead > 0 && (this.#options.sessions === undefined || !hasNoRequest(socket))) return false;
    const before = this.#silent.get(socket);
    this.#silent.set(socket, bytesRead);
    return before === bytesRead;
  }

  /** Notes who is quiet. Costs nothing far from the bound, and a millisecond or two a second near 10,000. */
  sample(): void {
    if (this.#open.size < this.#max * 0.75) return;
    const nowMs = this.#now();
    for (const [socket, activity] of this.#open) {
      const { bytesRead } = socket;
      if (bytesRead === activity.bytesRead && isAnswered(socket)) continue;
      activity.bytesRead = bytesRead;
      activity.quietSinceMs = nowMs;
    }
  }

  #accept(socket: Socket): void {
    if (this.#open.size < this.#max || this.#makeRoom()) this.#add(socket);
    else this.#refuse(socket);
  }

  #add(socket: Socket): void {
    this.#open.set(socket, { bytesRead: 0, quietSinceMs: this.#now() });
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Beside the bound, a few may wait for their 503; the others are only closed. */
  #refuse(socket: Socket): void {
    this.#options.onRefused?.();
    if (this.#refused.size >= Math.max(16, this.#max / 50)) {
      socket.destroy();
      return;
    }
    markRefused(socket);
    this.#refused.add(socket);
    const timer = setTimeout(() => socket.destroy(), refusalMs);
    socket.once('close', () => {
      clearTimeout(timer);
      this.#refused.delete(socket);
    });
  }

  /** Closes a hundredth of the bound at a time, so that the search is paid for by as many newcomers. */
  #makeRoom(): boolean {
    const nowMs = this.#now();
    if (nowMs < this.#noneIdleUntilMs) return false;
    const idle = [...this.#open].filter(
      ([socket, { bytesRead, quietSinceMs }]) =>
        nowMs - quietSinceMs >= idleMs && socket.bytesRead === bytesRead && isAnswered(socket),
    );
    idle.sort(([, a], [, b]) => a.quietSinceMs - b.quietSinceMs);
    const chosen = idle.slice(0, Math.max(1, Math.floor(this.#max / 100)));
    for (const [socket] of chosen) {
      this.#open.delete(socket);
      socket.destroy();
      this.#options.onDisplaced?.();
    }
    if (chosen.length === 0) this.#noneIdleUntilMs = nowMs + sampleMs / 4;
    return chosen.length > 0;
  }
}
