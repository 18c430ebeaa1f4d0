/** Requests that Node's HTTP parser refuses: answered on the socket, because there is no request object. */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorBody, GatewayError, type Fault } from '../ledger/errors.ts';
import { STATUS_CODES } from './node-http.ts';

const faults: Readonly<Record<string, readonly [Fault, string]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'the request head is too large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payloadTooLarge', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'the request did not arrive in time'],
};

/** The connection that the bytes came on. */
export interface BrokenConnection {
  readonly socket: Duplex;
  /** The answer to the newest request that was read on it. */
  readonly newest: ServerResponse | undefined;
  readonly ledgerHeaders: readonly string[];
}

/**
 * Writes the specified error body and closes the connection: what follows on it cannot be trusted. Returns whether that
 * is news of something the client sent, and no hang-up.
 */
export function answerBrokenRequest(
  error: NodeJS.ErrnoException,
  { socket, newest, ledgerHeaders }: BrokenConnection,
): boolean {
  // The parser reports every further chunk of a broken request; the answer is out already.
  if (socket.writableEnded) return false;
  if (!socket.writable || error.code === 'ECONNRESET' || !isTurnOf(newest)) {
    socket.destroy();
    return socket.writable && error.code !== 'ECONNRESET';
  }
  if (isLast(newest)) {
    socket.end();
    linger(socket);
    return true;
  }
  const [fault, message] = faults[error.code ?? ''] ?? ['malformed', 'the request is not well-formed HTTP'];
  writeRefusal(socket, new GatewayError(fault, message), ledgerHeaders);
  return true;
}

/** Refuses a request that there is no response object for, unless an answer before it is still to come. */
export function refuseNext({ socket, newest, ledgerHeaders }: BrokenConnection, error: GatewayError): void {
  if (socket.writable && isTurnOf(newest)) writeRefusal(socket, error, ledgerHeaders);
  else socket.destroy();
}

/** Writes an error answer where there is no response object, and closes the connection. */
export function writeRefusal(socket: Duplex, error: GatewayError, ledgerHeaders: readonly string[]): void {
  const { status, code, message } = error;
  const body = errorBody(code, message);
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, 'Content-Type: application/json'];
  head.push(`Content-Length: ${body.length}`, 'Cache-Control: no-store', 'Connection: close');
  for (let at = 0; at + 1 < ledgerHeaders.length; at += 2) head.push(`${ledgerHeaders[at]}: ${ledgerHeaders[at + 1]}`);
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  linger(socket);
}

/** Whether an answer written now stands where the client expects the answer to the broken request. */
function isTurnOf(newest: ServerResponse | undefined): boolean {
  if (newest === undefined || newest.writableFinished) return true;
  // It waits for the end of an earlier answer.
  if (newest.socket === null) return false;
  // Written to its end, or the broken bytes are of the body that it would have been the answer to.
  return newest.writableEnded || (!newest.req.complete && !newest.headersSent);
}

/** Whether there is no answer after the newest: it said so, or the broken bytes are of the body that it refused. */
function isLast(newest: ServerResponse | undefined): boolean {
  return newest?.writableEnded === true && (!newest.shouldKeepAlive || !newest.req.complete);
}

/** Unread bytes make the kernel reset the connection, and the client may lose the answer: so reading goes on for a moment. */
const lingerMs = 1_000;

function linger(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}
