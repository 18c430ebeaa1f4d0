/** Reads the body of a request that is answered ahead of routing. */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../ledger/errors.ts';

/** What nodes accept as a request body (protocol 2.4). */
export const maxBodyBytes = 8 * 1024 * 1024;

/**
 * Calls `done` once: with the whole body, or with what is wrong with it. Not at all when the client hangs up before
 * its end, because then there is nobody to answer.
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  done: (body: Buffer | GatewayError) => void,
): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  // Nodes want a length; a chunked body is measured here (protocol 2.4).
  if (length === undefined && coding === undefined) {
    done(new GatewayError('lengthRequired', 'missing `Content-Length` header'));
    return;
  }
  if (Number(length ?? 0) > maxBytes) {
    done(new GatewayError('payloadTooLarge', 'payload too large'));
    return;
  }
  const chunks: Buffer[] = [];
  let size = 0;
  const onData = (chunk: Buffer): void => {
    chunks.push(chunk);
    size += chunk.length;
    if (size <= maxBytes) return;
    request.off('data', onData).off('end', onEnd);
    request.resume();
    done(new GatewayError('payloadTooLarge', 'payload too large'));
  };
  const onEnd = (): void => {
    const [first] = chunks;
    done(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks, size));
  };
  request.on('data', onData).on('end', onEnd);
  // Without a listener, a client that hangs up would end the process.
  request.on('error', () => undefined);
}
