/**
 * undici's pool of connections without the rest of undici: its index loads fetch, WebSocket, mocks and caches as well,
 * which nothing here uses and a start would wait for. The file is no part of its interface: where a later release has
 * moved it, the index does.
 */
import type { Pool as AnyPool } from 'undici';

export type Pool = AnyPool;

export const Pool: typeof AnyPool = await import('undici/lib/dispatcher/pool.js').then(
  (file) => file.default,
  async () => (await import('undici')).Pool,
);
