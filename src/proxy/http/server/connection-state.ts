/**
 * State of a client's connection, stored on its sockets: a member costs a hit a tenth of a map lookup. Its answers in
 * flight decide on a half-close, and on where the refusal of malformed bytes goes.
 */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { GatewayError } from '../../../ledger/index.ts';
import { headText, ownLines } from '../heads.ts';

/** Time limits of a client, in milliseconds. */
export interface ConnectionTimes {
  /** For a request's head, from its first byte; before any byte, from the connection's start. */
  readonly headMs: number;
  readonly requestMs: number;
  /** Interval of the checks. */
  readonly checkMs: number;
  /** For a pause in reading and writing while a request is in flight; longer than clients of streamed answers have. */
  readonly inactivityMs: number;
}

/** The time limits of clients. */
export const usualTimes: ConnectionTimes = { headMs: 15_000, requestMs: 60_000, checkMs: 2_500, inactivityMs: 90_000 };

const stateKey = Symbol('state of the connection');
const isKept = Symbol('answered despite a half-close');

/** State of one client's connection. */
export class ConnectionState {
  /** The response to the newest request, and unwritten ones ahead of it, oldest first. */
  readonly pipeline: ServerResponse[] = [];
  /** A refusal is queued: further requests are ignored. */
  isBroken = false;
  /** Above the connection limit: its first request is refused. */
  isRefused = false;
  /** The fast path has a request in flight. */
  isAnswering = false;
  /** The fast path has read a request. */
  isOnFastPath = false;
  /** HTTP/2 streams in flight; `undefined`: none has begun. */
  streams: number | undefined;
  /** TLS socket above the accepted connection. */
  upper: Duplex | undefined;

  get hasNoRequest(): boolean {
    return this.pipeline.length === 0 && this.streams === undefined && !this.isOnFastPath;
  }
}

type Connection = Duplex & { [stateKey]?: ConnectionState };

/** The state of the socket's connection. */
export function stateOf(socket: Connection): ConnectionState {
  return (socket[stateKey] ??= new ConnectionState());
}

/** Makes a TLS socket share the state of `carrier`, the accepted connection below it. */
export function bindToCarrier(socket: Connection, carrier: Connection): void {
  const state = stateOf(carrier);
  state.upper = socket;
  socket[stateKey] = state;
}

/** Unanswered requests of one connection; the rest of its pipeline is read behind their answers. */
const mostUnanswered = 32;

/** Records a new request. False: it is ignored, because the bytes before it are malformed. */
export function enterPipeline(socket: Duplex, response: ServerResponse): boolean {
  const state = stateOf(socket);
  // HTTP/2 bounds its streams itself.
  if (state.streams !== undefined) return true;
  if (state.isBroken) return false;
  const { pipeline } = state;
  if (pipeline.length === 0) {
    socket.once('end', () => onHalfClose(socket, pipeline));
    socket.once('close', () => closeWaiting(pipeline));
  }
  pipeline.push(response);
  dropWritten(pipeline);
  return true;
}

/** Whether the connection may begin one more request. */
export function hasRoom(socket: Duplex): boolean {
  const { pipeline } = stateOf(socket);
  dropWritten(pipeline);
  return pipeline.length < mostUnanswered;
}

function dropWritten(pipeline: ServerResponse[]): void {
  while (pipeline.length > 1 && pipeline[0]?.writableFinished === true) pipeline.shift();
}

/** Calls `onRoom` once the oldest answer is out. */
export function awaitRoom(socket: Duplex, onRoom: () => void): void {
  stateOf(socket).pipeline[0]?.once('close', onRoom);
}

/**
 * Node 22 emits no 'close' on a response that waits behind another one when its connection ends; its permits would
 * leak. Node 24 has emitted it by now.
 */
function closeWaiting(pipeline: readonly ServerResponse[]): void {
  for (const response of pipeline) {
    if (response.closed || response.socket !== null) continue;
    response.destroy();
    response.emit('close');
  }
}

/**
 * Treats a half-close (FIN, close_notify) as a hang-up, since a closed connection looks the same: finished answers are
 * written, waiting reads are aborted. A submission may have taken effect, so its answer and those before it are written
 * (RFC 9112 9.3.2).
 */
function onHalfClose(socket: Duplex, pipeline: readonly ServerResponse[]): void {
  const lastKept = pipeline.findLastIndex(survivesHalfClose);
  const aborted = pipeline.findIndex((response, at) => at > lastKept && !response.writableEnded);
  if (aborted === -1) return;
  const before = pipeline[aborted - 1];
  if (before === undefined || before.writableFinished) socket.end();
  else before.once('finish', () => socket.end());
}

type HalfCloseMark = object & { [isKept]?: boolean };

/** Keeps `response` alive after a half-close: a node may act on its request, or its body goes out in pieces. */
export function answerDespiteHalfClose(response: object): void {
  (response as HalfCloseMark)[isKept] = true;
}

/** Whether `answerDespiteHalfClose` was called for the response. */
export function survivesHalfClose(response: object): boolean {
  return (response as HalfCloseMark)[isKept] === true;
}

/** Whether every request is answered and the client has read the answers. */
export function isAnswered(socket: Duplex): boolean {
  // The socket's buffer is the only record of answers from the fast path.
  const { upper, isAnswering, streams = 0, pipeline } = stateOf(socket);
  if (socket.writableLength > 0 || (upper?.writableLength ?? 0) > 0 || isAnswering) return false;
  return streams === 0 && (pipeline.at(-1)?.writableFinished ?? true);
}

const faults: Readonly<Record<string, readonly [GatewayError['fault'], string]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'the request head is too large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payloadTooLarge', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'the request did not arrive in time'],
};

/**
 * Queues the error answer behind the answers to complete requests (RFC 9112 9.3.2), then closes the connection: bytes
 * after malformed ones cannot be framed. Returns false for a hang-up and for repeated reports.
 */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Duplex, live: LiveHead): boolean {
  if (socket.writableEnded) return false;
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return false;
  }
  const [fault, message] = faults[error.code ?? ''] ?? ['malformed', 'the request is not well-formed HTTP'];
  return refuseBehind(socket, new GatewayError(fault, message), live);
}

/** Flat headers that every answer carries at the moment of the call. */
type LiveHead = () => readonly string[];

/** Queues an error answer behind the answers in flight. False: an earlier refusal is queued already. */
export function refuseBehind(socket: Duplex, error: GatewayError, live: LiveHead): boolean {
  const state = stateOf(socket);
  // The parser reports every further chunk of a broken request.
  if (state.isBroken) return false;
  state.isBroken = true;
  const before = responseBefore(state.pipeline);
  const refuse = (): void => {
    if (!socket.writable) return;
    // The request with the broken body has its answer, or an earlier answer closes the connection.
    if (before !== undefined && (!before.shouldKeepAlive || !before.req.complete)) endWithLinger(socket);
    else writeRefusal(socket, error, live());
  };
  // Runs ahead of Node's own listener, which ends the connection after a half-close.
  if (before === undefined || before.writableFinished) refuse();
  else before.prependOnceListener('finish', refuse);
  return true;
}

/**
 * Response that must precede the refusal of the newest bytes; `undefined`: none. A request with a broken body and no
 * answer head is itself the refused one.
 */
function responseBefore(pipeline: readonly ServerResponse[]): ServerResponse | undefined {
  const newest = pipeline.at(-1);
  return newest === undefined || newest.req.complete || newest.headersSent ? newest : pipeline.at(-2);
}

/** Writes an error answer to a socket without a response object, then closes the connection. */
function writeRefusal(socket: Duplex, { status, body, headers: own }: GatewayError, live: readonly string[]): void {
  const head = ['Content-Type', 'application/json', 'Content-Length', String(body.length)];
  head.push('Cache-Control', 'no-store', 'Connection', 'close', ...own, ...live, 'Date', new Date().toUTCString());
  endWithLinger(socket, `${headText(status, [])}${ownLines(head)}\r\n${body}`);
}

/** The socket reads on for so long: on a close with unread bytes the kernel resets, which can lose the answer (RFC 9112 9.6). */
const lingerMs = 1_000;

function endWithLinger(socket: Duplex, text = ''): void {
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
