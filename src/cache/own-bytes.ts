/**
 * The bytes, as they may be kept. Node cuts small buffers out of larger ones, of 64 KiB each, and any part that is kept
 * keeps the whole: 200 bytes that a compressor gave could take as much as 300 times what they count for.
 */
export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength <= bytes.length + bytes.length / 8) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
