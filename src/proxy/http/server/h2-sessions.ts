/**
 * Connections that speak HTTP/2: how long they may be quiet, and how they are left. HTTP/2 has no `Connection: close`
 * for an answer: it has GOAWAY for the connection. Some clients fail what they have under way when it comes, so that it
 * is said when nothing is, unless time is up.
 */
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { isRefused, noteStreamBegin, noteStreamEnd } from './connection-state.ts';
import { bindSession } from './h2-messages.ts';

export interface SessionTimes {
  /** For the first request, from the handshake on. */
  readonly headMs: number;
  /** Without a request under way. */
  readonly idleMs: number;
  /** Nothing read or written for so long on a stream. */
  readonly inactivityMs: number;
}

interface SessionState {
  readonly socket: Socket;
  streams: number;
  /** Runs from the end of the last stream. */
  timer: NodeJS.Timeout;
  isEnding: boolean;
}

/** After GOAWAY a client has this long to close; with streams under way, from the end of the last. */
const closeMs = 1_000;

export class H2Sessions {
  readonly #times: SessionTimes;
  readonly #open = new Map<ServerHttp2Session, SessionState>();
  #isLeaving = false;

  constructor(times: SessionTimes) {
    this.#times = times;
  }

  /** A connection was made. */
  add(session: ServerHttp2Session, socket: Socket): void {
    bindSession(session, socket);
    const timer = this.#closeAfter(session, this.#times.headMs);
    this.#open.set(session, { socket, streams: 0, timer, isEnding: false });
    session.once('close', () => {
      clearTimeout(this.#open.get(session)?.timer);
      this.#open.delete(session);
    });
  }

  /** A request came. */
  begin(stream: ServerHttp2Stream): void {
    const { session } = stream;
    const open = session === undefined ? undefined : this.#open.get(session as ServerHttp2Session);
    if (session === undefined || open === undefined) return;
    open.streams += 1;
    noteStreamBegin(open.socket);
    stream.setTimeout(this.#times.inactivityMs, () => stream.close(constants.NGHTTP2_CANCEL));
    // With nobody reading what had come, it would stay open for ever.
    stream.once('aborted', () => queueMicrotask(() => stream.destroy()));
    stream.once('close', () => {
      open.streams -= 1;
      noteStreamEnd(open.socket);
      if (open.streams === 0) this.#idle(session as ServerHttp2Session, open);
    });
  }

  /** From now on every connection is left as soon as nothing is under way on it. */
  leave(): void {
    this.#isLeaving = true;
    for (const [session, { streams }] of this.#open) if (streams === 0) this.#close(session);
  }

  /** Leaves all now: what is under way is answered, and nothing more is taken. */
  close(): void {
    this.#isLeaving = true;
    for (const session of this.#open.keys()) this.#close(session);
  }

  #idle(session: ServerHttp2Session, open: SessionState): void {
    if (session.destroyed) return;
    if (this.#isLeaving || isRefused(open.socket)) {
      this.#close(session);
      return;
    }
    clearTimeout(open.timer);
    open.timer = this.#closeAfter(session, this.#times.idleMs);
  }

  #closeAfter(session: ServerHttp2Session, ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      if (this.#open.get(session)?.streams === 0) this.#close(session);
    }, ms);
  }

  #close(session: ServerHttp2Session): void {
    const open = this.#open.get(session);
    if (session.destroyed || open === undefined) return;
    if (!session.closed) session.close();
    if (open.streams > 0 || open.isEnding) return;
    open.isEnding = true;
    clearTimeout(open.timer);
    // A session that ends waits for its client to close the connection, which may never come.
    open.timer = setTimeout(() => {
      session.destroy();
      open.socket.destroy();
    }, closeMs);
  }
}
