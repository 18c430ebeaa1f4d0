/** Requests that Node's HTTP parser refuses: answered on the socket, because there is no request object. */
import type { Duplex } from 'node:stream';
import { errorBody, GatewayError, type Fault } from '../../../ledger/errors.ts';
import { markBroken, responseBefore } from './connection-state.ts';
import { STATUS_CODES } from './lean-http.ts';

const faults: Readonly<Record<string, readonly [Fault, string]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'the request head is too large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payloadTooLarge', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'the request did not arrive in time'],
};

/** The connection that the bytes came on. */
export interface BrokenConnection {
  readonly socket: Duplex;
  /** Headers of every answer, flat, at the moment of the call. */
  readonly headers: () => readonly string[];
}

/**
 * Has the specified error body written behind the answers to the requests that came whole (RFC 9112 9.3.2), and closes
 * the connection with it: what follows on it cannot be trusted. Returns whether that is news of something the client
 * sent, and no hang-up.
 */
export function answerBrokenRequest(error: NodeJS.ErrnoException, connection: BrokenConnection): boolean {
  const { socket } = connection;
  if (socket.writableEnded) return false;
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return false;
  }
  const [fault, message] = faults[error.code ?? ''] ?? ['malformed', 'the request is not well-formed HTTP'];
  return refuseBehind(connection, new GatewayError(fault, message));
}

/** Refuses a request that there is no response object for, in its turn. False: an earlier one is refused already. */
export function refuseBehind({ socket, headers }: BrokenConnection, error: GatewayError): boolean {
  // The parser reports every further chunk of a broken request.
  if (!markBroken(socket)) return false;
  const before = responseBefore(socket);
  const refuse = (): void => {
    if (!socket.writable) return;
    // The request whose body broke off has its answer, or the answer before said that it is the last.
    if (before !== undefined && (!before.shouldKeepAlive || !before.req.complete)) endWithLinger(socket);
    else writeRefusal(socket, error, headers());
  };
  // Ahead of Node's own listener, which ends the connection where the client has ended its side.
  if (before === undefined || before.writableFinished) refuse();
  else before.prependOnceListener('finish', refuse);
  return true;
}

/** Writes an error answer where there is no response object, and closes the connection. */
export function writeRefusal(socket: Duplex, error: GatewayError, headers: readonly string[]): void {
  const { status, code, message } = error;
  const body = errorBody(code, message);
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, 'Content-Type: application/json'];
  head.push(`Content-Length: ${body.length}`, 'Cache-Control: no-store', 'Connection: close');
  const more = [...error.headers, ...headers, 'Date', new Date().toUTCString()];
  for (let at = 0; at + 1 < more.length; at += 2) head.push(`${more[at]}: ${more[at + 1]}`);
  endWithLinger(socket, `${head.join('\r\n')}\r\n\r\n${body}`);
}

/** Unread bytes make the kernel reset the connection, and the client may lose the answer: so reading goes on for a moment. */
const lingerMs = 1_000;

function endWithLinger(socket: Duplex, text = ''): void {
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}
