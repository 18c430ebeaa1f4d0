/** What is remembered of a client's connection, on the socket itself: a member costs a hit a tenth of what a map would. */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

const newest = Symbol('newest response');
const unanswered = Symbol('responses that are not written yet');
const closesWaiting = Symbol('what waits is closed with the connection');
const excess = Symbol('requests that are not answered any more');
const isBroken = Symbol('the refusal of what came last is on its way');
const survivesHalfClose = Symbol('its answer is given to a client that sends no more');
const isOverLimit = Symbol('refused');
const answering = Symbol('request of the fast path in flight');
const lower = Symbol('connection that carries this one');
const streams = Symbol('streams under way');

interface Connection {
  /** The answer to its newest request. */
  [newest]?: ServerResponse;
  /** Where a request came before the answer to the one before it was out: oldest first. */
  [unanswered]?: ServerResponse[] | undefined;
  [closesWaiting]?: boolean;
  [excess]?: number;
  [isBroken]?: boolean;
  [isOverLimit]?: boolean;
  [answering]?: boolean;
  [lower]?: Connection;
  /** Of HTTP/2, where requests have no order. */
  [streams]?: number;
}

/** What is remembered of `socket` is of `carrier` from now on: the connection that was accepted, carrier TLS. */
export function bindToCarrier(socket: Duplex, carrier: Duplex): void {
  (socket as Connection)[lower] = carrier as Connection;
}

function connectionOf(socket: Duplex): Connection {
  return (socket as Connection)[lower] ?? (socket as Connection);
}

/**
 * Requests that one connection may have sent ahead of their answers. Node reads them out of up to 64 kB at a time, which
 * holds 2,000, all of which would be begun at once: in memory, or at the nodes.
 */
const longestPipeline = 32;
/** Read beyond that, of what one client sends in one go: each takes memory until the connection ends. */
const mostExcess = 96;

/** What becomes of a request. `last`: it is answered, and the connection closed with that. */
export type PipelineStep = 'serve' | 'last' | 'ignore';

/**
 * Notes that a request has come. A client that sends too many ahead is answered those within the bound, then the
 * connection ends: it has to ask again for what was not answered (RFC 9112 9.3.2). Who sends four times as many gets no word.
 */
export function enterPipeline(socket: Duplex, response: ServerResponse): PipelineStep {
  const connection = connectionOf(socket);
  // HTTP/2 bounds by itself how many may be under way.
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
 * Node 22 tells a response that waits for its turn to be written nothing of the end of its connection: what was taken
 * for it would never be given back. Node 24 has told it by now.
 */
function closeWaiting({ [unanswered]: waiting = [] }: Connection): void {
  for (const response of waiting) {
    if (response.closed || response.socket !== null) continue;
    response.destroy();
    response.emit('close');
  }
}

/**
 * A client that ends its side (FIN, close_notify) is taken to have gone, as a client that closes its connection looks the
 * same: answers that are there are given, reads that wait for a node are given up. A submission may have taken effect,
 * so its answer and those before it are given (RFC 9112 9.3.2).
 */
function onHalfClose(socket: Duplex, { [unanswered]: waiting, [newest]: last }: Connection): void {
  const responses = waiting ?? (last === undefined ? [] : [last]);
  const kept = responses.findLastIndex((response) => (response as HalfCloseMark)[survivesHalfClose] === true);
  const givenUp = responses.findIndex((response, at) => at > kept && !response.writableEnded);
  if (givenUp === -1) return;
  const before = responses[givenUp - 1];
  if (before === undefined || before.writableFinished) socket.end();
  else before.once('finish', () => socket.end());
}

type HalfCloseMark = object & { [survivesHalfClose]?: boolean };

/**
 * A client that ends its side gets the answer all the same: a node may act on the request of `response`, or the answer
 * is there and goes out by pieces.
 */
export function answerDespiteHalfClose(response: object): void {
  (response as HalfCloseMark)[survivesHalfClose] = true;
}

/**
 * Requests that come on `socket` from now on are ignored, because the bytes before them are refused. False: they are
 * ignored for such bytes already.
 */
export function markBroken(socket: Duplex): boolean {
  const connection = connectionOf(socket);
  if (connection[isBroken] === true) return false;
  connection[isBroken] = true;
  connection[excess] ??= 0;
  return true;
}

/**
 * The response that a refusal of the bytes that came last stands behind; `undefined`: it stands first. A request whose
 * body broke off, and whose answer has not begun, is the refused one.
 */
export function responseBefore(socket: Duplex): ServerResponse | undefined {
  const { [newest]: last, [unanswered]: waiting } = connectionOf(socket);
  if (last === undefined || last.req.complete || last.headersSent) return last;
  return waiting?.at(-2);
}

/** Whether every request that came on it is answered, and the client has taken the answers. */
export function isAnswered(socket: Duplex): boolean {
  // Answers of the fast path are recorded nowhere else.
  if (socket.writableLength > 0) return false;
  const connection = connectionOf(socket);
  if (connection[answering] === true) return false;
  return (connection[streams] ?? 0) === 0 && (connection[newest]?.writableFinished ?? true);
}

/** Whether no request has come on it yet. */
export function hasNoRequest(socket: Duplex): boolean {
  const connection = connectionOf(socket);
  return connection[newest] === undefined && connection[streams] === undefined;
}

/** A request of HTTP/2 has come. */
export function noteStreamBegin(socket: Duplex): void {
  const connection = connectionOf(socket);
  connection[streams] = (connection[streams] ?? 0) + 1;
}

export function noteStreamEnd(socket: Duplex): void {
  const connection = connectionOf(socket);
  connection[streams] = (connection[streams] ?? 1) - 1;
}

/** Records whether the fast path has a request in flight on the connection. */
export function setAnswering(socket: Duplex, isAnswering: boolean): void {
  (socket as Connection)[answering] = isAnswering;
}

/** The connection is one too many: its first request is refused. */
export function markRefused(socket: Duplex): void {
  connectionOf(socket)[isOverLimit] = true;
}

export function isRefused(socket: Duplex): boolean {
  return connectionOf(socket)[isOverLimit] === true;
}
