/** Faults of a request's head, ahead of its route, in the interface's words. */
import type { IncomingMessage } from 'node:http';
import { Http2ServerRequest } from 'node:http2';
import { GatewayError } from '../../ledger/errors.ts';
import { isAuthority, longestTarget } from './target.ts';

/** More headers than any client and the proxies in front of it send; Node would leave out what comes after its bound. */
export const mostHeaders = 200;

/** Bound of a head, in bytes: the longest target and the usual headers. Node's default of 16 kB would refuse served targets. */
export const maxHeaderBytes = longestTarget + 32 * 1024;

/** Bound of `Connection`, in characters: a reader must not skip a name in it, which would reach a node. */
const longestConnection = 1024;

/** The parts of a request's head that its validity depends on. */
export type RequestHead = Pick<IncomingMessage, 'url' | 'headers' | 'httpVersion' | 'rawHeaders'>;

/** The fault of a head, ahead of routing. Expects repeated headers to be joined by commas. */
export function faultOfHead(request: RequestHead): GatewayError | undefined {
  const { url = '', headers, httpVersion, rawHeaders } = request;
  if (url.length > longestTarget) {
    return new GatewayError('uriTooLong', `the request target is longer than ${longestTarget} characters`);
  }
  // RFC 9112 3.2: routers cut a fragment off or keep it, so a target that holds one names two paths.
  if (url.includes('#')) return new GatewayError('malformed', 'a request target has no fragment (#)');
  if (rawHeaders.length > 2 * mostHeaders) {
    return new GatewayError('headersTooLarge', `the request has more than ${mostHeaders} headers`);
  }
  if ((headers.connection ?? '').length > longestConnection) {
    return new GatewayError('headersTooLarge', `Connection is longer than ${longestConnection} characters`);
  }
  // Not by its version: a client may write any into a line of HTTP/1.
  if (isHttp2(request)) {
    if (bytesOf(rawHeaders) > maxHeaderBytes)
      return new GatewayError('headersTooLarge', 'the request head is too large');
  } else if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new GatewayError('ambiguous', `HTTP/${httpVersion} is not spoken here in this form`);
  }
  return faultOfHost(headers.host, httpVersion) ?? faultOfBody(request);
}

/** Whether a request came over HTTP/2. */
export function isHttp2(request: object): boolean {
  return request instanceof Http2ServerRequest;
}

/** The parser counts those of HTTP/1; HTTP/2 counts 32 more for each header (RFC 9113 6.5.2), which are none on the wire. */
function bytesOf(headers: readonly string[]): number {
  return headers.reduce((sum, text) => sum + text.length, 0);
}

/** The host decides nothing here, but a proxy in front may have believed another one (RFC 9112 3.2). */
function faultOfHost(host: string | undefined, httpVersion: string): GatewayError | undefined {
  if (host === undefined) {
    return httpVersion === '1.0' ? undefined : new GatewayError('malformed', 'the request has no Host header');
  }
  return isAuthority(host) ? undefined : new GatewayError('malformed', 'the Host header is not one host');
}

/**
 * Node finds the end of a body in another transfer coding than `chunked`, and leaves the coding on. HTTP/1.0 has none, so
 * that a proxy in front may have taken the body for a next request (RFC 9112 6.1).
 */
function faultOfBody({ headers, httpVersion }: RequestHead): GatewayError | undefined {
  const { 'transfer-encoding': coding, 'content-type': type } = headers;
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked')) {
    return new GatewayError('ambiguous', 'the only transfer coding is chunked, of HTTP/1.1');
  }
  // No media type of the interface holds one: they are two, of which nodes may believe the other.
  return type?.includes(',') === true
    ? new GatewayError('malformed', 'there is more than one Content-Type')
    : undefined;
}
