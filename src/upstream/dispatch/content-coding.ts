/** Content codings of nodes' answers (RFC 9110 8.4.1, protocol 2.5), and the decoding of bodies. */
import { pipeline, type Readable, type Transform } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { HeaderValues } from '../../ledger/ledger-headers.ts';
import { stopReason, type CancelSignal } from '../../ledger/stop.ts';
import type { Share } from '../byte-budget.ts';

/** The bytes from a node are no acceptable answer: a failed attempt. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError';
}

/** A coding that the gateway decodes. */
export type NodeCoding = 'zstd' | 'br' | 'gzip' | 'deflate';

/** No window above 8 MB (RFC 9659 3): a node must not choose the memory of its answer. */
const zstdParams = { [constants.ZSTD_d_windowLogMax]: 23 };

/** Larger chunks take fewer turns of the thread pool; zlib's default is a quarter of this. */
const chunkSize = 64 * 1024;

const decoders: Readonly<Record<NodeCoding, () => Transform & { readonly bytesWritten: number }>> = {
  zstd: () => createZstdDecompress({ chunkSize, params: zstdParams }),
  br: () => createBrotliDecompress({ chunkSize }),
  gzip: () => createGunzip({ chunkSize }),
  deflate: () => createInflate({ chunkSize }),
};

/** `x-gzip` is `gzip` (RFC 9110 8.4.1.3). */
const codings: ReadonlyMap<string, NodeCoding | undefined> = new Map([
  ['', undefined],
  ['identity', undefined],
  ['x-gzip', 'gzip'],
  ...(Object.keys(decoders) as NodeCoding[]).map((coding) => [coding, coding] as const),
]);

/** The coding of an answer's body, `undefined` without one. Throws `BadAnswerError` for unknown and stacked codings. */
export function findCoding({ 'content-encoding': value }: HeaderValues): NodeCoding | undefined {
  if (value === undefined) return undefined;
  const name = String(value).toLowerCase();
  if (!codings.has(name)) throw new BadAnswerError('unknown content coding');
  return codings.get(name);
}

/**
 * Decodes `body` while it arrives, with backpressure. Throws `BadAnswerError` for bytes that are not in the coding, break
 * off, or go on behind its end: some decoders skip a second frame silently.
 */
export async function* decode(body: Readable, coding: NodeCoding): AsyncGenerator<Buffer> {
  const decoder = decoders[coding]();
  let received = 0;
  body.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  // The loop below throws the errors of the pipeline.
  pipeline(body, decoder, () => undefined);
  try {
    for await (const chunk of decoder) yield chunk as Buffer;
  } catch (error) {
    // No body at all, as after HEAD and with 204, is in every coding.
    if (received === 0 && body.readableEnded) return;
    throw new BadAnswerError('the body is not in its content coding', { cause: error });
  } finally {
    body.destroy();
    decoder.destroy();
  }
  if (decoder.bytesWritten !== received) throw new BadAnswerError('the coded body goes on behind its end');
}

/**
 * The bytes of a body, gathered within its share of the budget, which is closed then. Throws as `chunks` does,
 * `OverBudgetError` beyond the budget, and the reason of `signal` when that aborts.
 */
export async function gather(chunks: AsyncIterable<Buffer>, share: Share, signal: CancelSignal): Promise<Buffer> {
  const parts: Buffer[] = [];
  try {
    for await (const part of chunks) {
      if (signal.aborted) throw stopReason(signal);
      share.take(part.length);
      parts.push(part);
    }
    return Buffer.concat(parts);
  } finally {
    share.close();
  }
}
