/** A TCP proxy in front of a server that can be gone, dead silent, reset, or tell other things in its answers' heads. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** The head of an answer, status line first, without the empty line; returns what is sent in its place. */
export type Mangle = (head: string) => string;

export class FaultProxy {
  /** Changes heads of answers. A head that comes in pieces is left alone. */
  mangle: Mangle | undefined;
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #port = 0;
  #isStalled = false;

  constructor(target: number) {
    this.#target = target;
  }

  /** Stays the same while it refuses. */
  get port(): number {
    return this.#port;
  }

  /** Connections that are open, counted on both sides. */
  get sockets(): number {
    return this.#sockets.size;
  }

  /** Listens, again after `refuse` as well. */
  async accept(): Promise<void> {
    if (this.#server !== undefined) return;
    const server = createServer((client) => this.#join(client));
    this.#server = server;
    await once(server.listen(this.#port, '127.0.0.1'), 'listening');
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Resets all connections and closes the listener: new ones are refused. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.reset();
    if (server === undefined) return;
    const closed = once(server, 'close');
    server.close();
    this.reset();
    await closed;
  }

  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Connections are taken and stay, but no byte passes, until this is false again: then all of them do. */
  set isStalled(isStalled: boolean) {
    this.#isStalled = isStalled;
    for (const socket of this.#sockets) {
      if (isStalled) socket.pause();
      else socket.resume();
    }
  }

  #join(client: Socket): void {
    const server = connect(this.#target, '127.0.0.1');
    this.#forward(client, server, (bytes) => bytes);
    this.#forward(server, client, (bytes) => this.#mangled(bytes));
  }

  #forward(from: Socket, to: Socket, changed: (bytes: Buffer) => Buffer): void {
    this.#sockets.add(from);
    if (this.#isStalled) from.pause();
    from.setNoDelay(true);
    from.on('data', (bytes) => {
      if (to.write(changed(bytes))) return;
      from.pause();
      to.once('drain', () => {
        if (!this.#isStalled) from.resume();
      });
    });
    from.on('end', () => to.end());
    from.on('error', () => to.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }

  /** Requests are not pipelined, so an answer begins where bytes arrive. */
  #mangled(bytes: Buffer): Buffer {
    const end = bytes.indexOf('\r\n\r\n');
    if (this.mangle === undefined || end < 0 || !bytes.subarray(0, 9).equals(answerStart)) return bytes;
    const head = this.mangle(bytes.subarray(0, end).toString('latin1'));
    return Buffer.concat([Buffer.from(head, 'latin1'), bytes.subarray(end)]);
  }
}

const answerStart = Buffer.from('HTTP/1.1 ');
