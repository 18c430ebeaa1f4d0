/**
 * Bounds client connections and closes them during a drain.
 *
 * At the bound a new connection displaces the longest idle ones. A displaced client reconnects, which HTTP clients
 * handle at any time; without displacement, idle connections could block every newcomer. Connections with a request in
 * flight or recent bytes are never displaced. With all connections busy, a newcomer gets 503.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { isAnswered, stateOf } from './connection-state.ts';
import type { H2Sessions } from './h2-sessions.ts';

interface ConnectionsOptions {
  readonly max: number;
  readonly onRefused?: () => void;
  /** Called for each idle connection closed for a newcomer. */
  readonly onDisplaced?: () => void;
  /** HTTP/2 sessions among the connections, under TLS. */
  readonly sessions?: H2Sessions | undefined;
  /** Connections of the fast path, which Node's server does not track. */
  readonly fastPath?: { closeIdle(): void } | undefined;
  /** Event streams, whose answers have no end of their own. */
  readonly streams?: { drain(): void } | undefined;
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
}

/** Times of a drain. */
export interface DrainOptions {
  /**
   * Milliseconds between unreadiness and the closed port: balancers keep sending until their next check. Every answer
   * in this time closes its connection.
   */
  readonly delayMs: number;
  /** Milliseconds that answers in flight then have to finish. */
  readonly maxMs: number;
  /** Called when `maxMs` elapses with requests in flight. */
  readonly onCutOff: () => void;
}

interface ConnectionActivity {
  bytesRead: number;
  /** Time of the last sample that saw activity. */
  quietSinceMs: number;
}

/** Interval at which a drain closes idle connections. */
const sweepMs = 50;
const sampleMs = 1_000;
/** A connection quiet for less than this is not idle. */
const idleMs = 1_000;
/** A connection above the bound has this long to send the request that its 503 answers. */
const refusalMs = 2_000;

/** The open connections of one server. */
export class Connections {
  readonly #server: Server;
  readonly #options: ConnectionsOptions;
  readonly #now: () => number;
  readonly #open = new Map<Socket, ConnectionActivity>();
  /** Connections above the bound that wait for their 503. */
  readonly #refused = new Set<Socket>();
  /** `bytesRead` of connections without a request at the previous check. */
  readonly #silent = new WeakMap<Socket, number>();
  /** No search before this time: the last one found no idle connection. */
  #noneIdleUntilMs = -Infinity;

  constructor(server: Server, options: ConnectionsOptions) {
    this.#server = server;
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    server.on('connection', (socket: Socket) => {
      if (this.#open.size < options.max || this.#makeRoom()) this.#add(socket);
      else this.#refuse(socket);
    });
    const timer = setInterval(() => this.sample(), sampleMs).unref();
    server.once('close', () => clearInterval(timer));
  }

  /** Number of connections within the bound. */
  get open(): number {
    return this.#open.size;
  }

  /** Drains `proxy`: late requests are answered, and answers in flight finish. Resolves when no connection is left. */
  async drain(proxy: FastifyInstance, { delayMs, maxMs, onCutOff }: DrainOptions): Promise<void> {
    // HTTP/2 clients leave by GOAWAY; HTTP/1.1 clients get `Connection: close` with each answer.
    this.#options.sessions?.leave();
    if (delayMs > 0) await sleep(delayMs);
    this.#options.streams?.drain();
    const closed = proxy.close();
    this.#closeIdle();
    // An answer begun before the drain promised keep-alive: its connection becomes idle later.
    const sweep = setInterval(() => this.#closeIdle(), sweepMs);
    const timer = setTimeout(() => {
      onCutOff();
      this.#server.closeAllConnections();
      for (const socket of [...this.#open.keys(), ...this.#refused]) socket.destroy();
    }, maxMs);
    await closed;
    clearTimeout(timer);
    clearInterval(sweep);
  }

  /** Closes idle connections and those without any request, which Node does not count as idle. */
  #closeIdle(): void {
    this.#server.closeIdleConnections();
    this.#options.sessions?.close();
    this.#options.fastPath?.closeIdle();
    for (const socket of [...this.#open.keys(), ...this.#refused]) {
      if (this.#isSilent(socket)) socket.destroy();
    }
  }

  /**
   * Whether no bytes beyond a handshake arrived since the previous check; a first request may be on its way otherwise.
   */
  #isSilent(socket: Socket): boolean {
    const { bytesRead } = socket;
    if (bytesRead > 0 && (this.#options.sessions === undefined || !stateOf(socket).hasNoRequest)) return false;
    const before = this.#silent.get(socket);
    this.#silent.set(socket, bytesRead);
    return before === bytesRead;
  }

  /**
   * Updates the activity of each connection. Skipped far from the bound; 1 to 2 ms a second near 10,000 connections.
   */
  sample(): void {
    if (this.#open.size < this.#options.max * 0.75) return;
    const nowMs = this.#now();
    for (const [socket, activity] of this.#open) {
      const { bytesRead } = socket;
      if (bytesRead === activity.bytesRead && isAnswered(socket)) continue;
      activity.bytesRead = bytesRead;
      activity.quietSinceMs = nowMs;
    }
  }

  #add(socket: Socket): void {
    this.#open.set(socket, { bytesRead: 0, quietSinceMs: this.#now() });
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Lets a few connections above the bound wait for their 503, and destroys the others. */
  #refuse(socket: Socket): void {
    this.#options.onRefused?.();
    if (this.#refused.size >= Math.max(16, this.#options.max / 50)) {
      socket.destroy();
      return;
    }
    stateOf(socket).isRefused = true;
    this.#refused.add(socket);
    const timer = setTimeout(() => socket.destroy(), refusalMs);
    socket.once('close', () => {
      clearTimeout(timer);
      this.#refused.delete(socket);
    });
  }

  /** Closes a hundredth of the bound at a time, which spreads the cost of the search over as many newcomers. */
  #makeRoom(): boolean {
    const nowMs = this.#now();
    if (nowMs < this.#noneIdleUntilMs) return false;
    const idle = [...this.#open].filter(
      ([socket, { bytesRead, quietSinceMs }]) =>
        nowMs - quietSinceMs >= idleMs && socket.bytesRead === bytesRead && isAnswered(socket),
    );
    idle.sort(([, a], [, b]) => a.quietSinceMs - b.quietSinceMs);
    const chosen = idle.slice(0, Math.max(1, Math.floor(this.#options.max / 100)));
    for (const [socket] of chosen) {
      this.#open.delete(socket);
      socket.destroy();
      this.#options.onDisplaced?.();
    }
    if (chosen.length === 0) this.#noneIdleUntilMs = nowMs + sampleMs / 4;
    return chosen.length > 0;
  }
}
