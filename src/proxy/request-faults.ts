/** What is wrong with a request before its route looks at it, in the interface's words. */
import type { IncomingMessage } from 'node:http';
import { GatewayError, type Fault } from '../ledger/errors.ts';
import { longestTarget } from './target.ts';

export const notFound = (): GatewayError => new GatewayError('notFound', 'not found');
export const notAllowed = (): GatewayError => new GatewayError('methodNotAllowed', 'method not allowed');

const fastifyFaults: Readonly<Record<string, Fault>> = {
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
  return new GatewayError(fault, fault === 'malformed' ? 'the request target cannot be decoded' : 'request refused');
}

/** What is refused before any route is looked for. */
export function faultOfHead({ url = '', headers, httpVersion }: IncomingMessage): GatewayError | undefined {
  if (url.length > longestTarget) {
    return new GatewayError('uriTooLong', `the request target is longer than ${longestTarget} characters`);
  }
  const hasHost = headers.host !== undefined || httpVersion === '1.0';
  return hasHost ? undefined : new GatewayError('malformed', 'the request has no Host header');
}
