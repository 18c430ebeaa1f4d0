/** How the gateway leaves: nobody who still sends to it is refused, and nobody in the middle of something is cut off. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Connections } from './connections.ts';

export interface DrainOptions {
  /**
   * New connections are taken for so long after readiness was turned off: balancers learn of it by and by, and send
   * until then. Every answer asks its client to close.
   */
  readonly delayMs: number;
  /** What is in flight after that has this long to finish. */
  readonly maxMs: number;
  /** Called when something was not finished in time. */
  onCutOff(): void;
}

/** Resolves when no connection is left. */
export async function drain(proxy: FastifyInstance, connections: Connections, options: DrainOptions): Promise<void> {
  connections.leave();
  if (options.delayMs > 0) await sleep(options.delayMs);
  const closed = proxy.close();
  connections.closeIdle();
  // An answer that began before the drain told its client that the connection stays: it is idle when it has ended.
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
