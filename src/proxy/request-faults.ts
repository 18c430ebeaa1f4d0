/** What is wrong with a request before its route looks at it, in the interface's words. */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { GatewayError, type Fault } from '../ledger/errors.ts';
import { longestTarget } from './target.ts';

export const notFound = (): GatewayError => new GatewayError('notFound', 'not found');
export const notAllowed = (): GatewayError => new GatewayError('methodNotAllowed', 'method not allowed');

const fastifyFaults: Readonly<Record<string, Fault>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'payloadTooLarge',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupportedMediaType',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'malformed',
  FST_ERR_BAD_URL: 'malformed',
  FST_ERR_NOT_FOUND: 'notFound',
};

/** Fastify's own faults by their code, in the interface's words. */
export function asGatewayError(error: unknown): unknown {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  const fault = code === undefined ? undefined : fastifyFaults[code];
  if (fault === undefined) return error;
  const message = { payloadTooLarge: 'payload too large', malformed: 'the request target cannot be decoded' } as const;
  return new GatewayError(fault, fault in message ? message[fault as keyof typeof message] : 'request refused');
}

/** What is refused before any route is looked for. */
export function faultOfHead({ url = '', headers, httpVersion }: IncomingMessage): GatewayError | undefined {
  if (url.length > longestTarget) {
    return new GatewayError('uriTooLong', `the request target is longer than ${longestTarget} characters`);
  }
  const hasHost = headers.host !== undefined || httpVersion === '1.0';
  return hasHost ? undefined : new GatewayError('malformed', 'the request has no Host header');
}

/** Nodes want a length; a chunked body is measured here, but a POST with no body at all is told so (protocol 2.4). */
export function requireLength(request: FastifyRequest): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (length === undefined && coding === undefined) {
    throw new GatewayError('lengthRequired', 'missing `Content-Length` header');
  }
}
