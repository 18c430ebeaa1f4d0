/** What nodes are asked over: our own connections where a node speaks plain HTTP, undici's where it speaks TLS. */
import { createRequire } from 'node:module';
import type { Dispatcher, Pool as AnyUndiciPool } from 'undici';
import type { WireRequest } from './exchange.ts';
import { NodePool, type NodePoolOptions } from './wire/node-pool.ts';

/** Connections to one node. */
export interface Pool {
  /**
   * Asks; `path` is from the root of the node. What comes is told to `handler`, whose parts of a body are only good
   * until it returns. Throws `TypeError` for a request that cannot be sent, or tells so to the handler. What it returns,
   * if anything, gives the request up while it waits for a connection.
   */
  dispatch(
    request: WireRequest,
    handler: Dispatcher.DispatchHandler,
  ): Pick<Dispatcher.DispatchController, 'abort'> | undefined;
  /** Ends what it is asked at once. */
  destroy(): Promise<void>;
}

export function createPool(url: URL, options: NodePoolOptions): Pool {
  return url.protocol === 'http:' ? new NodePool(url, options) : new TlsPool(url, options);
}

const require = createRequire(import.meta.url);

/**
 * undici's pool without the rest of undici: its index loads fetch, WebSocket, mocks and caches as well, which nothing
 * here uses. The file is no part of its interface: where a later release has moved it, the index does. Loaded with the
 * first node behind TLS: a start without one does not wait for it.
 */
function loadUndiciPool(): typeof AnyUndiciPool {
  try {
    return require('undici/lib/dispatcher/pool.js') as typeof AnyUndiciPool;
  } catch {
    return (require('undici') as { readonly Pool: typeof AnyUndiciPool }).Pool;
  }
}

class TlsPool implements Pool {
  readonly #pool: AnyUndiciPool;

  constructor(url: URL, { connections, connectTimeoutMs, keepAliveMs, keepAliveMarginMs }: NodePoolOptions) {
    const UndiciPool = loadUndiciPool();
    this.#pool = new UndiciPool(url.origin, {
      connections,
      pipelining: 1,
      // Over HTTP/2 bodies need no announced length, by which a whole one is told, and one connection carries many.
      allowH2: false,
      // Bounds are kept by whoever asks; undici's own timers would only add a second opinion.
      headersTimeout: 0,
      bodyTimeout: 0,
      connectTimeout: connectTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      keepAliveTimeoutThreshold: keepAliveMarginMs,
    });
  }

  dispatch({ body, ...request }: WireRequest, handler: Dispatcher.DispatchHandler): undefined {
    this.#pool.dispatch({ ...request, body: body ?? null }, handler);
  }

  destroy(): Promise<void> {
    return this.#pool.destroy();
  }
}
