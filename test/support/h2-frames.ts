/** Frames of HTTP/2, for clients that no library would send. */
import type { TestContext } from 'node:test';
import { until } from './eventually.ts';
import { tlsSocket } from './tls.ts';

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

/** A connection that has sent its settings, and the frames that it has received. */
export async function rawH2(t: TestContext, port: number, ca: string) {
  const socket = await tlsSocket(t, port, { ca, ALPNProtocols: ['h2'] });
  socket.on('error', () => undefined);
  // `once` would reject with the error of a late write.
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => (received = Buffer.concat([received, chunk])));
  const frames = () => {
    const all: { type: number; flags: number; id: number }[] = [];
    for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
      all.push({ type: received[at + 3] ?? 0, flags: received[at + 4] ?? 0, id: received.readUInt32BE(at + 5) });
    }
    return all;
  };
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]));
  return {
    socket,
    ended,
    frames,
    /** Resolves when such a frame is among them. */
    until: (isWanted: (type: number, flags: number) => boolean) =>
      until(() => frames().some(({ type, flags }) => isWanted(type, flags))),
  };
}
