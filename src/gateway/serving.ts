/** The part of the gateway that answers clients, one in every serving process: start, reload and drain. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/index.ts';
import { applyPeerEvent, type PeerEvent } from './peer-workers.ts';
import { buildParts, freeParts, loadOptional, shareOf, type Parts, type ServingOptions } from './serving-graph.ts';

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
  const { clientPort, journal, logging, operations, registry } = parts;
  try {
    await start(parts);
  } catch (error) {
    await clientPort.stop();
    await freeParts(parts);
    throw error;
  }
  let applied = Promise.resolve();
  return {
    port: clientPort.number(),
    registry,
    operations,
    journal,
    applyPeerEvent: (event: PeerEvent) => applyPeerEvent(parts, event),
    get isDraining() {
      return clientPort.isDraining();
    },
    /**
     * Applies the live keys of another config (`config/changes.ts`) without interrupting requests; resolves when they are
     * in force. One call at a time.
     */
    apply(next: Config) {
      const apply = () => applyTo(parts, shareOf(next, processes));
      applied = applied.then(apply, apply);
      return applied;
    },
    setLog: (next: Config['log']) => logging.set(next),
    /** Stops accepting, drains requests in flight within a bound, and frees everything. */
    async close() {
      await clientPort.drain({
        delayMs: options.drainDelayMs ?? 0,
        maxMs: drainMs,
        onCutOff: () => options.log.warn({ drainMs }, 'requests still in flight at the end of the drain were cut off'),
      });
      await freeParts(parts);
      await clientPort.flushTraces();
    },
    /** Frees everything at once. */
    async stop() {
      await clientPort.stop();
      await freeParts(parts);
    },
  };
}

async function start(parts: Parts): Promise<void> {
  const { access, cache, clientPort, fleet, operations } = parts;
  clientPort.start();
  await fleet.start();
  const looked = Promise.all([cache.start(), access?.started]);
  await Promise.race([looked, sleep(firstLookMs, undefined, { ref: false })]);
  operations.start();
  await clientPort.listen();
}

/** Applies the live keys of `next`, this process's share of the config. */
async function applyTo(parts: Parts, next: Config): Promise<void> {
  const { access, cache, clientPort, fleet, settings } = parts;
  if (next.access !== undefined) access?.check(next.access);
  settings.apply(next);
  // Before irreversible steps: it may reject the config.
  await fleet.follow(next);
  if (next.access !== undefined) access?.update(next.access);
  clientPort.apply(next);
  // In the background: evicts in steps.
  void cache.memory.resize(next.cache.memory.maxBytes);
}
