/**
 * Handles the streams of HTTP/2 sessions within their client's share of a turn. Node begins every stream of what it has
 * read, hundreds at once; here a stream that its client resets meanwhile costs no more than that.
 */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { clientOf } from '../../../access/index.ts';
import type { PacedWork, TurnShares } from './turn-shares.ts';

/** A stream that waits for its turn. */
interface WaitingStream {
  readonly stream: ServerHttp2Stream;
  /** Handles it. `isDecided`: its limits have admitted it, and must get its end. */
  readonly handle: () => void;
  readonly isDecided: boolean;
}

/** Milliseconds of Node's own work for one stream, which its handler cannot measure. */
const streamMs = 0.05;
/** Streams of one turn among which resets are counted: rapid resets (CVE-2023-44487) cost a client its connection. */
const sampledStreams = 32;
const mostReset = 24;

/** The sessions of one TLS listener. */
export class PacedStreams {
  readonly #turns: TurnShares;
  readonly #sessions = new WeakMap<ServerHttp2Session, PacedSession>();
  /** Sessions with streams of this turn. */
  #begun: PacedSession[] = [];

  constructor(turns: TurnShares) {
    this.#turns = turns;
  }

  add(session: ServerHttp2Session, socket: Socket): void {
    this.#sessions.set(session, new PacedSession(session, socket, this.#turns));
  }

  /** Calls `handle` for a new stream, now or in a later turn; never if its client gives it up or resets most streams. */
  take(stream: ServerHttp2Stream, handle: () => void): void {
    const session = this.#find(stream);
    if (session === undefined) return handle();
    if (session.isFirstOfTurn) {
      if (this.#begun.length === 0) setImmediate(this.#endTurn);
      this.#begun.push(session);
    }
    return session.take(stream, handle);
  }

  /** Calls `handle` at the end of the turn, behind the input of this one. */
  defer(stream: ServerHttp2Stream, isDecided: boolean, handle: () => void): void {
    const session = this.#find(stream);
    if (session === undefined) handle();
    else session.defer({ stream, isDecided, handle });
  }

  #find({ session }: ServerHttp2Stream): PacedSession | undefined {
    return session === undefined ? undefined : this.#sessions.get(session as ServerHttp2Session);
  }

  readonly #endTurn = (): void => {
    const begun = this.#begun;
    this.#begun = [];
    for (const session of begun) session.endTurn();
  };
}

class PacedSession implements PacedWork {
  readonly client: string;
  readonly #session: ServerHttp2Session;
  readonly #socket: Socket;
  readonly #turns: TurnShares;
  #waiting: WaitingStream[] = [];
  /** Streams that began in this turn. */
  #begun: ServerHttp2Stream[] = [];
  #isWorking = false;
  #isPaused = false;

  constructor(session: ServerHttp2Session, socket: Socket, turns: TurnShares) {
    this.client = clientOf(socket);
    this.#session = session;
    this.#socket = socket;
    this.#turns = turns;
  }

  get isFirstOfTurn(): boolean {
    return this.#begun.length === 0;
  }

  take(stream: ServerHttp2Stream, handle: () => void): void {
    this.#begun.push(stream);
    if (this.#begun.length % sampledStreams === 0 && this.#isAbused()) return this.#end();
    if (this.#turns.charge(this.client, streamMs)) return handle();
    if (!this.#isPaused) this.#pause();
    return this.defer({ stream, isDecided: false, handle });
  }

  defer(waiting: WaitingStream): void {
    if (this.#isWorking) return waiting.handle();
    // A reset would otherwise be an uncaught exception.
    waiting.stream.on('error', ignore);
    if (this.#waiting.push(waiting) === 1) this.#turns.defer(this);
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
      // An aborted stream with unread data would stay open.
      if (isGone) stream.destroy();
      if (!isGone || isDecided) handle();
      if (isOver()) break;
    }
    this.#isWorking = false;
    this.#waiting = waiting.slice(done);
    if (this.#waiting.length > 0) return true;
    if (this.#isPaused) this.#resume();
    return false;
  }

  endTurn(): void {
    this.#begun = [];
  }

  /** Whether the newest streams are mostly reset. */
  #isAbused(): boolean {
    const newest = this.#begun.slice(-sampledStreams);
    return newest.filter(({ aborted, rstCode }) => aborted || rstCode !== 0).length >= mostReset;
  }

  #end(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  /** Node reads the socket below its events. */
  #pause(): void {
    this.#isPaused = true;
    handleOf(this.#socket)?.readStop();
  }

  #resume(): void {
    this.#isPaused = false;
    handleOf(this.#socket)?.readStart();
  }
}

interface ReadHandle {
  readStop(): void;
  readStart(): void;
}

function handleOf(socket: Socket & { readonly _handle?: ReadHandle | null }): ReadHandle | undefined {
  return socket._handle ?? undefined;
}

function ignore(): void {
  // The stream closes, and its session counts it.
}
