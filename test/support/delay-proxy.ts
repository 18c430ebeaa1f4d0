/** A TCP proxy in front of a server, whose answers come later or are cut. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

export class DelayProxy {
  /** Every byte from the server waits this long. */
  delayMs = 0;
  readonly #sockets = new Set<Socket>();
  // As Redis does it: small answers would wait for each other's acknowledgement, 40 ms.
  readonly #server = createServer({ noDelay: true }, (client) => this.#join(client));
  readonly #target: number;

  constructor(target: number) {
    this.#target = target;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async start(): Promise<void> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(client: Socket): void {
    const server = connect({ port: this.#target, host: '127.0.0.1', noDelay: true });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
    client.pipe(server);
    // Timers of one length fire in order, so the bytes stay in order while the delay does not shrink.
    let freeAtMs = 0;
    server.on('data', (bytes) => {
      freeAtMs = Math.max(freeAtMs, performance.now() + this.delayMs);
      setTimeout(() => client.write(bytes), Math.max(0, freeAtMs - performance.now()));
    });
  }
}

/** Starts a proxy that is closed after the test. */
export async function delayProxy(t: TestContext, target: number): Promise<DelayProxy> {
  const proxy = new DelayProxy(target);
  await proxy.start();
  t.after(() => proxy.close());
  return proxy;
}
