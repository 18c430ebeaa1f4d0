/** Drains the gateway: late requests are answered, and answers in flight finish. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Connections } from './connections.ts';

/** Times of a drain. */
export interface DrainOptions {
  /**
   * Milliseconds between unreadiness and the closed port: balancers keep sending until their next check. Every answer
   * in this time closes its connection.
   */
  readonly delayMs: number;
  /** Milliseconds that answers in flight then have to finish. */
  readonly maxMs: number;
  /** Called when `maxMs` elapses with requests in flight. */
  onCutOff(): void;
}

/** Resolves when no connection is left. */
export async function drain(proxy: FastifyInstance, connections: Connections, options: DrainOptions): Promise<void> {
  connections.leave();
  if (options.delayMs > 0) await sleep(options.delayMs);
  const closed = proxy.close();
  connections.closeIdle();
  // An answer begun before the drain promised keep-alive: its connection becomes idle later.
  const sweep = setInterval(() => connections.closeIdle(), sweepMs);
  const timer = setTimeout(() => {
    options.onCutOff();
    connections.closeAll();
  }, options.maxMs);
  await closed;
  clearTimeout(timer);
  clearInterval(sweep);
}

const sweepMs = 50;
