/**
 * A balancer as they stand in front of gateways: it hands each TCP connection to the next gateway that was ready a
 * moment ago, looks at `/readyz` ten times a second, and retries nothing.
 */
import { connect, createServer } from 'node:net';
import type { TestContext } from 'node:test';
import { join } from './delay-proxy.ts';
import { listen } from './listen.ts';
import { get } from './workers.ts';

interface Balanced {
  readonly url: string;
  readonly operationsUrl: string;
}

const lookEveryMs = 100;

/** Starts one that is closed after the test. */
export async function balancer(t: TestContext, gateways: readonly Balanced[]) {
  const ready = new Set<Balanced>();
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
    else join(client, connect(Number(new URL(chosen.url).port), '127.0.0.1'));
  });
  const [port] = await Promise.all([listen(t, server), lookAtAll()]);
  const timer = setInterval(() => void lookAtAll(), lookEveryMs);
  t.after(() => clearInterval(timer));
  return {
    /** Base address of the gateways' interface, through the balancer. */
    url: `http://127.0.0.1:${port}/v1`,
    /** Resolves when the last look found this one ready. */
    async untilReady(gateway: Balanced): Promise<void> {
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
  let turn = 0;
  const server = createServer((client) => {
    const at = pick === 'in turn' ? turn++ % nodes.length : Math.floor(Math.random() * nodes.length);
    join(client, connect(nodes[at]?.port ?? 0, '127.0.0.1'));
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}/v1` };
}
