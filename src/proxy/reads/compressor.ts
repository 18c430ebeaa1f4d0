/**
 * Compresses answers in threads of zlib, few at once: with as many threads as there are cores, they and the event loop
 * take turns on each core. Waiting clients have one body each in turn.
 */
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip, zstdCompress } from 'node:zlib';
import type { ContentCoding } from '../../cache/index.ts';
import type { Caller } from './read.ts';

const codecs: Readonly<Record<ContentCoding, (body: Buffer) => Promise<Buffer>>> = {
  gzip: (body) => promisify(gzip)(body, { level: 6 }),
  br: (body) => promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: (body) => promisify(zstdCompress)(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
};

type Begin = () => void;

/** Bounds the compressions of one process. */
export class Compressor {
  readonly #most: number;
  #running = 0;
  /** By client, the next one first. */
  readonly #waiting = new Map<string, Set<Begin>>();

  constructor(most = Math.max(1, Math.min(3, availableParallelism() - 1))) {
    this.#most = most;
  }

  /** Compresses off the main thread. Rejects with the reason of `signal` if it aborts ahead of the work. */
  async compress(coding: ContentCoding, body: Buffer, waiting: Pick<Caller, 'client' | 'signal'>): Promise<Buffer> {
    if (this.#running < this.#most) this.#running += 1;
    else await this.#wait(waiting);
    try {
      return await codecs[coding](body);
    } finally {
      this.#next();
    }
  }

  /** Resolves with the place of a compression that has ended. */
  #wait({ client, signal }: Pick<Caller, 'client' | 'signal'>): Promise<void> {
    const ahead = this.#waiting.get(client) ?? new Set();
    this.#waiting.set(client, ahead);
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        ahead.delete(begin);
        if (ahead.size === 0) this.#waiting.delete(client);
        reject(signal.reason);
      };
      ahead.add(begin);
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
    });
  }

  #next(): void {
    for (const [client, ahead] of this.#waiting) {
      this.#waiting.delete(client);
      for (const begin of ahead) {
        ahead.delete(begin);
        if (ahead.size > 0) this.#waiting.set(client, ahead);
        return begin();
      }
    }
    this.#running -= 1;
    return undefined;
  }
}
