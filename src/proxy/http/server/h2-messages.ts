/**
 * HTTP/2 requests and responses in the form of HTTP/1.1's, so that one request handler serves both. The classes extend
 * Node's compatibility API and remove its remaining differences.
 */
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';

/**
 * HTTP/2 request with HTTP/1.1 headers: no pseudo-headers, repeated headers joined (Node would silently drop a second
 * content type), `:authority` as host, and `chunked` for a body of unannounced length.
 */
export class H2Request extends Http2ServerRequest {
  /** `socket`: of the session, which Node would create another proxy object of for every stream; absent: it has ended. */
  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    raw: readonly string[],
    socket: Socket | undefined,
  ) {
    const own = ownHeaders(stream, raw);
    // Node reads method and path from the headers: the prototype has them, and listings of own headers omit them.
    super(stream, Object.assign(Object.create(pseudoHeaders(headers)), own.headers), {}, own.raw);
    Object.defineProperty(this, 'socket', { value: socket ?? gone });
  }
}

const gone = {};

/** HTTP/2 response. `destroy` resets the stream, so that a truncated body never looks complete. */
export class H2Response extends Http2ServerResponse {
  override destroy(): this {
    const { stream } = this;
    if (!stream.destroyed) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    return this;
  }
}

// Node's class lacks `destroyed`: a gone client would look connected.
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
  // Two different values are no host (RFC 9113 8.3.1); a repeated one is one host.
  if (host !== undefined && headers['host'] !== host) add('host', host);
  // HTTP/2 forbids this header on the wire; the body reader needs it.
  if (!stream.endAfterHeaders && headers['content-length'] === undefined) headers['transfer-encoding'] = 'chunked';
  return { headers, raw };
}
