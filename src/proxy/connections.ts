/** The clients' connections, so that the gateway can leave politely. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

export class Connections {
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#open.add(socket);
      socket.once('close', () => this.#open.delete(socket));
    });
  }

  /** Closes what waits for a next request, and what has never sent one: Node counts only the former as idle. */
  closeIdle(): void {
    this.#server.closeIdleConnections();
    for (const socket of this.#open) {
      if (socket.bytesRead === 0) socket.destroy();
    }
  }
}
