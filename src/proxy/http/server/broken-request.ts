/** Answers requests that Node's HTTP parser refuses. They have no response object, so the answer goes to the socket. */
import type { Duplex } from 'node:stream';
import { GatewayError } from '../../../ledger/index.ts';
import { markBroken, responseBefore } from './connection-state.ts';
import { STATUS_CODES } from './lean-http.ts';

const faults: Readonly<Record<string, readonly [GatewayError['fault'], string]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'the request head is too large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payloadTooLarge', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'the request did not arrive in time'],
};

/** Connection that the malformed bytes arrived on. */
interface BrokenConnection {
  readonly socket: Duplex;
  /** Flat headers that every answer carries at the moment of the call. */
  readonly headers: () => readonly string[];
}

/**
 * Queues the error answer behind the answers to complete requests (RFC 9112 9.3.2), then closes the connection: bytes
 * after malformed ones cannot be framed. Returns false for a hang-up and for repeated reports.
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

/** Queues an error answer behind the answers in flight. False: an earlier refusal is queued already. */
export function refuseBehind({ socket, headers }: BrokenConnection, error: GatewayError): boolean {
  // The parser reports every further chunk of a broken request.
  if (!markBroken(socket)) return false;
  const before = responseBefore(socket);
  const refuse = (): void => {
    if (!socket.writable) return;
    // The request with the broken body has its answer, or an earlier answer closes the connection.
    if (before !== undefined && (!before.shouldKeepAlive || !before.req.complete)) endWithLinger(socket);
    else writeRefusal(socket, error, headers());
  };
  // Runs ahead of Node's own listener, which ends the connection after a half-close.
  if (before === undefined || before.writableFinished) refuse();
  else before.prependOnceListener('finish', refuse);
  return true;
}

/** Writes an error answer to a socket without a response object, then closes the connection. */
function writeRefusal(socket: Duplex, error: GatewayError, headers: readonly string[]): void {
  const { status, body } = error;
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, 'Content-Type: application/json'];
  head.push(`Content-Length: ${body.length}`, 'Cache-Control: no-store', 'Connection: close');
  const more = [...error.headers, ...headers, 'Date', new Date().toUTCString()];
  for (let at = 0; at + 1 < more.length; at += 2) head.push(`${more[at]}: ${more[at + 1]}`);
  endWithLinger(socket, `${head.join('\r\n')}\r\n\r\n${body}`);
}

/** The socket reads on for so long: on a close with unread bytes the kernel resets, which can lose the answer. */
const lingerMs = 1_000;

function endWithLinger(socket: Duplex, text = ''): void {
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
