/**
 * HTTP/2 connections: their idle times and shutdown, and their streams within the client's share of a turn. GOAWAY
 * replaces `Connection: close`; some clients fail their open streams on GOAWAY, so the gateway sends it on idle
 * connections, unless the drain's time is up.
 */
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { clientOf } from '../../../access/index.ts';
import { keepAliveMs } from '../heads.ts';
import { type ConnectionState, type ConnectionTimes, stateOf } from './connection-state.ts';
import type { PacedWork, TurnShares } from './turn-shares.ts';

/** A stream that waits for its turn. */
interface WaitingStream {
  readonly stream: ServerHttp2Stream;
  /** Handles it. `isDecided`: its limits have admitted it, and must get its end. */
  readonly handle: () => void;
  readonly isDecided: boolean;
}

/** Milliseconds that a client has to close after GOAWAY and its last stream. */
const closeMs = 1_000;
/** Milliseconds of Node's own work for one stream, which its handler cannot measure. */
const streamMs = 0.05;
/** Streams of one turn among which resets are counted: rapid resets (CVE-2023-44487) cost a client its connection. */
const sampledStreams = 32;
const mostReset = 24;

/** The HTTP/2 sessions of one TLS listener. */
export class H2Sessions {
  readonly times: ConnectionTimes;
  readonly turns: TurnShares;
  readonly #open = new Map<ServerHttp2Session, OpenSession>();
  /** Sessions with streams that began, or were answered, in this turn of the event loop. */
  #active: OpenSession[] = [];
  isLeaving = false;
  /** Called for a stream that is still open at the end of the turn in which its answer was queued. */
  onUnsent: (stream: ServerHttp2Stream) => void = () => undefined;

  constructor(times: ConnectionTimes, turns: TurnShares) {
    this.times = times;
    this.turns = turns;
  }

  add(session: ServerHttp2Session, socket: Socket): void {
    this.#open.set(session, new OpenSession(this, session, socket));
    session.once('close', () => {
      this.#open.get(session)?.stop();
      this.#open.delete(session);
    });
  }

  /** `undefined`: the session is closed. */
  of({ session }: ServerHttp2Stream): OpenSession | undefined {
    return session === undefined ? undefined : this.#open.get(session as ServerHttp2Session);
  }

  /** Calls `endTurn` of the session at the end of this turn. Call it once per turn and session. */
  noteActive(open: OpenSession): void {
    if (this.#active.length === 0) setImmediate(this.#endTurn);
    this.#active.push(open);
  }

  readonly #endTurn = (): void => {
    const active = this.#active;
    this.#active = [];
    for (const open of active) open.endTurn();
  };

  /** Closes idle sessions now, and each other one after its last stream. */
  leave(): void {
    this.isLeaving = true;
    for (const open of this.#open.values()) if (open.isIdle) open.close();
  }

  /** Sends GOAWAY on every session; open streams finish. */
  close(): void {
    this.isLeaving = true;
    for (const open of this.#open.values()) open.close();
  }
}

/**
 * A session until its 'close' event. Node begins every stream of what it has read, hundreds at once; here a stream that its
 * client resets meanwhile costs no more than that.
 */
export class OpenSession implements PacedWork {
  readonly client: string;
  readonly socket: Socket;
  /** Counts its streams. */
  readonly state: ConnectionState;
  readonly #sessions: H2Sessions;
  readonly #session: ServerHttp2Session;
  /** Runs while no stream is open. */
  #timer: NodeJS.Timeout;
  #isEnding = false;
  /** Streams that began in this turn, and those whose whole answer was queued in it. */
  #begun: ServerHttp2Stream[] = [];
  #answered: ServerHttp2Stream[] = [];
  #waiting: WaitingStream[] = [];
  #isWorking = false;
  #isPaused = false;

  constructor(sessions: H2Sessions, session: ServerHttp2Session, socket: Socket) {
    this.client = clientOf(socket);
    this.socket = socket;
    this.state = stateOf(socket);
    this.#sessions = sessions;
    this.#session = session;
    this.#timer = this.#closeAfter(sessions.times.headMs);
  }

  /** Calls `handle` for a new stream, now or in a later turn; never if its client gives it up or resets most streams. */
  take(stream: ServerHttp2Stream, handle: () => void): void {
    this.#noteActive();
    this.#begun.push(stream);
    if (this.#begun.length % sampledStreams === 0 && this.#isAbused()) {
      this.#session.destroy();
      this.socket.destroy();
      return undefined;
    }
    if (this.#sessions.turns.charge(this.client, streamMs)) return handle();
    if (!this.#isPaused) this.#setPaused(true);
    return this.defer(stream, false, handle);
  }

  /** Calls `handle` at the end of the turn, behind the input of this one. */
  defer(stream: ServerHttp2Stream, isDecided: boolean, handle: () => void): void {
    if (this.#isWorking) return handle();
    // A reset would otherwise be an uncaught exception.
    stream.on('error', ignore);
    if (this.#waiting.push({ stream, isDecided, handle }) === 1) this.#sessions.turns.defer(this);
    return undefined;
  }

  work(isOver: () => boolean): boolean {
    this.#isWorking = true;
    const waiting = this.#waiting;
    let done = 0;
    while (done < waiting.length) {
      const { stream, isDecided, handle } = waiting[done] as WaitingStream;
      done += 1;
      const isGone = stream.closed || stream.destroyed;
      // Node below 26 awaits its answer, which nothing makes any more (see `begin`).
      if (isGone) stream.destroy();
      if (!isGone || isDecided) handle();
      if (isOver()) break;
    }
    this.#isWorking = false;
    this.#waiting = waiting.slice(done);
    if (this.#waiting.length > 0) return true;
    if (this.#isPaused) this.#setPaused(false);
    return false;
  }

  /** Tracks a stream whose request is handled. */
  begin(stream: ServerHttp2Stream): void {
    this.#note(1);
    stream.setTimeout(this.#sessions.times.inactivityMs, () => stream.close(constants.NGHTTP2_CANCEL));
    // Reset with NO_ERROR, a stream with unread data would stay open for ever: Node's `onStreamClose`
    // (internal/http2/core) awaits its 'end'.
    stream.once('aborted', () => queueMicrotask(() => stream.destroy()));
    // With NO_ERROR, Node below 26 destroys no stream that has unsent data, and clears its time-out (hostile/tls.test.ts).
    stream.once('end', () => {
      if (stream.closed) setImmediate(() => stream.destroy());
    });
    stream.once('close', () => this.#end());
  }

  /**
   * Tracks a stream whose whole answer is queued. Most of them close within the turn of the event loop, and need neither
   * time-outs nor listeners; `begin` tracks the others at its end. Those of one turn count as one.
   */
  answer(stream: ServerHttp2Stream): void {
    this.#noteActive();
    if (this.#answered.push(stream) === 1) this.#note(1);
  }

  endTurn(): void {
    const answered = this.#answered;
    this.#begun = [];
    this.#answered = [];
    for (const stream of answered) {
      if (stream.closed) stream.destroy();
      if (stream.destroyed) continue;
      this.begin(stream);
      this.#sessions.onUnsent(stream);
    }
    if (answered.length > 0) this.#end();
  }

  get isIdle(): boolean {
    return (this.state.streams ?? 0) === 0;
  }

  close(): void {
    const session = this.#session;
    if (session.destroyed) return;
    if (!session.closed) session.close();
    if (!this.isIdle || this.#isEnding) return;
    this.#isEnding = true;
    this.stop();
    // A closing session waits for its client to close the connection, which may never happen.
    this.#timer = setTimeout(() => {
      session.destroy();
      this.socket.destroy();
    }, closeMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #noteActive(): void {
    if (this.#begun.length === 0 && this.#answered.length === 0) this.#sessions.noteActive(this);
  }

  #note(change: 1 | -1): void {
    this.state.streams = (this.state.streams ?? 0) + change;
  }

  #end(): void {
    this.#note(-1);
    if (!this.isIdle || this.#session.destroyed) return;
    if (this.#sessions.isLeaving || this.state.isRefused) {
      this.close();
      return;
    }
    this.stop();
    this.#timer = this.#closeAfter(keepAliveMs);
  }

  #closeAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      if (this.isIdle) this.close();
    }, ms);
  }

  /** Whether the newest streams are mostly reset. */
  #isAbused(): boolean {
    const newest = this.#begun.slice(-sampledStreams);
    return newest.filter(({ aborted, rstCode }) => aborted || rstCode !== 0).length >= mostReset;
  }

  /** Node reads the socket below its events. */
  #setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    const { _handle: handle } = this.socket as Socket & { readonly _handle?: Record<ReadSwitch, () => void> | null };
    handle?.[isPaused ? 'readStop' : 'readStart']();
  }
}

type ReadSwitch = 'readStop' | 'readStart';

function ignore(): void {
  // The stream closes, and its session counts it.
}
