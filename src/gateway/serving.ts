/** The part of the gateway that answers clients, one in every serving process: start, reload and drain. */
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Config, LogConfig } from '../config/index.ts';
import { applyPeerEvent, type PeerEvent } from './peer-workers.ts';
import {
  buildParts,
  freeParts,
  inactivityMs,
  loadOptional,
  shareOf,
  type Parts,
  type ServingOptions,
} from './serving-graph.ts';

/** The port that a server listens on; the config may have 0. */
export function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** A serving process. */
export type Serving = Awaited<ReturnType<typeof startServing>>;

/** Requests in flight have this long to finish when the gateway stops. */
export const drainMs = 10_000;
/** Longest wait of the start for the ledger's identity, without which no answer is shared. */
const firstLookMs = 300;

/** Starts listening for clients. Rejects when the port is in use; nodes may be down. */
export async function startServing(whole: Config, options: ServingOptions) {
  const { processes = 1 } = options;
  const config = shareOf(whole, processes);
  const parts = await buildParts(config, options, await loadOptional(config));
  const { draining, journal, logging, proxy, registry, status } = parts;
  try {
    await start(parts, config);
  } catch (error) {
    await proxy.server.close();
    await freeParts(parts);
    throw error;
  }
  let applied = Promise.resolve();
  return {
    port: portOf(proxy.server),
    registry,
    admin: proxy.admin,
    journal,
    applyPeerEvent: (event: PeerEvent) => applyPeerEvent(parts, event),
    get isDraining() {
      return draining.isOn;
    },
    readiness: () => status.readiness(),
    status: async () => ({
      ...status.report(),
      replicas: await parts.replicas?.read(parts.fleet.chainId),
    }),
    /**
     * Applies the live keys of another config (`config/changes.ts`) without interrupting requests; resolves when they are
     * in force. One call at a time.
     */
    apply(next: Config) {
      const apply = () => applyTo(parts, shareOf(next, processes), options.times);
      applied = applied.then(apply, apply);
      return applied;
    },
    setLog: (next: LogConfig) => logging.set(next),
    /** Stops accepting, drains requests in flight within a bound, and frees everything. */
    async close() {
      draining.isOn = true;
      await parts.connections.drain(proxy.server, {
        delayMs: options.drainDelayMs ?? 0,
        maxMs: drainMs,
        onCutOff: () => options.log.warn({ drainMs }, 'requests still in flight at the end of the drain were cut off'),
      });
      await freeParts(parts);
      await proxy.flushTraces();
    },
    /** Frees everything at once. */
    async stop() {
      await proxy.server.close();
      await freeParts(parts);
    },
  };
}

async function start(parts: Parts, config: Config): Promise<void> {
  const { access, cache, fleet, lag, proxy, replicas, status } = parts;
  lag.start();
  await fleet.start();
  const looked = Promise.all([cache.start(), access?.started]);
  await Promise.race([looked, sleep(firstLookMs, undefined, { ref: false })]);
  status.start();
  await proxy.server.listen({ host: config.listen.host, port: config.listen.port });
  replicas?.start(portOf(proxy.server));
}

/** Applies the live keys of `next`, this process's share of the config. */
async function applyTo(parts: Parts, next: Config, times: ServingOptions['times']): Promise<void> {
  const { access, cache, fleet, proxy, settings } = parts;
  if (next.access !== undefined) access?.check(next.access);
  settings.apply(next);
  // Before irreversible steps: it may reject the config.
  await fleet.follow(next);
  if (next.access !== undefined) access?.update(next.access);
  proxy.targets.clear();
  proxy.server.server.timeout = times?.inactivityMs ?? inactivityMs(next);
  // In the background: evicts in steps.
  void cache.memory.resize(next.cache.memory.maxBytes);
}
