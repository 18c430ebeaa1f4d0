/**
 * A balancer as they stand in front of gateways: it hands each TCP connection to the next gateway that was ready a
 * moment ago, looks at `/readyz` ten times a second, and retries nothing.
 */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { get } from './workers.ts';

export interface Balanced {
  readonly url: string;
  readonly operationsUrl: string;
}

export interface Balancer {
  /** Base address of the gateways' interface, through the balancer. */
  readonly url: string;
  /** Resolves when the last look found this one ready. */
  untilReady(gateway: Balanced): Promise<void>;
}

const lookEveryMs = 100;

/** Starts one that is closed after the test. */
export async function balancer(t: TestContext, gateways: readonly Balanced[]): Promise<Balancer> {
  const ready = new Set<Balanced>();
  const sockets = new Set<Socket>();
  let turn = 0;
  const look = async (gateway: Balanced): Promise<void> => {
    const isReady = await get(`${gateway.operationsUrl}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (isReady) ready.add(gateway);
    else ready.delete(gateway);
  };
  const lookAtAll = (): Promise<unknown> => Promise.all(gateways.map(look));
  const server = createServer((client) => {
    const choices = gateways.filter((gateway) => ready.has(gateway));
    const chosen = choices[turn++ % choices.length];
    if (chosen === undefined) client.destroy();
    else join(client, connect(Number(new URL(chosen.url).port), '127.0.0.1'), sockets);
  });
  await Promise.all([lookAtAll(), once(server.listen(0, '127.0.0.1'), 'listening')]);
  const timer = setInterval(() => void lookAtAll(), lookEveryMs);
  t.after(() => {
    clearInterval(timer);
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async untilReady(gateway) {
      while (!ready.has(gateway)) await look(gateway);
    },
  };
}

/** One address in front of nodes: each TCP connection goes to the next node, or to one drawn at random. */
export async function nodeBalancer(
  t: TestContext,
  nodes: readonly { readonly port: number }[],
  pick: 'in turn' | 'at random' = 'in turn',
): Promise<{ readonly url: string }> {
  const sockets = new Set<Socket>();
  let turn = 0;
  const server = createServer((client) => {
    const at = pick === 'in turn' ? turn++ % nodes.length : Math.floor(Math.random() * nodes.length);
    join(client, connect(nodes[at]?.port ?? 0, '127.0.0.1'), sockets);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

function join(client: Socket, server: Socket, sockets: Set<Socket>): void {
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    sockets.add(from);
    from.setNoDelay(true);
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.destroy();
    });
    from.pipe(to);
  }
}
