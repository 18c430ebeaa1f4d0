/** Frames of HTTP/2, for clients that no library would send. */

/** A frame (RFC 9113 4.1). */
export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** GET, https, authority `x`, in the plainest form that there is (RFC 7541). */
export function headOf(path: string): Buffer {
  return Buffer.concat([Buffer.from([0x82, 0x87, 0x01, 1, 0x78, 0x04, path.length]), Buffer.from(path)]);
}
