/**
 * Requests and answers of HTTP/2 in the form of HTTP/1.1's, so that everything behind the listener serves both. Node's
 * own compatible form is the base; made equal here is what it leaves different.
 */
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';

const socketOf = new WeakMap<Http2Session, Socket>();

/** The connection that a session is on: Node's own would be another object for every stream. */
export function bindSession(session: Http2Session, socket: Socket): void {
  socketOf.set(session, socket);
}

/**
 * Pseudo-headers are not among the headers; repeated headers are joined, because Node would take the first of two
 * content types without a word; `:authority` is the host; a body without an announced length is `chunked`.
 */
export class H2Request extends Http2ServerRequest {
  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, options: object, raw: readonly string[]) {
    const own = ownHeaders(stream, raw);
    // Node looks for method and path among the headers: there it finds them, and whoever lists headers does not.
    super(stream, Object.assign(Object.create(pseudoHeaders(headers)), own.headers), options, own.raw);
    const session = stream.session;
    const socket = session === undefined ? undefined : socketOf.get(session);
    Object.defineProperty(this, 'socket', { value: socket ?? gone });
  }
}

/** Stands for a connection that ended before its last request was looked at. */
const gone = {};

/** An answer. Cut off, it is an error to the client, never an end. */
export class H2Response extends Http2ServerResponse {
  override destroy(): this {
    const { stream } = this;
    if (!stream.destroyed) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    return this;
  }
}

// Node's has none: who asks would think that a client which has gone is still there.
Object.defineProperty(H2Response.prototype, 'destroyed', {
  get(this: H2Response): boolean {
    return this.stream.destroyed || this.stream.closed;
  },
});

function pseudoHeaders(headers: IncomingHttpHeaders): object {
  const { ':method': method, ':path': path, ':scheme': scheme, ':authority': authority } = headers;
  return { ':method': method, ':path': path, ':scheme': scheme, ':authority': authority };
}

function ownHeaders(stream: ServerHttp2Stream, all: readonly string[]) {
  const headers: Record<string, string> = {};
  const raw: string[] = [];
  const add = (name: string, value: string): void => {
    const before = headers[name];
    headers[name] = before === undefined ? value : `${before}${name === 'cookie' ? '; ' : ', '}${value}`;
    raw.push(name, value);
  };
  let host: string | undefined;
  for (let at = 0; at + 1 < all.length; at += 2) {
    const name = all[at] ?? '';
    const value = all[at + 1] ?? '';
    if (!name.startsWith(':')) add(name, value);
    else if (name === ':authority') host = value;
  }
  // Two that differ are no host (RFC 9113 8.3.1); one that is said twice is one.
  if (host !== undefined && headers['host'] !== host) add('host', host);
  // Of HTTP/1.1, where a client of HTTP/2 may not say it.
  if (!stream.endAfterHeaders && headers['content-length'] === undefined) headers['transfer-encoding'] = 'chunked';
  return { headers, raw };
}
