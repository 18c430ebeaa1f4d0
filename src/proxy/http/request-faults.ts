/** Faults of a request's head, checked ahead of routing. */
import type { IncomingMessage } from 'node:http';
import { Http2ServerRequest } from 'node:http2';
import { GatewayError } from '../../ledger/index.ts';
import { METHODS } from './server/lean-http.ts';
import { isAuthority, longestTarget, originForm } from './target.ts';

/** More headers than clients and their proxies send; Node would silently drop those above its own bound. */
export const mostHeaders = 200;

/** Bytes of a head: the longest target and the usual headers. Node's default of 16 kB would refuse valid targets. */
export const maxHeaderBytes = longestTarget + 32 * 1024;

/** Characters of `Connection`: a name beyond a reader's bound would reach a node. */
const longestConnection = 1024;

type RequestHead = Pick<IncomingMessage, 'url' | 'headers' | 'httpVersion' | 'rawHeaders'>;

/** The fault of a head, ahead of routing. Expects repeated headers joined by commas. */
export function faultOfHead(request: RequestHead): GatewayError | undefined {
  const { url = '', headers, httpVersion, rawHeaders } = request;
  if (url.length > longestTarget) {
    return new GatewayError('uriTooLong', `the request target is longer than ${longestTarget} characters`);
  }
  // RFC 9112 3.2: routers either drop a fragment or keep it, so such a target names two paths.
  if (url.includes('#')) return new GatewayError('malformed', 'a request target has no fragment (#)');
  if (rawHeaders.length > 2 * mostHeaders) {
    return new GatewayError('headersTooLarge', `the request has more than ${mostHeaders} headers`);
  }
  if ((headers.connection ?? '').length > longestConnection) {
    return new GatewayError('headersTooLarge', `Connection is longer than ${longestConnection} characters`);
  }
  // The version proves nothing: a client may write any version into an HTTP/1 request line.
  if (isHttp2(request)) {
    // Node's parser bounds HTTP/1 heads; for HTTP/2 it adds 32 bytes a header (RFC 9113 6.5.2) that are not on the wire.
    if (rawHeaders.reduce((sum, text) => sum + text.length, 0) > maxHeaderBytes)
      return new GatewayError('headersTooLarge', 'the request head is too large');
  } else if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new GatewayError('ambiguous', `HTTP/${httpVersion} is not supported here`);
  }
  return faultOfHost(headers.host, httpVersion) ?? faultOfBody(request);
}

/** Target of a described request, in origin form. Throws `GatewayError` for what is no request, and for its head's fault. */
export function checkedTarget(method: string, given: string, headers: RequestHead['headers']): string {
  if (!/^[\x21-\x7e]+$/.test(given) || !METHODS.includes(method)) {
    throw new GatewayError('malformed', 'this is no HTTP request');
  }
  const target = originForm(given);
  const fault = faultOfHead({ url: target, headers, httpVersion: '1.1', rawHeaders: [] });
  if (fault !== undefined) throw fault;
  return target;
}

/** Whether a request came over HTTP/2. */
export function isHttp2(request: object): boolean {
  return request instanceof Http2ServerRequest;
}

/** The gateway ignores the host, but a proxy ahead of it may route by another one (RFC 9112 3.2). */
function faultOfHost(host: string | undefined, httpVersion: string): GatewayError | undefined {
  if (host === undefined) {
    return httpVersion === '1.0' ? undefined : new GatewayError('malformed', 'the request has no Host header');
  }
  return isAuthority(host) ? undefined : new GatewayError('malformed', 'the Host header is not one host');
}

/**
 * Node accepts a coding besides `chunked` and leaves it undecoded. HTTP/1.0 has no transfer codings, so a proxy ahead
 * may have read the body as a next request (RFC 9112 6.1).
 */
function faultOfBody({ headers, httpVersion }: RequestHead): GatewayError | undefined {
  const { 'transfer-encoding': coding, 'content-type': type } = headers;
  if (coding !== undefined && (httpVersion === '1.0' || coding.toLowerCase() !== 'chunked')) {
    return new GatewayError('ambiguous', 'the only transfer coding is chunked, in HTTP/1.1');
  }
  // No media type of the interface contains a comma: two joined types, and a node may believe either.
  return type?.includes(',') === true
    ? new GatewayError('malformed', 'there is more than one Content-Type')
    : undefined;
}
