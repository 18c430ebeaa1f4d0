/** Content codings made by the gateway, off the main thread. */
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip, zstdCompress } from 'node:zlib';
import type { ContentCoding } from '../cache/entry.ts';

const compressors: Readonly<Record<ContentCoding, (body: Buffer) => Promise<Buffer>>> = {
  gzip: (body) => promisify(gzip)(body, { level: 6 }),
  br: (body) => promisify(brotliCompress)(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: (body) => promisify(zstdCompress)(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }),
};

/** Smaller bodies fit one packet either way, and compressing 400 bytes saves half of nothing. */
export const smallestCompressed = 1024;

export function compress(coding: ContentCoding, body: Buffer): Promise<Buffer> {
  return compressors[coding](body);
}
