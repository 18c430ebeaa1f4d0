/** TCP proxies in front of a server. */
import { connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { listen } from './listen.ts';

/** Carries the bytes of two sockets to each other; the end of one is the end of both. `back` carries those of `server`. */
export function join(client: Socket, server: Socket, back?: (bytes: Buffer) => void): void {
  for (const [one, other] of [
    [client, server],
    [server, client],
  ] as const) {
    // As Redis does it: small answers would wait for each other's acknowledgement, 40 ms.
    one.setNoDelay(true);
    one.on('error', () => other.destroy());
    one.on('close', () => other.destroy());
  }
  client.pipe(server);
  if (back === undefined) server.pipe(client);
  else server.on('data', back);
}

/** A proxy until the end of the test: every byte from the server waits for `delayMs`. */
export async function delayProxy(t: TestContext, target: number) {
  const proxy = { port: 0, delayMs: 0 };
  const server = createServer((client) => {
    // Timers of one length fire in order, so the bytes stay in order while the delay does not shrink.
    let freeAtMs = 0;
    join(client, connect(target, '127.0.0.1'), (bytes) => {
      freeAtMs = Math.max(freeAtMs, performance.now() + proxy.delayMs);
      setTimeout(() => client.write(bytes), Math.max(0, freeAtMs - performance.now()));
    });
  });
  proxy.port = await listen(t, server);
  return proxy;
}
