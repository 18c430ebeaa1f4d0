/**
 * Idle times and shutdown of HTTP/2 connections. GOAWAY replaces `Connection: close`; some clients fail their open
 * streams on GOAWAY, so the gateway sends it on idle connections, unless the drain's time is up.
 */
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { stateOf, type ConnectionState } from './connection-state.ts';
import { bindSession } from './h2-messages.ts';

/** Bounds of an HTTP/2 connection's times. */
export interface SessionTimes {
  /** Milliseconds from the handshake to the first request. */
  readonly headMs: number;
  /** Milliseconds without a stream. */
  readonly idleMs: number;
  /** Milliseconds without a byte on a stream. */
  readonly inactivityMs: number;
}

/** A session until its 'close' event. */
export interface OpenSession {
  readonly session: ServerHttp2Session;
  readonly socket: Socket;
  /** Counts its streams. */
  readonly state: ConnectionState;
  /** Runs while no stream is open. */
  timer: NodeJS.Timeout | undefined;
  isEnding: boolean;
  /** Streams answered in this turn of the event loop count as one. */
  isAnswering: boolean;
}

/** Called for a stream that is still open at the end of the turn in which its answer was queued. */
type OnUnsent = (stream: ServerHttp2Stream) => void;

/** Milliseconds that a client has to close after GOAWAY and its last stream. */
const closeMs = 1_000;

/** The HTTP/2 sessions of one TLS listener. */
export class H2Sessions {
  readonly #times: SessionTimes;
  readonly #open = new Map<ServerHttp2Session, OpenSession>();
  #isLeaving = false;
  #answered: ServerHttp2Stream[] = [];
  #answering: OpenSession[] = [];
  /** The fast path sets it, and counts the unsent bytes there. */
  onUnsent: OnUnsent = () => undefined;

  constructor(times: SessionTimes) {
    this.#times = times;
  }

  /** Tracks a new session. */
  add(session: ServerHttp2Session, socket: Socket): void {
    bindSession(session, socket);
    const state = stateOf(socket);
    const open: OpenSession = { session, socket, state, timer: undefined, isEnding: false, isAnswering: false };
    this.#open.set(session, open);
    open.timer = this.#closeAfter(open, this.#times.headMs);
    session.once('close', () => {
      clearTimeout(open.timer);
      this.#open.delete(session);
    });
  }

  /** Tracks a new stream. */
  begin(stream: ServerHttp2Stream): void {
    const { session } = stream;
    const open = session === undefined ? undefined : this.#open.get(session as ServerHttp2Session);
    if (session === undefined || open === undefined) return;
    noteStream(open, 1);
    stream.setTimeout(this.#times.inactivityMs, () => stream.close(constants.NGHTTP2_CANCEL));
    // An aborted stream with unread data would stay open for ever.
    stream.once('aborted', () => queueMicrotask(() => stream.destroy()));
    // After a reset with NO_ERROR, Node destroys no stream that has unsent data, and clears its time-out.
    stream.once('end', () => {
      if (stream.closed) setImmediate(() => stream.destroy());
    });
    stream.once('close', () => this.#end(open));
  }

  /**
   * Tracks a stream whose whole answer is queued. Most of them close within the turn of the event loop, and need neither
   * time-outs nor listeners; `begin` tracks the others at its end.
   */
  answer(stream: ServerHttp2Stream, open: OpenSession): void {
    if (this.#answered.length === 0) setImmediate(this.#endTurn);
    this.#answered.push(stream);
    if (open.isAnswering) return;
    open.isAnswering = true;
    noteStream(open, 1);
    this.#answering.push(open);
  }

  readonly #endTurn = (): void => {
    const answered = this.#answered;
    const answering = this.#answering;
    this.#answered = [];
    this.#answering = [];
    for (const stream of answered) {
      if (stream.closed) stream.destroy();
      if (stream.destroyed) continue;
      this.begin(stream);
      this.onUnsent(stream);
    }
    for (const open of answering) {
      open.isAnswering = false;
      this.#end(open);
    }
  };

  /** `undefined`: the session is closed. */
  find(session: ServerHttp2Session): OpenSession | undefined {
    return this.#open.get(session);
  }

  /** Closes idle sessions now, and each other one after its last stream. */
  leave(): void {
    this.#isLeaving = true;
    for (const open of this.#open.values()) if (isIdle(open)) this.#close(open);
  }

  /** Sends GOAWAY on every session; open streams finish. */
  close(): void {
    this.#isLeaving = true;
    for (const open of this.#open.values()) this.#close(open);
  }

  #end(open: OpenSession): void {
    noteStream(open, -1);
    if (isIdle(open)) this.#idle(open);
  }

  #idle(open: OpenSession): void {
    if (open.session.destroyed) return;
    if (this.#isLeaving || open.state.isRefused) {
      this.#close(open);
      return;
    }
    clearTimeout(open.timer);
    open.timer = this.#closeAfter(open, this.#times.idleMs);
  }

  #closeAfter(open: OpenSession, ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      if (isIdle(open)) this.#close(open);
    }, ms);
  }

  #close(open: OpenSession): void {
    const { session } = open;
    if (session.destroyed) return;
    if (!session.closed) session.close();
    if (!isIdle(open) || open.isEnding) return;
    open.isEnding = true;
    clearTimeout(open.timer);
    // A closing session waits for its client to close the connection, which may never happen.
    open.timer = setTimeout(() => {
      session.destroy();
      open.socket.destroy();
    }, closeMs);
  }
}

function noteStream({ state }: OpenSession, change: 1 | -1): void {
  state.streams = (state.streams ?? 0) + change;
}

function isIdle({ state: { streams = 0 } }: OpenSession): boolean {
  return streams === 0;
}
