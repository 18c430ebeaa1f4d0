/** What is remembered of a client's connection, on the socket itself: a member costs a hit a tenth of what a map would. */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

const newest = Symbol('newest response');
const unanswered = Symbol('responses that are not written yet');
const excess = Symbol('requests that are not answered any more');
const isOneTooMany = Symbol('refused');

interface Connection {
  /** The answer to its newest request. */
  [newest]?: ServerResponse;
  /** Where a request came before the answer to the one before it was out: oldest first. */
  [unanswered]?: ServerResponse[] | undefined;
  [excess]?: number;
  [isOneTooMany]?: boolean;
}

/**
 * Requests that one connection may have sent ahead of their answers. Node reads them out of up to 64 kB at a time, which
 * holds 2,000, all of which would be begun at once: in memory, or at the nodes.
 */
const longestPipeline = 32;
/** Read beyond that, of what one client sends in one go: each takes memory until the connection ends. */
const mostExcess = 96;

/** What becomes of a request. `last`: it is answered, and the connection closed with that. */
export type Turn = 'serve' | 'last' | 'ignore';

/**
 * Notes that a request has come. A client that sends too many ahead is answered those within the bound, then the
 * connection ends: it has to ask again for what was not answered (RFC 9112 9.3.2). Who sends four times as many gets no word.
 */
export function takeTurn(socket: Duplex, response: ServerResponse): Turn {
  const connection = socket as Connection;
  if (connection[excess] !== undefined) {
    connection[excess] += 1;
    if (connection[excess] > mostExcess) socket.destroy();
    return 'ignore';
  }
  const before = connection[newest];
  connection[newest] = response;
  if (before === undefined || before.writableFinished) {
    if (connection[unanswered] !== undefined) connection[unanswered] = undefined;
    return 'serve';
  }
  const waiting = (connection[unanswered] ??= [before]);
  while (waiting[0]?.writableFinished === true) waiting.shift();
  if (waiting.push(response) < longestPipeline) return 'serve';
  connection[excess] = 0;
  return 'last';
}

export function newestResponse(socket: Duplex): ServerResponse | undefined {
  return (socket as Connection)[newest];
}

/** Whether every request that came on it is answered. */
export function isAnswered(socket: Duplex): boolean {
  return newestResponse(socket)?.writableFinished ?? true;
}

/** The connection is one too many: its first request is refused. */
export function markRefused(socket: Duplex): void {
  (socket as Connection)[isOneTooMany] = true;
}

export function isRefused(socket: Duplex): boolean {
  return (socket as Connection)[isOneTooMany] === true;
}
