/**
 * Hands Node's HTTP parser the input of a connection in slices that begin one request at most, within the client's share
 * of a turn. Node would parse all that it reads at once, and begin every request in it.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { clientOf } from '../../../access/index.ts';
import type { PacedWork, TurnShares } from './turn-shares.ts';
import { awaitRoom, hasRoom, stateOf } from './connection-state.ts';

/** Members that Node's HTTP server adds to its sockets. */
interface ParsedSocket extends Socket {
  /** Its answers wait for the client: the parser takes no input until Node resumes the socket. */
  readonly _paused?: boolean;
  /** Absent once the connection is no HTTP any more. */
  readonly parser?: object | null;
}

type TakeConnection = (this: Server, socket: Socket) => void;
type TakeInput = (chunk: Buffer) => void;

/**
 * Puts `take` ahead of the server, which the returned function passes a socket to. Throws when the server has another
 * listener for connections.
 */
export function intercept(server: Server, take: (socket: Socket) => void): (socket: Socket) => void {
  const [takeConnection, ...others] = server.listeners('connection') as TakeConnection[];
  if (takeConnection === undefined || others.length > 0) {
    throw new Error('the server has another listener for connections');
  }
  server.removeAllListeners('connection');
  server.on('connection', take);
  return (socket) => takeConnection.call(server, socket);
}

/** Puts slices ahead of the parser of each connection that `server` accepts. Throws when it has another listener. */
export function paceInput(server: Server, shares: TurnShares): void {
  const passOn = intercept(server, (socket) => {
    passOn(socket);
    const [take] = socket.listeners('data') as TakeInput[];
    // Refused by `server.maxConnections`.
    if (take !== undefined) new PacedInput(socket, take, shares).start();
  });
}

const inputs = new WeakMap<Socket, PacedInput>();

/** Hands over the last bytes of a socket that has ended: its stream takes no more. */
export function endInput(socket: Socket, rest: Buffer): void {
  inputs.get(socket)?.end(rest);
}

const endOfHead = '\r\n\r\n';
/** Bytes of a body, or of a head without its end: tiny chunks of a body cost as much as a request. */
const longestSlice = 4 * 1024;

class PacedInput implements PacedWork {
  readonly client: string;
  readonly #socket: ParsedSocket;
  readonly #take: TakeInput;
  readonly #shares: TurnShares;
  /** Received, and not parsed yet. */
  #chunk: Buffer | undefined;
  /** The shares do the rest, in a later turn. */
  #isWaiting = false;
  #isReading = false;
  /** The socket has ended, and the chunk is its last. */
  #isLast = false;
  /** Length of the last chunk that went back to the stream. */
  #keptBytes = 0;

  constructor(socket: Socket, take: TakeInput, shares: TurnShares) {
    this.client = clientOf(socket);
    this.#socket = socket;
    this.#take = take;
    this.#shares = shares;
  }

  /** Takes the place of the parser's own listener. A listener also makes Node read the socket by events. */
  start(): void {
    inputs.set(this.#socket, this);
    this.#socket.on('data', (chunk: Buffer) => this.#onData(chunk));
    this.#socket.off('data', this.#take);
  }

  /** The parser gets the end behind `rest`. */
  end(rest: Buffer): void {
    this.#isLast = true;
    this.#onData(rest);
  }

  work(isOver: () => boolean): boolean {
    this.#isWaiting = false;
    if (this.#chunk === undefined && !this.#isLast) this.#read();
    this.#parse(isOver);
    return this.#chunk === undefined ? this.#goOn() : this.#hold();
  }

  #onData(chunk: Buffer): void {
    // The usual read. A short one is the only one of its turn.
    const isAlone = !this.#isReading && !this.#isWaiting && isOneSlice(chunk);
    if (isAlone && this.#isReady) {
      this.#take.call(this.#socket, chunk);
      return this.#endIfLast();
    }
    this.#chunk = chunk;
    if (this.#isReading) return undefined;
    // Node resumes a connection whose answers were read: its turn comes nevertheless.
    if (!this.#isWaiting) {
      this.#isWaiting = true;
      this.#shares.begin(this);
    }
    if (this.#chunk !== undefined) this.#keep(this.#chunk);
    return undefined;
  }

  #read(): void {
    this.#isReading = true;
    // Emits 'data' with the kept bytes alone; without a number, all that the stream holds would be joined.
    this.#socket.read(this.#keptBytes);
    this.#isReading = false;
  }

  #parse(isOver: () => boolean): void {
    const chunk = this.#chunk ?? nothing;
    this.#chunk = undefined;
    let from = 0;
    while (from < chunk.length && this.#isReady) {
      const slice = sliceAt(chunk, from);
      this.#take.call(this.#socket, slice);
      from += slice.length;
      if (isOver()) break;
    }
    if (from < chunk.length && this.#isHttp) this.#chunk = chunk.subarray(from);
  }

  #goOn(): false {
    this.#endIfLast();
    if (this.#socket.isPaused() && this.#socket._paused !== true) this.#socket.resume();
    return false;
  }

  #endIfLast(): void {
    // In a later turn, as from the kernel: by then a submission has its body, and is marked to survive the end
    // (hostile/behind-good-requests.test.ts).
    if (this.#isLast) setImmediate(() => this.#socket.destroyed || this.#socket.emit('end'));
  }

  /** Whether the rest needs no more than a turn. */
  #hold(): boolean {
    if (this.#chunk !== undefined) this.#keep(this.#chunk);
    this.#isWaiting = this.#isReady;
    if (!this.#isWaiting && !hasRoom(this.#socket)) {
      awaitRoom(this.#socket, () => {
        if (this.#isWaiting) return;
        this.#isWaiting = true;
        this.#shares.begin(this);
      });
    }
    return this.#isWaiting;
  }

  /** The stream keeps the bytes ahead of those that arrive, and ahead of its end. */
  #keep(chunk: Buffer): void {
    if (this.#isLast) return;
    this.#socket.pause();
    this.#socket.unshift(chunk);
    this.#keptBytes = chunk.length;
    this.#chunk = undefined;
  }

  /** False: the bytes are read and dropped, because a close with unread bytes can lose the last answer. */
  get #isHttp(): boolean {
    const socket = this.#socket;
    return !socket.destroyed && (socket.parser ?? null) !== null && !stateOf(socket).isBroken;
  }

  get #isReady(): boolean {
    return this.#isHttp && this.#socket._paused !== true && hasRoom(this.#socket);
  }
}

/** Whether it begins one request at most. */
function isOneSlice(chunk: Buffer): boolean {
  if (chunk.length > longestSlice) return false;
  const end = chunk.indexOf(endOfHead, 0, 'latin1');
  return end === -1 || end === chunk.length - endOfHead.length;
}

/** From one place to the end of the next head. */
function sliceAt(chunk: Buffer, from: number): Buffer {
  const slice = chunk.subarray(from, from + longestSlice);
  const end = slice.indexOf(endOfHead, 0, 'latin1');
  return end === -1 ? slice : slice.subarray(0, end + endOfHead.length);
}

const nothing = Buffer.alloc(0);
