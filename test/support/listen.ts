/** A test's own server on a free port of 127.0.0.1. */
import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { Ending } from './temporary-folder.ts';

/** Listens until the test ends, which also destroys the connections. Resolves with the port. */
export async function listen(t: Ending, server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.once('close', () => sockets.delete(socket))));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}
