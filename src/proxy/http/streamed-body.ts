/** Streams the body of a node's answer to a client, over either transport. */
import type { Readable } from 'node:stream';
import { GatewayError } from '../../ledger/errors.ts';
import type { Exchange } from './exchange.ts';

/**
 * Ends the response with the bytes of `body`, at the client's pace, behind a head that is written. A hang-up ends
 * `body`. Rejects with `GatewayError` 503 if `body` breaks off: only a cut connection reports an incomplete answer.
 */
export function streamBody(exchange: Exchange, body: Readable): Promise<void> {
  const { response } = exchange;
  return new Promise((resolve, reject) => {
    let isWhole = false;
    const stop = (cause?: unknown): void => {
      if (isWhole) return;
      body.destroy();
      reject(new GatewayError('unavailable', 'the answer broke off', { cause }));
    };
    body.on('data', (piece: Buffer) => {
      exchange.bytes += piece.length;
      if (response.write(piece)) return;
      body.pause();
      response.once('drain', () => body.resume());
    });
    body.once('end', () => {
      isWhole = true;
      response.end(undefined);
      exchange.end();
      resolve();
    });
    body.on('error', stop);
    body.once('close', stop);
    if (response.destroyed) stop();
    else response.once('close', stop);
  });
}
