/** Joins the cache with the fleet, whose nodes confirm the history of its ledger. */
import { type Cache, createCache } from '../cache/index.ts';
import type { Config } from '../config/index.ts';
import type { LedgerVersion } from '../ledger/index.ts';
import { LedgerIdentity } from '../upstream/index.ts';
import type { FleetParts } from './fleet.ts';
import type { ServingContext } from './settings.ts';

/** Builds the cache of this process. */
export function buildCache(config: Config['cache'], parts: FleetParts, context: ServingContext): Cache {
  const { fleet, latest, prober, sender, witness } = parts;
  return createCache(config, {
    ...context,
    chainId: () => fleet.chainId,
    identity: new LedgerIdentity(fleet, sender),
    generation: () => fleet.generation,
    outageFromMs: () => fleet.outageFromMs,
    readRoots: (known, wantsNext) => witness.look(known, wantsNext),
    replaceHistory: (version) => fleet.replaceHistory(version as LedgerVersion),
    news: {
      onServed: (version) => latest.onPeerVersion(version as LedgerVersion),
      onRefused: (node, version) => fleet.onPeerRefusal(node, version as LedgerVersion, performance.now()),
    },
    onAwaited: () => prober.lookAtSecond(),
  });
}
