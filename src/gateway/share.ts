/** What the config grants the gateway, divided among its processes. */
import type { Config } from '../config/config.ts';

/** What one of `processes` may take. */
export function shareOf(config: Config, processes: number): Config {
  if (processes === 1) return config;
  const { memory } = config.cache;
  const { connections } = config.upstream;
  const { maxConnections } = config.listen;
  return {
    ...config,
    listen: { ...config.listen, maxConnections: Math.max(1, Math.floor(maxConnections / processes)) },
    upstream: { ...config.upstream, connections: Math.max(1, Math.floor(connections / processes)) },
    cache: { ...config.cache, memory: { ...memory, maxBytes: Math.floor(memory.maxBytes / processes) } },
  };
}
