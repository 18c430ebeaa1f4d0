/** State of a client's connection, stored on the socket itself: a member costs a hit a tenth of a map lookup. */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

const newest = Symbol('newest response');
const unanswered = Symbol('unwritten responses');
const closesWaiting = Symbol('unwritten responses close with the connection');
const excess = Symbol('ignored requests');
const isBroken = Symbol('a refusal is queued');
const isKept = Symbol('answered despite a half-close');
const isOverLimit = Symbol('above the connection limit');
const answering = Symbol('request of the fast path in flight');
const onFastPath = Symbol('the fast path has read a request');
const lower = Symbol('accepted connection below TLS');
const upper = Symbol('TLS socket above');
const streams = Symbol('HTTP/2 streams in flight');

interface Connection {
  /** Response to the newest request. */
  [newest]?: ServerResponse;
  /** Unwritten responses of a pipeline, oldest first. */
  [unanswered]?: ServerResponse[] | undefined;
  [closesWaiting]?: boolean;
  [excess]?: number;
  [isBroken]?: boolean;
  [isOverLimit]?: boolean;
  [answering]?: boolean;
  [onFastPath]?: boolean;
  [lower]?: Connection;
  [upper]?: Duplex;
  /** HTTP/2 streams in flight. */
  [streams]?: number;
}

/** Makes a TLS socket share the state of `carrier`, the accepted connection below it. */
export function bindToCarrier(socket: Duplex, carrier: Duplex): void {
  (socket as Connection)[lower] = carrier as Connection;
  (carrier as Connection)[upper] = socket;
}

function connectionOf(socket: Duplex): Connection {
  return (socket as Connection)[lower] ?? (socket as Connection);
}

/**
 * Requests that one connection may pipeline. Node reads up to 64 kB at a time, which holds 2,000 requests, and would
 * begin all of them at once.
 */
const longestPipeline = 32;
/** Further requests read from one connection before it is destroyed: each takes memory until the connection ends. */
const mostExcess = 96;

/** Treatment of a pipelined request. `last`: the answer closes the connection. */
export type PipelineStep = 'serve' | 'last' | 'ignore';

/**
 * Records a new request. A pipeline above the bound gets the answers within the bound, then the connection ends and the
 * client has to resend the rest (RFC 9112 9.3.2). Four times the bound destroys the connection without an answer.
 */
export function enterPipeline(socket: Duplex, response: ServerResponse): PipelineStep {
  const connection = connectionOf(socket);
  // HTTP/2 bounds its streams itself.
  if (connection[streams] !== undefined) return 'serve';
  if (connection[excess] !== undefined) {
    connection[excess] += 1;
    if (connection[excess] > mostExcess) socket.destroy();
    return 'ignore';
  }
  const before = connection[newest];
  connection[newest] = response;
  if (before === undefined) socket.once('end', () => onHalfClose(socket, connection));
  if (before === undefined || before.writableFinished) {
    if (connection[unanswered] !== undefined) connection[unanswered] = undefined;
    return 'serve';
  }
  const waiting = (connection[unanswered] ??= [before]);
  if (connection[closesWaiting] !== true) {
    connection[closesWaiting] = true;
    socket.once('close', () => closeWaiting(connection));
  }
  while (waiting[0]?.writableFinished === true) waiting.shift();
  if (waiting.push(response) < longestPipeline) return 'serve';
  connection[excess] = 0;
  return 'last';
}

/**
 * Node 22 emits no 'close' on a response that waits behind another one when its connection ends; its permits would
 * leak. Node 24 has emitted it by now.
 */
function closeWaiting({ [unanswered]: waiting = [] }: Connection): void {
  for (const response of waiting) {
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
function onHalfClose(socket: Duplex, { [unanswered]: waiting, [newest]: last }: Connection): void {
  const responses = waiting ?? (last === undefined ? [] : [last]);
  const lastKept = responses.findLastIndex(survivesHalfClose);
  const aborted = responses.findIndex((response, at) => at > lastKept && !response.writableEnded);
  if (aborted === -1) return;
  const before = responses[aborted - 1];
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

/**
 * Makes the connection ignore further requests, since the bytes before them are malformed. False: it ignores them
 * already.
 */
export function markBroken(socket: Duplex): boolean {
  const connection = connectionOf(socket);
  if (connection[isBroken] === true) return false;
  connection[isBroken] = true;
  connection[excess] ??= 0;
  return true;
}

/**
 * Response that must precede the refusal of the newest bytes; `undefined`: none. A request with a broken body and no
 * answer head is itself the refused one.
 */
export function responseBefore(socket: Duplex): ServerResponse | undefined {
  const { [newest]: last, [unanswered]: waiting } = connectionOf(socket);
  if (last === undefined || last.req.complete || last.headersSent) return last;
  return waiting?.at(-2);
}

/** Whether every request is answered and the client has read the answers. */
export function isAnswered(socket: Duplex): boolean {
  // The socket's buffer is the only record of answers from the fast path.
  const connection = connectionOf(socket);
  if (socket.writableLength > 0 || (connection[upper]?.writableLength ?? 0) > 0) return false;
  if (connection[answering] === true) return false;
  return (connection[streams] ?? 0) === 0 && (connection[newest]?.writableFinished ?? true);
}

/** Whether the connection has carried no request yet. */
export function hasNoRequest(socket: Duplex): boolean {
  const connection = connectionOf(socket);
  return connection[newest] === undefined && connection[streams] === undefined && connection[onFastPath] !== true;
}

/** Counts an HTTP/2 stream that begins. */
export function noteStreamBegin(socket: Duplex): void {
  const connection = connectionOf(socket);
  connection[streams] = (connection[streams] ?? 0) + 1;
}

/** Counts an HTTP/2 stream that ends. */
export function noteStreamEnd(socket: Duplex): void {
  const connection = connectionOf(socket);
  connection[streams] = (connection[streams] ?? 1) - 1;
}

/** Records whether the fast path has a request in flight on the connection. */
export function setAnswering(socket: Duplex, isAnswering: boolean): void {
  connectionOf(socket)[answering] = isAnswering;
}

/** Records that the fast path has read a request from the connection. */
export function noteFastPath(socket: Duplex): void {
  connectionOf(socket)[onFastPath] = true;
}

/** Marks a connection above the limit: its first request is refused. */
export function markRefused(socket: Duplex): void {
  connectionOf(socket)[isOverLimit] = true;
}

/** Whether `markRefused` was called for the connection. */
export function isRefused(socket: Duplex): boolean {
  return connectionOf(socket)[isOverLimit] === true;
}
