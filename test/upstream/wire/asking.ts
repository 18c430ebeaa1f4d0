/** Questions to a node by way of its pool. */
import type { Dispatcher } from 'undici';
import type { NodePool } from '../../../src/upstream/wire/node-pool.ts';

export const bounds = { connections: 4, connectTimeoutMs: 5_000, keepAliveMs: 4_000, keepAliveMarginMs: 2_000 };

export interface Asked {
  readonly body: Promise<string>;
  readonly controller: Promise<Dispatcher.DispatchController>;
}

export function ask(pool: NodePool, path: string, more: Partial<Parameters<NodePool['dispatch']>[0]> = {}): Asked {
  const controller = Promise.withResolvers<Dispatcher.DispatchController>();
  const body = new Promise<string>((resolve, reject) => {
    let text = '';
    pool.dispatch(
      { method: 'GET', path, headers: {}, ...more },
      {
        onRequestStart: (given) => controller.resolve(given),
        onResponseData: (_controller, chunk) => (text += chunk.toString()),
        onResponseEnd: () => resolve(text),
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
  return { body, controller: controller.promise };
}
